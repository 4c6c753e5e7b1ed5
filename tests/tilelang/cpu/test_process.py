"""What only a process of its own can show: what is loaded, started, left behind and changed."""

from __future__ import annotations

import os

import pytest

from tileops_tilelang.cpu import toolchain

pytestmark = pytest.mark.usefixtures("compiler")

WATCH = """
    import sys, torch
    started = []
    STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system")
    sys.addaudithook(lambda event, args: event in STARTS and started.append((event, args)))
"""


def test_nothing_before_a_build_imports_tilelang_or_starts_a_process(python):
    """REG-11. Doctor tries a compiler that was never tried; here one was."""
    assert toolchain.missing() is None
    python(
        WATCH
        + """
    import tileops_core
    from tileops_core import ops
    from tileops_core.backend.registry import REGISTRY
    from tileops_core.cli import tileops
    from click.testing import CliRunner

    REGISTRY.ensure_loaded()
    op = ops.RMSNormFwdOp(8, target="tilelang")
    for command in (["doctor"], ["ops"], ["show", "RMSNormFwdOp"]):
        done = CliRunner().invoke(tileops, command)
        assert done.exit_code == 0, done.output
    assert not {"tilelang", "tvm"} & set(sys.modules)
    assert not torch.cuda.is_initialized()
    assert not started, started
    """
    )


CALLS = """
    from tileops_core import ops
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 8, generator=generator)
    results = [
        ops.RMSNormFwdOp(8, target="tilelang")(x),
        ops.SoftmaxFwdOp(-1, target="tilelang")(x.half()),
    ]
    print([r.tolist() for r in results])
"""


@pytest.mark.slow
def test_a_process_that_finds_everything_on_the_disk_compiles_nothing(python, own_cache):
    """REG-11: neither TileLang nor a compiler."""
    first = python("import torch\n" + CALLS.replace("\n    ", "\n"))
    second = python(
        WATCH
        + CALLS
        + """
    assert not {"tilelang", "tvm", "tileops_tilelang.cpu.source"} & set(sys.modules)
    assert not started, started
    """
    )
    assert second.stdout == first.stdout


def test_a_loaded_library_leaves_denormals_and_rounding_as_they_were(python):
    """A library linked with -ffast-math would flush them from then on, in torch too."""
    python("""
        import sys, threading, torch

        def states():
            found = []
            def look():
                x = torch.full((100,), 1e-40)
                found.append(bool((x * 0.5 != 0).all() and (x + 0 == x).all()))
                found.append(sys.float_info.min / 4 > 0)  # Python's own, double
                found.append(float(torch.tensor([1.0]) + 2.0**-24) == 1.0)
                found.append(float(torch.tensor([1.0]) + 3 * 2.0**-25) > 1.0)
            look()
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            return found

        before = states()
        assert all(before), before
        torch.set_num_threads(2)
        from tileops_core import ops
        x = torch.randn(3000, 64)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            ops.RMSNormFwdOp(64, target="tilelang")(x.to(dtype))
            ops.SoftmaxFwdOp(-1, target="tilelang")(x.to(dtype))
            ops.GELUAndMulFwdOp(target="tilelang")(x.to(dtype))
        assert states() == before
    """)


def test_a_process_that_flushes_denormals_gets_the_same_float16_results(python):
    python("""
        import torch
        from tileops_core import ops
        torch.manual_seed(0)
        tiny = (torch.randn(4, 64) * 2.0**-16).half()
        mixed = torch.where(torch.rand(4, 64) < 0.5, tiny, torch.randn(4, 64).half())
        assert (tiny != 0).any() and (tiny.abs() < 2.0**-14).any()
        calls = [
            lambda x: ops.RMSNormFwdOp(64, 1e-6, target="tilelang")(x),
            lambda x: ops.FusedAddRMSNormFwdOp(1e-6, target="tilelang")(x, x, x[0])[1],
            lambda x: ops.SiLUAndMulFwdOp(target="tilelang")(x),
            lambda x: ops.RoPEFwdOp("neox", target="tilelang")(x),
            lambda x: ops.RoPEFwdOp("interleaved", target="tilelang")(x),
            lambda x: ops.ArgmaxFwdOp(-1, target="tilelang")(x),
            lambda x: ops.SoftmaxFwdOp(-1, target="tilelang")(x),
        ]
        expected = [[call(x) for call in calls] for x in (tiny, mixed)]
        if not torch.set_flush_denormal(True):
            raise SystemExit(0)
        assert not (torch.full((8,), 1e-40) * 0.5).any()
        for x, results in zip((tiny, mixed), expected, strict=True):
            for call, result in zip(calls, results, strict=True):
                assert torch.equal(call(x), result)
    """)


FORK = """
    import os, sys, time, torch
    from tileops_core import ops
    torch.set_num_threads(2)
    x = torch.randn(3000, 64)
    op = ops.RMSNormFwdOp(64, target="tilelang")
    expected = op(x)
    child = os.fork()
    if not child:
        results = op(x), ops.RMSNormFwdOp(64, target="tilelang")(x)
        torch.set_num_threads(1)  # torch's own functions would wait for threads that are not there
        os._exit(0 if all(torch.equal(y, expected) for y in results) else 3)
    until = time.monotonic() + 60
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > until:
            os.kill(child, 9)
            os.waitpid(child, 0)
            sys.exit("the child's call does not return")
        time.sleep(0.02)
    assert status == 0, status
    assert torch.equal(op(x), expected)
"""


def test_a_child_forked_after_a_call_over_threads_can_call(python):
    """REG-11: the runtime's threads stay in the parent."""
    python(FORK)


@pytest.mark.slow
def test_importing_tilelang_leaves_children_and_uncaught_exceptions_alone(python, own_cache):
    python(
        """
    import os, sys, torch
    from tileops_core import ops
    before = os.environ.get("PYTHONPATH"), sys.excepthook
    ops.RMSNormFwdOp(8, target="tilelang")(torch.ones(2, 8))
    assert "tilelang" in sys.modules
    assert (os.environ.get("PYTHONPATH"), sys.excepthook) == before
    """
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_a_thread_imports_tilelang_has_a_child_that_works(python, own_cache):
    python(
        """
    import os, signal, sys, threading, time, torch
    from tileops_core import ops

    def first_call():
        ops.RMSNormFwdOp(8, target="tilelang")(torch.ones(2, 8))

    thread = threading.Thread(target=first_call)
    thread.start()
    while "tilelang" not in sys.modules:
        time.sleep(0.001)
    child = os.fork()
    if not child:
        signal.alarm(60)
        first_call()
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    """
    )
