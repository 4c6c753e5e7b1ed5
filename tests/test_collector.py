"""The collector looks less often for a while, and as often as before afterwards."""

from __future__ import annotations

import gc
import threading

import pytest
from call_support import python

from tileops_core.collector import rare_collection


@pytest.fixture(autouse=True)
def _usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def test_it_looks_rarely_inside():
    with rare_collection():
        assert gc.get_threshold() == (100_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_failure_puts_back_what_was():
    with pytest.raises(KeyError), rare_collection():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, 200_000])
def test_who_looks_still_less_often_goes_on_so(first):
    gc.set_threshold(first, 10, 10)
    with rare_collection():
        assert gc.get_threshold()[0] == first
    assert gc.get_threshold()[0] == first


def test_contexts_may_lie_in_one_another():
    with rare_collection():
        with rare_collection():
            pass
        assert gc.get_threshold()[0] == 100_000
    assert gc.get_threshold()[0] == 700


def test_the_last_thread_that_leaves_puts_back_what_was():
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with rare_collection():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    with rare_collection():
        thread.start()
        entered.wait()
    assert gc.get_threshold()[0] == 100_000
    leave.set()
    thread.join()
    assert gc.get_threshold()[0] == 700


@pytest.mark.parametrize("module", ["tileops_core.ops", "tileops_core.ops.norm"])
def test_importing_an_op_looks_through_torchs_objects_not_once(module):
    done = python(
        f"""
        import gc
        import torch

        gc.collect()
        usual = gc.get_threshold()
        seen = []
        gc.callbacks.append(lambda phase, info: seen.append((phase, info["generation"])))
        from {module} import RMSNormFwdOp

        assert gc.get_threshold() == usual, gc.get_threshold()
        assert ("start", 2) not in seen, seen
        """
    )
    assert done.returncode == 0, done.stderr
