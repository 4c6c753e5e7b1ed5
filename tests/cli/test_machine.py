"""What this machine's devices can do at best."""

from __future__ import annotations

import click
import pytest
import torch

from tileops_core.cli import machine
from tileops_core.record.profiles import DEFAULT_KEY


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def clock(monkeypatch):
    """Each launch runs once and takes a second."""
    ran = []

    def measure(run, device):
        run()
        ran.append(run)
        return 1.0

    monkeypatch.setattr(machine, "measure", measure)
    return ran


def test_the_cpu_is_measured_by_streams_and_products(clock):
    found = machine.measure_cpu(elements=1000, matrices=(4,))
    assert found.bandwidth == 3 * 1000 * 4
    assert found.peaks[DEFAULT_KEY] == 2 * 4**3
    assert set(found.peaks) >= {DEFAULT_KEY, "cuda_core.fp64", "tensor_core.bf16"}
    assert machine.profile_of(torch.device("cpu")) == found
    assert machine.profile_named("cpu") == found


def test_a_cpu_that_is_slow_in_16_bits_may_convert(monkeypatch):
    rates = {torch.float32: 8.0, torch.float16: 1.0, torch.bfloat16: 100.0, torch.float64: 4.0}
    monkeypatch.setattr(machine, "_products", lambda matrices, dtype: rates[dtype])
    monkeypatch.setattr(machine, "_stream", lambda elements: 1.0)
    peaks = machine.measure_cpu().peaks
    assert peaks["tensor_core.fp16"] == peaks[DEFAULT_KEY] == 8.0
    assert (peaks["tensor_core.bf16"], peaks["cuda_core.fp64"]) == (100.0, 4.0)


def test_matrices_grow_as_long_as_that_does_not_take_long(monkeypatch):
    sizes = []

    def measure(run, device):
        sizes.append(run.args[0].shape[0])
        return 0.01 * len(sizes)

    monkeypatch.setattr(machine, "measure", measure)
    assert machine._products((8, 16, 32, 64), torch.float32) == 2 * 16**3 / 0.02
    assert sizes == [8, 16]


def test_a_dtype_that_torch_does_not_multiply_has_no_rate(monkeypatch):
    def fail(run, device):
        raise RuntimeError("not implemented for this")

    monkeypatch.setattr(machine, "measure", fail)
    assert machine._products((8,), torch.float16) is None


def test_a_cpu_that_was_not_measured_has_no_profile():
    assert machine.profile_of(torch.device("cpu")) is None
    assert machine.profile_named("cpu") is None


def test_a_card_is_named_or_guessed_at():
    assert machine.profile_named("a100-40gb").name == "a100-40gb"
    with (
        click.Context(click.Command("show")),
        pytest.raises(click.UsageError, match="did you mean 'h100-sxm'"),
    ):
        machine.profile_named("h100-sxn")
