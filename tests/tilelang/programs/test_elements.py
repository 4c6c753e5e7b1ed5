"""Widening and narrowing: torch's, bit for bit."""

from __future__ import annotations

import ctypes

import float_patterns
import pytest
import torch

from tileops_tilelang.cpu import build, toolchain

pytestmark = pytest.mark.usefixtures("compiler")

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
every_dtype = pytest.mark.parametrize("name", DTYPES)
every_step = pytest.mark.parametrize("step", [1, 2])
"""Side by side, where whole blocks are converted, and apart."""


@pytest.fixture(scope="module")
def convert(tmp_path_factory):
    """``convert(x, dtype, step=)`` by a program of nothing else."""
    made = {}

    def make(source_dtype, dtype, step):
        from conversion_program import converted

        from tileops_tilelang.cpu import source
        from tileops_tilelang.programs.c_schedule import CSchedule

        text = source.source(converted(CSchedule(), source_dtype, dtype, step=step))
        place = tmp_path_factory.mktemp("conversion")
        path = place / "loaded.so"
        command = toolchain.compiler()
        library = build.compiled(command, text, place, source.include_directory())
        path.write_bytes(library)
        run = ctypes.CDLL(str(path)).tileops_run
        run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32]
        run.argtypes += [ctypes.c_int64, ctypes.c_int32]
        return run

    def call(x, dtype, *, step):
        key = str(x.dtype).removeprefix("torch."), str(dtype).removeprefix("torch."), step
        run = made.get(key) or made.setdefault(key, make(*key))
        y = torch.full(x.shape, 77.0, dtype=dtype)
        run(x.data_ptr(), y.data_ptr(), x.numel() // step, 1, 1)
        return y

    return call


@every_dtype
@every_step
def test_every_stored_value_is_widened_as_torch_does(convert, name, step):
    x = float_patterns.every_stored(DTYPES[name])
    assert float_patterns.same(convert(x, torch.float32, step=step), x.float())


@every_dtype
@every_step
def test_float32_is_rounded_as_torch_does(convert, name, step):
    dtype = DTYPES[name]
    x = float_patterns.many_float32(dtype)
    x = x[: x.numel() // step * step]
    assert float_patterns.same(convert(x, dtype, step=step), x.to(dtype))


@every_dtype
@every_step
def test_what_is_read_and_written_again_has_not_changed(convert, name, step):
    x = float_patterns.every_stored(DTYPES[name])
    assert float_patterns.same(convert(x, DTYPES[name], step=step), x)
