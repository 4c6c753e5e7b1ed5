"""Every program in its CUDA form compiles; none of them runs here."""

from __future__ import annotations

import shutil

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("compiler"),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc"),
]

PROGRAMS = {
    "rms_norm": ("norm:rms_norm", {"weighted": True}),
    "fused_add_rms_norm": ("norm:fused_add_rms_norm", {}),
    "layer_norm": ("norm:layer_norm", {"weighted": True, "shifted": True}),
    "fused_add_layer_norm": ("norm:fused_add_layer_norm", {}),
    "gelu": ("gated:gated", {"function": "gelu"}),
    "rope": ("rope:rope", {"interleaved": False}),
    "rope_position_ids": ("rope:rope_position_ids", {"index_dtype": "int64"}),
    "softmax": ("reduction:softmax", {"out_dtype": "float32"}),
    "argmax": ("reduction:argmax", {}),
}


@pytest.mark.parametrize(("dtype", "arch"), [("bfloat16", "sm_80"), ("float16", "sm_90a")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_becomes_a_cubin(name, dtype, arch):
    from importlib import import_module

    import tilelang
    from tilelang.contrib import nvcc
    from tvm.target import Target

    from tileops_tilelang.programs.cuda_schedule import CUDASchedule

    (module, _, function), facts = PROGRAMS[name][0].partition(":"), PROGRAMS[name][1]
    make = getattr(import_module(f"tileops_tilelang.programs.{module}"), function)
    program = make(CUDASchedule(), dtype, **facts)
    target = Target({"kind": "cuda", "arch": arch})
    with target:
        text = tilelang.lower(program.func, target=target).kernel_source
        options = nvcc.default_compile_options()
        cubin = nvcc.compile_cuda(text, target_format="cubin", options=options, arch=arch)
    assert bytes(cubin[:4]) == b"\x7fELF"
    assert "__global__ void" in text
