"""One transformer block of Llama over ops: every computation of it is an op's.

The dimensions are Llama-3.2-1B's (https://huggingface.co/meta-llama/Llama-3.2-1B, `config.json`),
the weights random. That model also stretches the longest wavelengths of its rotary embedding
(`rope_scaling`); no op does that yet, so the block turns by its base alone. Views and the copies
into the cache compute nothing, so they are plain PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch

from tileops_core import Op
from tileops_core.errors import BackendError
from tileops_core.ops import (
    FusedAddRMSNormFwdOp,
    GEMMFwdOp,
    GQADenseFwdOp,
    RMSNormFwdOp,
    RoPENeoxPositionIdsFwdOp,
    SiLUAndMulFwdOp,
)

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Config:
    """The block's dimensions, under the names of the model's configuration.

    Args:
        hidden_size: Length of a token's vector.
        num_attention_heads: Heads of the queries.
        num_key_value_heads: Heads of keys and values; each serves equally many query heads.
        head_dim: Length of a head's vectors, even.
        intermediate_size: Width inside the MLP.
        rms_norm_eps: Of the norms.
        rope_theta: Base of the rotary embedding.
        max_position_embeddings: What positions are below.
    """

    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500_000.0
    max_position_embeddings: int = 131_072


LLAMA_3_2_1B = Config(
    hidden_size=2048,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    intermediate_size=8192,
)


@dataclass(frozen=True)
class Weights:
    """What the block is made of, matrices as a linear layer stores them: [outputs, inputs].

    Args:
        norm: [hidden], the norm before attention.
        qkv: [(heads + 2 · kv_heads) · head_dim, hidden]: queries, keys, values.
        out: [hidden, heads · head_dim].
        mlp_norm: [hidden], the norm before the MLP.
        gate_up: [2 · intermediate, hidden]: the gate, then what it lets through.
        down: [hidden, intermediate].
        next_norm: [hidden], the norm that follows: the next block's first or the model's last.
    """

    norm: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    next_norm: torch.Tensor

    def to(self, dtype: torch.dtype) -> Weights:
        """The same, rounded to a dtype."""
        return Weights(*(tensor.to(dtype) for tensor in self.all()))

    def all(self) -> list[torch.Tensor]:
        """Every tensor."""
        return [getattr(self, field.name) for field in fields(self)]


def random_weights(config: Config, seed: int = 0) -> Weights:
    """Seeded weights, float32, under which vectors keep about the size that they come with.

    A sum of K products has K times their variance; so a matrix's numbers have variance 1/K.
    """
    generator = torch.Generator().manual_seed(seed)

    def matrix(outputs: int, inputs: int) -> torch.Tensor:
        return torch.randn(outputs, inputs, generator=generator).mul_(inputs**-0.5)

    def scale() -> torch.Tensor:
        return torch.randn(config.hidden_size, generator=generator).mul_(0.1).add_(1)

    hidden, dim = config.hidden_size, config.head_dim
    queries, keys = config.num_attention_heads * dim, config.num_key_value_heads * dim
    return Weights(
        norm=scale(),
        qkv=matrix(queries + 2 * keys, hidden),
        out=matrix(hidden, queries),
        mlp_norm=scale(),
        gate_up=matrix(2 * config.intermediate_size, hidden),
        down=matrix(hidden, config.intermediate_size),
        next_norm=scale(),
    )


@dataclass(frozen=True)
class Call:
    """One call that the block made of an op.

    Args:
        op: Who was called.
        tensors: With what.
        served_by: Who served it.
        as_asked: Whether that is who should, not somebody in the target's stead.
    """

    op: Op
    tensors: tuple[torch.Tensor, ...]
    served_by: str
    as_asked: bool


class Step:
    """One op of the block, and the calls that it made since it last forgot them.

    Naming a target never falls back. The block has to go on, so what the target does not serve is
    called once more with no target named; the step says so, and keeps the reason.

    Args:
        kind: The op's class.
        *args: What it is constructed with.
        target: Who serves it; None for whoever serves the tensors' device.
        **params: As `args`.
    """

    def __init__(self, kind: type[Op], *args: Any, target: str | None, **params: Any) -> None:
        self.name = kind.__name__
        self.reasons: dict[str, None] = {}  # in order, each once
        self.calls: list[Call] = []
        self._default = kind(*args, **params)
        self._asked: Op | None = self._default
        if target is not None:
            try:
                self._asked = kind(*args, **params, target=target)
            except BackendError as error:
                self._asked = None
                self.reasons[reason_of(error)] = None

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Call the op, and keep the call."""
        if self._asked is not None:
            try:
                return self._called(self._asked, tensors)
            except BackendError as error:
                if self._asked is self._default:
                    raise
                self.reasons[reason_of(error)] = None
        return self._called(self._default, tensors)

    def _called(self, op: Op, tensors: tuple[torch.Tensor, ...]) -> Any:
        result = op(*tensors)
        self.calls.append(Call(op, tensors, server_of(op), op is self._asked))
        return result

    def forget(self) -> None:
        """Forget the calls; what was not served, and why, is kept."""
        self.calls = []


class Steps:
    """The ops of the block, by what they do in it.

    Args:
        config: The block's dimensions.
        target: Who serves them; None for whoever serves the tensors' device.
    """

    def __init__(self, config: Config, target: str | None) -> None:
        hidden, eps = config.hidden_size, config.rms_norm_eps
        positions, base = config.max_position_embeddings, config.rope_theta
        self.norm = Step(RMSNormFwdOp, (hidden,), eps, target=target)
        self.matmul = Step(GEMMFwdOp, trans_b=True, target=target)
        self.rope = Step(RoPENeoxPositionIdsFwdOp, positions, base, target=target)
        # Query i stands at the position of key i + keys - queries: tokens after a cache see it all.
        self.attention = Step(GQADenseFwdOp, is_causal=True, target=target)
        self.add_and_norm = Step(FusedAddRMSNormFwdOp, eps, target=target)
        self.silu_and_mul = Step(SiLUAndMulFwdOp, target=target)

    def all(self) -> list[Step]:
        """Every step, in the order of first use."""
        return list(vars(self).values())


class Cache:
    """Keys and values of the tokens so far.

    Args:
        config: The block's dimensions.
        room: How many tokens it can hold.
        dtype: Of keys and values.
    """

    def __init__(self, config: Config, room: int, dtype: torch.dtype) -> None:
        shape = (room, config.num_key_value_heads, config.head_dim)
        self.keys = torch.empty(shape, dtype=dtype)
        self.values = torch.empty(shape, dtype=dtype)
        self.length = 0

    def extend(self, keys: torch.Tensor, values: torch.Tensor) -> Pair:
        """Append those of new tokens, [tokens, kv_heads, head_dim]; give all there are now."""
        first, self.length = self.length, self.length + keys.shape[0]
        self.keys[first : self.length] = keys
        self.values[first : self.length] = values
        return self.keys[: self.length], self.values[: self.length]


class Block:
    """The transformer block.

    Args:
        config: Its dimensions.
        weights: Its tensors; their dtype is what it takes and gives.
        target: Who serves its ops; None for whoever serves the tensors' device.
    """

    def __init__(self, config: Config, weights: Weights, target: str | None = None) -> None:
        self.config = config
        self.weights = weights
        self.steps = Steps(config, target)

    def __call__(self, x: torch.Tensor, cache: Cache) -> Pair:
        """Run tokens that follow those of the cache: a prompt, a part of it, or one token.

        Args:
            x: [tokens, hidden], what the block before left.
            cache: Holds the tokens before, and these afterwards.

        Returns:
            What the block leaves, normalized for who follows, and itself: [tokens, hidden] each.
        """
        steps, weights, dim = self.steps, self.weights, self.config.head_dim
        heads, kv_heads = self.config.num_attention_heads, self.config.num_key_value_heads
        positions = torch.arange(cache.length, cache.length + x.shape[0])

        normalized = steps.norm(x, weights.norm)
        qkv = steps.matmul(normalized, weights.qkv).unflatten(1, (-1, dim))
        # Queries and keys are turned alike, each head by itself: one call for all of them.
        turned = steps.rope(qkv[:, : heads + kv_heads], positions)
        keys, values = cache.extend(turned[:, heads:], qkv[:, heads + kv_heads :])
        seen = steps.attention(turned[None, :, :heads], keys[None], values[None])
        attended = steps.matmul(seen.flatten(2)[0], weights.out)
        normalized, x = steps.add_and_norm(attended, x, weights.mlp_norm)
        inner = steps.silu_and_mul(steps.matmul(normalized, weights.gate_up))
        normalized, x = steps.add_and_norm(steps.matmul(inner, weights.down), x, weights.next_norm)
        return normalized, x


def server_of(op: Op) -> str:
    """Who served the op's last call: in-tree backend and kernel type, else the target."""
    served = op.last_call.served_by
    return ", ".join(
        f"{served.backends[place] or 'own'}:{key}" for place, key in served.kernels.items()
    ) or str(served.target)


def reason_of(error: BackendError) -> str:
    """Why a target does not serve a call: what its kernels said, else the error's first sentence.

    Errors here begin with the op, and go on, after a semicolon, with what to do.
    """
    first, *lines = str(error).splitlines()
    said = [line.strip() for line in lines if line.startswith("  ")]
    return ", ".join(said) or first.partition(": ")[2].partition("; ")[0]
