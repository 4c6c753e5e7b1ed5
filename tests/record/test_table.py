from __future__ import annotations

import threading

import pytest
import torch
from call_support import in_threads, served, small

from tileops_core.ops import RMSNormFwdOp
from tileops_core.record.table import prune, read


def test_a_thread_reads_its_own_last_call():
    """Peer fault 13, PIPE-08: right after one's own call, among many threads."""
    op = RMSNormFwdOp((4,))

    def work(rows):
        for _ in range(300):
            op(small(rows, 4))
            assert op.last_call.tensors["x"][0] == (rows, 4)
            assert op.eval_roofline()[0] == rows * 15

    outcomes = in_threads(*[lambda n=n: work(n) for n in range(1, 9)])
    assert [o.error for o in outcomes] == [None] * 8


def test_a_thread_that_made_no_call_reads_anothers():
    op = RMSNormFwdOp((4,))
    op(small())
    (outcome,) = in_threads(lambda: op.last_call)
    assert outcome.result is op.last_call


def test_a_thread_keeps_its_record_while_another_calls():
    op = RMSNormFwdOp((4,))
    op(small())
    in_threads(lambda: op(small(7, 4)))
    assert op.last_call.tensors["x"][0] == (3, 4)


def test_a_failing_call_of_a_thread_leaves_its_own_record():
    op = RMSNormFwdOp((4,))

    def work():
        op(small(5, 4))
        with pytest.raises(ValueError, match="RMSNormFwdOp"):
            op(small(5, 5))
        return op.last_call.tensors["x"][0]

    op(small())
    (outcome,) = in_threads(work)
    assert outcome.result == (5, 4)


def test_one_instances_record_is_not_anothers():
    one, two = RMSNormFwdOp((4,)), RMSNormFwdOp((4,))
    one(small())
    with pytest.raises(RuntimeError, match="no call"):
        two.last_call  # noqa: B018


def test_records_of_threads_that_ended_are_dropped():
    """Thread ids are kept apart here, since the system hands them out again."""
    with served() as op:
        op(small())
        op._running.last.update({-n: op.last_call for n in range(1, 500)})
        op(small(5, 4))
        assert set(op._running.last) == {threading.get_ident()}


def test_records_of_living_threads_stay():
    table = {t.ident: "record" for t in threading.enumerate()}
    kept = dict(table)
    table |= {-n: "record" for n in range(1, 50)}
    prune(table)
    assert table == kept


def test_a_short_table_is_left_alone():
    table = {-n: "record" for n in range(1, 5)}
    prune(table)
    assert len(table) == 4


def test_an_empty_table_has_no_record():
    assert read({}) is None


def test_threads_that_come_and_go_keep_a_bounded_table():
    op = RMSNormFwdOp((4,))
    for i in range(60):
        in_threads(lambda i=i: op(torch.ones(i + 1, 4)))
    assert len(op._running.last) <= 20
