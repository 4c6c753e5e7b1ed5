"""The prelude's conversions of float16: by the processor's instructions, and without them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import float_patterns
import pytest
import torch

import tileops_tilelang.cpu
from tileops_tilelang.cpu import toolchain

pytestmark = pytest.mark.usefixtures("compiler")

PRELUDE = Path(tileops_tilelang.cpu.__file__).parent
SOFTWARE = ("-U__F16C__", "-U__AVX512F__", "-U__ARM_FP16_FORMAT_IEEE")
WAYS = {
    "as programs are compiled": toolchain.FLAGS,
    "without the instructions": (*toolchain.FLAGS, *SOFTWARE),
    "without the instructions or optimization": (
        "-std=c++17",
        "-O0",
        "-shared",
        "-fPIC",
        *SOFTWARE,
    ),
}


@pytest.fixture(scope="module", params=WAYS)
def prelude(request, tmp_path_factory):
    """``widen(source, target, count)`` and ``narrow``."""
    place = tmp_path_factory.mktemp("prelude")
    (place / "prelude.cc").write_text(
        '#include "prelude.h"\n'
        '#define SEEN extern "C" __attribute__((visibility("default")))\n'
        "SEEN void widen(uint16_t* x, float* y, int n) { tileops_widen_float16(x, y, n); }\n"
        "SEEN void narrow(float* x, uint16_t* y, int n) { tileops_narrow_float16(x, y, n); }\n"
    )
    command = toolchain.compiler()
    arguments = (*WAYS[request.param], f"-I{PRELUDE}", "prelude.cc", "-o", "prelude.so")
    subprocess.run([*command, *arguments], check=True, cwd=place)
    library = ctypes.CDLL(str(place / "prelude.so"))
    for function in (library.widen, library.narrow):
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return library


def test_every_float16_is_widened_as_torch_does(prelude):
    x = float_patterns.every_stored(torch.float16)
    y = torch.empty(x.shape)
    prelude.widen(x.data_ptr(), y.data_ptr(), x.numel())
    assert float_patterns.same(y, x.float())


def test_float32_is_rounded_as_torch_does(prelude):
    x = float_patterns.many_float32(torch.float16)
    y = torch.empty(x.shape, dtype=torch.float16)
    prelude.narrow(x.data_ptr(), y.data_ptr(), x.numel())
    assert float_patterns.same(y, x.half())


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 33])
def test_as_many_as_asked_for_are_converted_from_any_address(prelude, count):
    narrow, wide = torch.randn(64).half(), torch.randn(64)
    for start in (0, 1, 3):
        y = torch.full((64,), 77.0)
        prelude.widen(narrow[start:].data_ptr(), y[start:].data_ptr(), count)
        expected = torch.full((64,), 77.0)
        expected[start : start + count] = narrow[start : start + count].float()
        assert torch.equal(y, expected)
        y = torch.full((64,), 77.0).half()
        prelude.narrow(wide[start:].data_ptr(), y[start:].data_ptr(), count)
        expected = torch.full((64,), 77.0).half()
        expected[start : start + count] = wide[start : start + count].half()
        assert torch.equal(y, expected)


def test_a_process_that_flushes_denormals_converts_them_all_the_same(prelude):
    x = float_patterns.every_stored(torch.float16)
    x = x[x.isfinite()]
    wide, again = torch.empty(x.shape), torch.empty_like(x)
    expected = x.float()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    try:
        prelude.widen(x.data_ptr(), wide.data_ptr(), x.numel())
        prelude.narrow(wide.data_ptr(), again.data_ptr(), x.numel())
    finally:
        torch.set_flush_denormal(False)
    assert float_patterns.same(wide, expected)
    assert float_patterns.same(again, x)
