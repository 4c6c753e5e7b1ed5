from __future__ import annotations

import warnings

import pytest

from tileops_core.backend import KernelTypeRegistration
from tileops_core.backend.order import BackendOrder
from tileops_core.backend.registry import Registry

VARIABLE = "TILEOPS_BACKEND_ORDER"


@pytest.fixture
def order(registry: Registry) -> BackendOrder:
    for name in ("acme", "zoom"):
        registry.add([KernelTypeRegistration("SumFwdOp", name, int)], backend=name)
    return BackendOrder(registry)


def test_nobody_is_preferred_unless_somebody_says_so(order) -> None:
    assert order.of("SumFwdOp") == ()


def test_an_order_holds_for_every_op(order) -> None:
    order.set(["zoom", "acme"])
    assert order.of("SumFwdOp") == order.of("MulFwdOp") == ("zoom", "acme")


def test_an_ops_order_stands_above_the_general_one(order) -> None:
    order.set(["zoom"])
    order.set(["acme"], op="SumFwdOp")
    assert order.of("SumFwdOp") == ("acme",)
    assert order.of("MulFwdOp") == ("zoom",)
    order.set([], op="SumFwdOp")
    assert order.of("SumFwdOp") == ()
    order.set(None, op="SumFwdOp")
    assert order.of("SumFwdOp") == ("zoom",)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", ()),
        ("zoom", ("zoom",)),
        ("zoom,acme", ("zoom", "acme")),
        (" zoom , acme ,", ("zoom", "acme")),
        (",,", ()),
        ("zoom,acme,zoom", ("zoom", "acme")),
    ],
)
def test_the_variable_lists_names(order, monkeypatch, value, names) -> None:
    """REG-19"""
    monkeypatch.setenv(VARIABLE, value)
    assert order.of("SumFwdOp") == names


def test_the_variable_is_read_at_the_first_use_and_then_kept(order, monkeypatch) -> None:
    """REG-19"""
    monkeypatch.setenv(VARIABLE, "acme")
    assert order.of("SumFwdOp") == ("acme",)
    monkeypatch.setenv(VARIABLE, "zoom")
    assert order.of("SumFwdOp") == ("acme",)


def test_python_stands_above_the_variable(order, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "acme")
    order.set([])
    assert order.of("SumFwdOp") == ()
    order.set(None)
    assert order.of("SumFwdOp") == ("acme",)


@pytest.mark.parametrize("by_variable", [True, False])
def test_an_unknown_name_is_warned_about_at_the_first_use_and_once(
    order, monkeypatch, by_variable
) -> None:
    """REG-19"""
    if by_variable:
        monkeypatch.setenv(VARIABLE, "acne,zoom")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            order.set(["acne", "zoom"])
    source = VARIABLE if by_variable else "set_backend_order"
    with pytest.warns(RuntimeWarning, match=rf"{source}.*'acne' \(did you mean 'acme'\?\)") as told:
        order.of("SumFwdOp")
    assert {warning.filename for warning in told} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert order.of("SumFwdOp") == order.of("MulFwdOp") == ("acne", "zoom")


def test_where_warnings_are_errors_the_order_works_from_the_second_use(order, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "acne,zoom")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            order.of("SumFwdOp")
        assert order.of("SumFwdOp") == ("acne", "zoom")


def test_the_core_is_no_backend_to_prefer(found) -> None:
    registry = Registry(lambda: [found("core", "tileops-core")])
    registry.ensure_loaded()
    order = BackendOrder(registry)
    order.set(["core"])
    with pytest.warns(RuntimeWarning, match="'core'"):
        order.of("SumFwdOp")


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ("acme", TypeError),
        ([3], TypeError),
        ([None], TypeError),
        (["my-backend"], ValueError),
        ([""], ValueError),
        (["acme", "zoom", "acme"], ValueError),
    ],
)
def test_what_is_no_list_of_names_is_refused_when_it_is_set(order, names, error) -> None:
    with pytest.raises(error, match="set_backend_order"):
        order.set(names)
    assert order.of("SumFwdOp") == ()


def test_an_order_is_taken_by_value(order) -> None:
    names = ["zoom", "acme"]
    order.set(names)
    names.reverse()
    assert order.of("SumFwdOp") == ("zoom", "acme")
