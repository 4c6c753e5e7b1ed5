from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llama
import llama_block
import llama_plain
import pytest
import torch
from llama import Block, Cache, Config, Step, Weights
from torch.utils._python_dispatch import TorchDispatchMode

from tileops_core.errors import DispatchError, SignatureError
from tileops_core.ops import (
    GELUAndMulFwdOp,
    GQADenseFwdOp,
    RMSNormFwdOp,
    RoPENeoxPositionIdsFwdOp,
)

SMALL = Config(
    hidden_size=64,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,
    intermediate_size=96,
    max_position_embeddings=64,
)
TOKENS = 9


def run(block: Block, x: torch.Tensor, *parts: int) -> list[llama.Pair]:
    """Run parts of x, of so many tokens each, one after the other with one cache."""
    cache = Cache(block.config, len(x), x.dtype)
    return [block(part, cache) for part in x.split(list(parts))]


def given(dtype: torch.dtype) -> tuple[Weights, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(TOKENS, SMALL.hidden_size, generator=generator)
    return llama.random_weights(SMALL).to(dtype), x.to(dtype)


def exact(weights: Weights, x: torch.Tensor) -> llama.Pair:
    return llama_plain.block(x.double(), weights.to(torch.float64), SMALL)


@pytest.mark.parametrize("dtype", llama_block.LIMITS, ids=str)
@pytest.mark.parametrize("target", llama_block.TARGETS)
def test_prefill_and_decode_are_what_plain_torch_computes(
    target: str | None, dtype: torch.dtype
) -> None:
    weights, x = given(dtype)
    prefill, decode = run(Block(SMALL, weights, target), x, TOKENS - 1, 1)
    normalized, left = exact(weights, x)
    limit = llama_block.LIMITS[dtype]
    assert llama_block.difference(prefill, (normalized[:-1], left[:-1])) < limit
    assert llama_block.difference(decode, (normalized[-1:], left[-1:])) < limit


@pytest.mark.parametrize("parts", [(TOKENS - 1, 1), (4, 3, 2), (1,) * TOKENS])
def test_tokens_that_follow_a_cache_are_those_of_one_prefill(parts: tuple[int, ...]) -> None:
    weights, x = given(torch.float32)
    block = Block(SMALL, weights)
    (whole,) = run(block, x, TOKENS)
    for one, other in zip(whole, zip(*run(block, x, *parts), strict=True), strict=True):
        torch.testing.assert_close(torch.cat(other), one, rtol=1e-5, atol=1e-5)


def test_plain_torch_gives_what_its_own_attention_and_norm_give() -> None:
    """The judge writes both out; here torch's fused functions judge the judge."""
    q, k, v = (torch.randn(TOKENS, heads, 16, dtype=torch.float64) for heads in (6, 2, 2))
    fused = torch.nn.functional.scaled_dot_product_attention(
        *(t.transpose(0, 1)[None] for t in (q, k, v)), is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(llama_plain.attention(q, k, v), fused[0].transpose(0, 1))
    x, weight = torch.randn(3, 8), torch.randn(8)
    torch.testing.assert_close(
        llama_plain.rms_norm(x, weight, 1e-5), torch.rms_norm(x, [8], weight, 1e-5)
    )


def test_plain_torch_turns_a_query_and_a_key_by_their_distance() -> None:
    q, k = torch.randn(2, 1, 1, 16, dtype=torch.float64).expand(2, TOKENS, 1, 16)
    scores = torch.einsum("ihd,jhd->ij", *(llama_plain.rotated(t, 500_000.0) for t in (q, k)))
    for distance in range(1 - TOKENS, TOKENS):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    torch.testing.assert_close(scores.diagonal(), torch.einsum("ihd,ihd->i", q, k))


def test_the_dimensions_are_those_of_llama_3_2_1b() -> None:
    config = llama.LLAMA_3_2_1B
    assert config == Config(2048, 32, 8, 64, 8192, 1e-5, 500_000.0, 131_072)
    assert config.num_attention_heads * config.head_dim == config.hidden_size


def test_weights_come_from_their_seed() -> None:
    one, same, other = (llama.random_weights(SMALL, seed) for seed in (3, 3, 4))
    assert all(map(torch.equal, one.all(), same.all()))
    assert not any(map(torch.equal, one.all(), other.all()))


def test_values_keep_about_the_size_that_they_come_with() -> None:
    weights, x = given(torch.float32)
    ((normalized, left),) = run(Block(SMALL, weights), x, TOKENS)
    assert 0.5 < normalized.square().mean().sqrt() < 2
    assert 0.5 < left.square().mean().sqrt() < 3


COMPUTES_NOTHING = {
    "aten::arange.start",
    "aten::copy_",
    "aten::select.int",
    "aten::slice.Tensor",
    "aten::unsqueeze",
    "aten::view",
}


class OutsideOps(TorchDispatchMode):
    """Notes what PyTorch runs while no op does."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.ran: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self.inside:
            self.ran.add(func.name())
        return func(*args, **(kwargs or {}))


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> OutsideOps:
    mode, call = OutsideOps(), Step.__call__

    def watched(step: Step, *tensors: torch.Tensor) -> Any:
        mode.inside = True
        try:
            return call(step, *tensors)
        finally:
            mode.inside = False

    monkeypatch.setattr(Step, "__call__", watched)
    return mode


@pytest.mark.parametrize("target", llama_block.TARGETS)
def test_outside_ops_there_are_only_views_and_copies_into_the_cache(
    outside: OutsideOps, target: str | None
) -> None:
    weights, x = given(torch.float32)
    block, cache = Block(SMALL, weights, target), Cache(SMALL, TOKENS, x.dtype)
    with torch.no_grad(), outside:
        block(x[:-1], cache)
        block(x[-1:], cache)
    assert outside.ran
    assert outside.ran <= COMPUTES_NOTHING


def test_a_computation_outside_ops_would_be_seen(outside: OutsideOps) -> None:
    x = torch.ones(2)
    with outside:
        x * 2
    assert outside.ran == {"aten::mul.Tensor"}


def test_what_a_target_does_not_serve_is_told_and_runs_on_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(llama_block, "TARGETS", (None, "reference", "nobody"))
    weights, x = given(torch.float32)
    default, reference, nobody = llama_block.runs_of(SMALL, weights, x, 1)
    torch.testing.assert_close(nobody.decode.outputs, default.decode.outputs, rtol=0, atol=0)
    assert all(taken.as_asked for taken in default.decode.ops + reference.prefill.ops)
    assert not any(taken.as_asked for taken in nobody.prefill.ops + nobody.decode.ops)
    assert default.reasons == []
    assert [op for op, _ in nobody.reasons] == [taken.op for taken in nobody.prefill.ops]
    assert "'nobody'" in nobody.reasons[0][1]


def test_a_call_that_a_target_refuses_leaves_it_its_other_calls() -> None:
    class Picky:
        """Serves one row, as a kernel that knows no more might."""

        def __init__(self, op: RMSNormFwdOp) -> None:
            self.op = op

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 1:
                raise DispatchError("RMSNormFwdOp: nobody serves it:\n  'one' (acme): refuses: two")
            return self.op(x)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.op, name)

    step = Step(RMSNormFwdOp, (8,), target="reference")
    step._asked = Picky(step._asked)
    for rows in (1, 2, 1):
        assert step(torch.randn(rows, 8)).shape == (rows, 8)
    assert [call.as_asked for call in step.calls] == [True, False, True]
    assert list(step.reasons) == ["'one' (acme): refuses: two"]


def test_a_wrong_call_is_an_error_and_no_refusal() -> None:
    step = Step(RMSNormFwdOp, (8,), target="reference")
    with pytest.raises(SignatureError):
        step(torch.randn(2, 9))
    assert not step.reasons


def main(*arguments: str) -> int:
    return llama_block.main(
        ["--tokens", "8", "--repeats", "2", "--threads", str(torch.get_num_threads()), *arguments],
        SMALL,
    )


def test_the_script_succeeds_and_says_who_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    text = capsys.readouterr().out
    ops = [step.name for step in llama.Steps(SMALL, None).all()]
    rows = [line.split() for line in text.splitlines()]
    assert [words[0] for words in rows if words and words[0] in ops] == 2 * ops  # a table per dtype
    served = [words[:2] for words in rows if words[:1] == ["reference"] and len(words) == 5]
    assert served == 2 * len(ops) * [["reference", "reference:reference"]]
    assert text.count("largest difference from plain PyTorch") == 6
    assert "NOT within" not in text


def test_the_script_says_what_is_not_served_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(llama_block, "TARGETS", (None, "nobody"))
    assert main("--dtype", "float32") == 0
    text = capsys.readouterr().out
    assert text.count("not served (") == 6
    assert "- RMSNormFwdOp, GEMMFwdOp, RoPENeoxPositionIdsFwdOp, GQADenseFwdOp, " in text
    assert "'nobody'" in text


def test_a_table_fits_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    main("--dtype", "float32")
    text = capsys.readouterr().out
    assert all(word in text for word in ("RoPENeoxPositionIdsFwdOp", "prefill", "decode"))
    assert "…" not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("- ")) <= 100


FAULTS: dict[str, Callable[[], Step]] = {
    "attention": lambda: Step(GQADenseFwdOp, is_causal=False, target=None),
    "rope": lambda: Step(RoPENeoxPositionIdsFwdOp, 64, 10_000.0, target=None),
    "silu_and_mul": lambda: Step(GELUAndMulFwdOp, target=None),
    "norm": lambda: Step(RMSNormFwdOp, (64,), 0.5, target=None),
}


@pytest.mark.parametrize("dtype", llama_block.DTYPES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_script_fails_when_a_result_is_too_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str, dtype: str
) -> None:
    class Faulty(Block):
        def __init__(self, config: Config, weights: Weights, target: str | None) -> None:
            super().__init__(config, weights, target)
            if target == "reference":
                setattr(self.steps, fault, FAULTS[fault]())

    monkeypatch.setattr(llama_block, "Block", Faulty)
    assert main("--dtype", dtype) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "NOT within" in line)
    assert line.startswith("reference: ")
