from __future__ import annotations

import traceback

import pytest

from tileops_core.backend.blame import add_note, blame


class Old(Exception):
    """An exception as Python 3.10 has them."""

    add_note = property()  # type: ignore[assignment]


def test_an_exception_keeps_its_type_and_says_whose_it_is() -> None:
    error = ValueError("no such tile")
    blame(error, op="SumFwdOp", target="acme", backend="acme_kernels", version="1.0")
    assert str(error) == "no such tile"
    assert error.__notes__ == [
        "SumFwdOp: raised by target 'acme' of backend 'acme_kernels' version 1.0"
    ]
    assert error.__notes__[0] in "".join(traceback.format_exception(error))


def test_the_same_note_is_added_once() -> None:
    error = ValueError()
    for _ in range(3):
        blame(error, op="SumFwdOp", target="acme", backend="acme", version="1.0")
    assert len(error.__notes__) == 1


def test_an_op_inside_an_op_adds_its_own_note() -> None:
    error = ValueError()
    blame(error, op="SumFwdOp", target="acme", backend="acme")
    blame(error, op="NormFwdOp", target="acme", backend="acme")
    assert len(error.__notes__) == 2


@pytest.mark.parametrize("target", [None, "BUILTIN"])
def test_in_tree_kernels_are_named_as_kernel_types(target) -> None:
    error = ValueError()
    blame(error, op="SumFwdOp", target=target, backend="reference")
    assert error.__notes__ == ["SumFwdOp: raised by a kernel type of backend 'reference'"]


def test_an_ops_own_kernel_type_is_the_ops() -> None:
    error = ValueError()
    blame(error, op="SumFwdOp")
    assert error.__notes__ == ["SumFwdOp: raised by a kernel type of the op itself"]


def test_notes_work_where_python_has_none() -> None:
    error = Old()
    for text in ("first", "second", "first"):
        add_note(error, text)
    assert error.__notes__ == ["first", "second"]
