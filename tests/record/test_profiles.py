"""What devices can do at best, and how long a call takes at least."""

from __future__ import annotations

import json
import math

import pytest
import torch

from tileops_core.record import measured
from tileops_core.record.cards import CARDS, card_named, card_of
from tileops_core.record.profiles import DEFAULT_KEY, DeviceProfile, matrix_key

TOY = DeviceProfile("toy", 100.0, {DEFAULT_KEY: 1000.0, "tensor_core.fp16": 8000.0}, "a toy")


def test_a_call_takes_as_long_as_the_slower_of_bytes_and_operations():
    memory = TOY.roof(flops=100, moved=1000)
    assert (memory.seconds, memory.bound) == (10.0, "memory")
    compute = TOY.roof(flops=100_000, moved=1000)
    assert (compute.seconds, compute.bound) == (100.0, "compute")
    matrices = TOY.roof(flops=100_000, moved=1000, key="tensor_core.fp16")
    assert (matrices.seconds, matrices.bound) == (12.5, "compute")


def test_a_unit_that_nobody_knows_bounds_nothing():
    roof = TOY.roof(flops=10**9, moved=100, key="tensor_core.fp4")
    assert (roof.compute, roof.seconds, roof.bound) == (None, 1.0, "memory")


def test_what_has_no_tensor_cores_multiplies_with_what_it_has():
    assert TOY.peak("tensor_core.fp32") == 1000.0


@pytest.mark.parametrize(
    ("dtype", "key"),
    [
        (torch.float16, "tensor_core.fp16"),
        (torch.bfloat16, "tensor_core.bf16"),
        (torch.float8_e4m3fn, "tensor_core.fp8"),
        (torch.int8, "tensor_core.int8"),
        (torch.float32, DEFAULT_KEY),
        ("float64", "tensor_core.fp64"),
    ],
    ids=str,
)
def test_a_matrix_product_has_the_unit_of_its_operands(dtype, key):
    assert matrix_key(dtype) == key


# -- cards ------------------------------------------------------------------------------------


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_card_says_who_says_so_and_has_a_rate_for_float32(card):
    assert card.source.startswith(("NVIDIA ", "AMD "))
    assert card.peaks[DEFAULT_KEY] > 1e12
    assert 1e11 < card.bandwidth < 1e13
    assert all(part == part.lower() for part in card.device_names)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_matrices_are_never_slower_than_vectors_and_half_the_bits_never_slower(card):
    order = [DEFAULT_KEY, "tensor_core.tf32", "tensor_core.fp16", "tensor_core.fp8"]
    order += ["tensor_core.fp4"]
    rates = [card.peaks[key] for key in order if key in card.peaks]
    assert rates == sorted(rates)
    sixteen = {card.peaks.get(f"tensor_core.{kind}") for kind in ("fp16", "bf16")} - {None}
    assert len(sixteen) == 1


SHEET = 0.02
"""Relative: sheets print two or three digits, and some of them the double of a rounded half."""


def ratio(card, one, other):
    """How much faster a unit is than another; None where the card lacks one of them."""
    if one not in card.peaks or other not in card.peaks:
        return None
    return card.peaks[one] / card.peaks[other]


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
@pytest.mark.parametrize(
    ("one", "other", "times"),
    [
        ("fp16", "bf16", 1),
        ("bf16", "tf32", 2),
        ("fp8", "fp16", 2),
        ("fp4", "fp8", 2),
        ("int8", "fp16", 2),
    ],
)
def test_matrices_of_half_the_bits_are_twice_as_fast(card, one, other, times):
    if (card.name, one) == ("rtx-4090", "int8"):
        times = 4  # float32 sums at half the rate, which sums of ints are not
    found = ratio(card, f"tensor_core.{one}", f"tensor_core.{other}")
    assert found is None or found == pytest.approx(times, rel=SHEET)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_vectors_of_float64_are_half_as_fast_as_of_float32(card):
    found = ratio(card, DEFAULT_KEY, "cuda_core.fp64")
    assert found is None or found == pytest.approx(2, rel=0.03)


# What a card consists of: multiprocessors (compute units of MI300X), and of each per clock the
# operations of float32 vectors and of float16 matrices; then the clocks of both in MHz.
PARTS = {
    "h100-sxm": (132, 256, 4096, 1980, 1830),
    "h100-pcie": (114, 256, 4096, 1755, 1620),
    "h200-sxm": (132, 256, 4096, 1980, 1830),
    "a100-sxm-80gb": (108, 128, 2048, 1410, 1410),
    "a100-pcie-80gb": (108, 128, 2048, 1410, 1410),
    "a100-40gb": (108, 128, 2048, 1410, 1410),
    "l40s": (142, 256, 1024, 2520, 2520),
    "l4": (58, 256, 1024, 2040, 2040),
    "rtx-4090": (128, 256, 512, 2520, 2520),
    "v100-sxm2": (80, 128, 1024, 1530, 1530),
    "mi300x": (304, 256, 2048, 2100, 2100),
}


@pytest.mark.parametrize("name", PARTS)
def test_rates_are_those_of_the_parts_of_a_card_at_its_clock(name):
    units, vector, matrix, vector_clock, matrix_clock = PARTS[name]
    card = card_named(name)
    rates = card.peaks[DEFAULT_KEY], card.peaks["tensor_core.fp16"]
    due = units * vector * vector_clock * 1e6, units * matrix * matrix_clock * 1e6
    assert rates == pytest.approx(due, rel=0.005)
    assert all(f"{clock} MHz" in card.source for clock in (vector_clock, matrix_clock))


# The width of a card's memory in bits, and bits per second of each of them, where makers state it.
MEMORY = {
    "a100-40gb": (5120, 2.43e9),
    "b200": (8192, 8e9),
    "l40s": (384, 18e9),
    "l4": (192, 12.5e9),
    "rtx-4090": (384, 21e9),
    "v100-sxm2": (4096, 1.752e9),
    "mi300x": (8192, 5.2e9),
}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_as_fast_as_its_pins(name):
    width, rate = MEMORY[name]
    assert card_named(name).bandwidth == pytest.approx(width / 8 * rate, rel=0.025)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_source_says_that_rates_are_dense_and_at_which_clock(card):
    assert "dense" in card.source
    assert "clock" in card.source


def test_names_are_one_cards():
    assert len({card.name for card in CARDS}) == len(CARDS)
    parts = [part for card in CARDS for part in card.device_names]
    assert len(set(parts)) == len(parts)


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA L40", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("AMD EPYC", None),
    ],
)
def test_a_card_is_known_by_what_its_driver_calls_it(driver, name):
    found = card_of(driver)
    assert (found and found.name) == name


def test_a_card_is_found_by_the_name_of_its_profile():
    assert card_named("h100-sxm").bandwidth == 3.35e12
    assert card_named("h100") is None


# -- what was measured ------------------------------------------------------------------------

CPU = measured.profile("AMD EPYC", 2, 2e10, {DEFAULT_KEY: 1e11})


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    return tmp_path / "profiles"


def test_a_measured_profile_is_kept_for_other_processes():
    assert measured.read("AMD EPYC", 2) is None
    path = measured.keep("AMD EPYC", 2, CPU)
    assert path.exists()
    assert measured.read("AMD EPYC", 2) == CPU
    assert CPU.source == "measured on this machine by torch, AMD EPYC, 2 threads"


@pytest.mark.parametrize("other", [("AMD EPYC", 1), ("Intel", 2)])
def test_it_holds_for_that_processor_and_that_many_threads(other):
    measured.keep("AMD EPYC", 2, CPU)
    assert measured.read(*other) is None


DAMAGED = ["", "{", "[]", "null", "3", '{"bandwidth": 3}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_as_good_as_none(content):
    measured.keep("AMD EPYC", 2, CPU).write_text(content)
    assert measured.read("AMD EPYC", 2) is None


@pytest.mark.parametrize("rate", [0, -1.0, math.inf, math.nan, "fast", None])
def test_a_rate_that_is_none_makes_a_file_as_good_as_none(rate):
    path = measured.keep("AMD EPYC", 2, CPU)
    path.write_text(json.dumps({**json.loads(path.read_text()), "bandwidth": rate}))
    assert measured.read("AMD EPYC", 2) is None


def test_where_nothing_can_be_written_nothing_is_kept(place):
    place.write_text("no directory")
    assert measured.keep("AMD EPYC", 2, CPU) is None
    assert measured.read("AMD EPYC", 2) is None
