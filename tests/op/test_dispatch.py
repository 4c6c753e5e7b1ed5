"""Contracts at construction and dispatch at calls, as an op's user meets them."""

from __future__ import annotations

import faulty
import pytest
import torch
from call_support import op_class, small

from tileops_core import BUILTIN, load_failures, set_backend_order
from tileops_core.backend import DeviceFactsRegistration, KernelTypeRegistration, registered
from tileops_core.backend.order import ORDER
from tileops_core.call.binding import UNBOUND
from tileops_core.errors import DispatchError, OpNotAvailableError
from tileops_core.kernels import DeviceFacts, Kernel

OP = "ProbeFwdOp"


class Bench:
    """An op with one interface, and kernel types for it; each result tells whose it is."""

    def __init__(self):
        self.interfaces, self.base = faulty.in_tree()
        self.request = self.interfaces["probe"].request

    def kind(self, name, factor=2, **declared):
        """A kernel type that multiplies."""
        return type(name, (self.base,), {"forward": lambda self, x: x * factor, **declared})

    def op(self, own=None, *, target=None):
        request = self.request
        return op_class(
            OP,
            interfaces=self.interfaces,
            kernel_types=own or {},
            call_spec=lambda self, x: request(x.device, x.dtype, x.shape),
        )(target=target)

    def call(self, device="cpu"):
        return self.request(device, torch.float32, (3, 4))


@pytest.fixture
def bench():
    return Bench()


def given(backend, **kinds):
    return registered(
        *(KernelTypeRegistration(OP, k, t) for k, t in kinds.items()), backend=backend
    )


# -- contracts at construction ----------------------------------------------------------------


def faults(bench):
    """Each fault of a declaration, with the key it stands under."""
    k = bench.kind
    two = frozenset({"cuda", "mps"})
    return {
        "no kernel": {"bad": type("Bad", (bench.interfaces["probe"],), {"forward": good})},
        "entry_for is no classmethod": {"bad": k("Bad", entry_for=lambda cls, call: ((), cls))},
        "forward takes other arguments": {"bad": k("Bad", forward=lambda self, x, y: x)},
        "no interface of the op": {"bad": type("Bad", (Kernel,), {"forward": good})},
        "general twice": {"good": k("Good", general=True), "bad": k("Bad", general=True)},
        "preferred over itself": {"bad": k("Bad", preferred_over=frozenset({"bad"}))},
        "general and preferred": {
            "bad": k("Bad", general=True, preferred_over=frozenset({"good"})),
            "good": k("Good"),
        },
        "a circle": {
            "bad": k("Bad", preferred_over=frozenset({"other"})),
            "other": k("Other", preferred_over=frozenset({"bad"})),
        },
        "archs of two device types": {
            "bad": k("Bad", devices=two, supported_archs=frozenset({90}))
        },
    }


def good(self, x):
    return x * 2


NAMES = list(faults(Bench()))


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_of_the_ops_own_kernel_types_raises_at_construction(bench, name):
    own = faults(bench)[name]
    with pytest.raises((TypeError, ValueError)) as caught:
        bench.op(own)
    text = str(caught.value)
    assert text.startswith(f"{OP}: kernel type '")
    assert any(f"'{key}' ({kind.__qualname__})" in text for key, kind in own.items())


@pytest.mark.parametrize("name", NAMES)
def test_a_registered_fault_is_told_and_the_rest_serves(bench, name):
    fine = bench.kind("Fine", 5, preferred_over=frozenset({"good", "bad", "other"}))
    kinds = faults(bench)[name]
    with given("vendor", **kinds):
        with pytest.warns(RuntimeWarning, match=f"{OP}: kernel type '"):
            op = bench.op({"fine": fine})
        dropped = {str(f.error).split("'")[1] for f in load_failures() if f.backend == "vendor"}
    assert set() < dropped <= set(kinds)
    assert op(small()).equal(small() * 5)


def test_a_registered_key_that_the_op_has_is_dropped(bench):
    with given("vendor", fine=bench.kind("Other", 7)), pytest.warns(RuntimeWarning, match="taken"):
        op = bench.op({"fine": bench.kind("Fine", 5)})
    assert op(small()).equal(small() * 5)


def test_a_preference_over_a_key_that_is_not_there_is_no_fault(bench):
    """A wheel may name another wheel's kernel."""
    kind = bench.kind("Fast", 3, preferred_over=frozenset({"of_another_wheel"}))
    assert bench.op({"fast": kind})(small()).equal(small() * 3)


# -- what a question is refused for -----------------------------------------------------------

ASK = [lambda op, *a: op.kernel_for(*a), lambda op, *a: op.key_for(*a)]


@pytest.mark.parametrize("ask", ASK, ids=["kernel_for", "key_for"])
def test_an_interface_that_is_not_there_is_told_with_a_guess(bench, ask):
    """DIS-06"""
    with pytest.raises(OpNotAvailableError, match=r"no kernel interface 'prob' \(did you mean"):
        ask(bench.op(), "prob", bench.call())


@pytest.mark.parametrize("ask", ASK, ids=["kernel_for", "key_for"])
def test_a_device_that_nothing_runs_on_is_told(bench, ask):
    op = bench.op({"fast": bench.kind("Fast", devices=frozenset({"cuda"}))})
    with pytest.raises(OpNotAvailableError) as caught:
        ask(op, "probe", bench.call())
    assert "in-tree kernels do not run on cpu" in str(caught.value)
    assert op._binding is UNBOUND


@pytest.mark.parametrize("ask", ASK, ids=["kernel_for", "key_for"])
def test_a_call_that_nothing_serves_is_told_with_each_ones_reason(bench, ask):
    kinds = {
        name: bench.kind(name, refusal=classmethod(lambda cls, call: f"{cls.__name__} is tired"))
        for name in ("one", "two")
    }
    with pytest.raises(DispatchError) as caught:
        ask(bench.op(kinds), "probe", bench.call())
    text = str(caught.value)
    assert "no implementation serves this call" in text
    assert "one is tired" in text
    assert "two is tired" in text


@pytest.mark.parametrize("ask", ASK, ids=["kernel_for", "key_for"])
def test_a_tie_is_told_with_what_decides_it(bench, ask):
    with given("left", a=bench.kind("A")), given("right", b=bench.kind("B")):
        with pytest.raises(DispatchError) as caught:
            ask(bench.op(), "probe", bench.call())
        for name in ("left", "right"):
            assert f"target={name!r}" in str(caught.value)
            assert ask(bench.op(target=name), "probe", bench.call()) is not None


# -- what decides -----------------------------------------------------------------------------


def test_an_available_candidate_serves_whatever_another_ones_architecture_lacks(bench):
    """DIS-06: only the chosen one's needs count."""
    kinds = {
        "new": bench.kind("New", 3, devices=frozenset({"mps"}), supported_archs=frozenset({100})),
        "old": bench.kind("Old", 5),
    }
    assert bench.op(kinds)(small()).equal(small() * 5)


def test_facts_of_a_device_type_may_come_from_a_backend(bench):
    facts = DeviceFactsRegistration("vulkan", lambda device: DeviceFacts(arch=7))
    kinds = {
        n: bench.kind("K", devices=frozenset({"vulkan"}), supported_archs=frozenset({n_arch}))
        for n, n_arch in (("seven", 7), ("eight", 8))
    }
    op = bench.op(kinds)
    with registered(facts, backend="vendor"):
        assert op.key_for("probe", bench.call("vulkan")) == "seven"
        assert type(op.kernel_for("probe", bench.call("vulkan"))) is kinds["seven"]
        (key,) = op._binding.built_entries.items()
        assert key[0][1:3] == ("vulkan", 7)
    assert op.key_for("probe", bench.call("vulkan").stating(arch=8)) == "eight"


@pytest.fixture
def ordered():
    """Orders that are taken back."""
    yield
    ORDER.set(None)
    ORDER.set(None, OP)


def test_the_order_of_backends_decides_a_tie_for_all_ops_or_one(bench, ordered):
    with given("left", a=bench.kind("A", 3)), given("right", b=bench.kind("B", 5)):
        set_backend_order(["right", "left"])
        assert bench.op()(small()).equal(small() * 5)
        set_backend_order(["left"], op=OP)
        assert bench.op()(small()).equal(small() * 3)
        set_backend_order(None, op=OP)
        assert bench.op().key_for("probe", bench.call()) == "b"


def test_an_order_changes_nothing_that_was_decided(bench, ordered):
    with given("left", a=bench.kind("A", 3)), given("right", b=bench.kind("B", 5)):
        set_backend_order(["left"])
        op = bench.op()
        op(small())
        set_backend_order(["right"])
        assert op(small()).equal(small() * 3)


def test_an_order_decides_ties_only(bench, ordered):
    slow = bench.kind("Slow", 3, defers=classmethod(lambda cls, call: "it is slow"))
    with given("left", a=slow), given("right", b=bench.kind("B", 5)):
        set_backend_order(["left", "right"])
        assert bench.op()(small()).equal(small() * 5)
        assert bench.op(target="left")(small()).equal(small() * 3)


def test_preference_passes_through_one_that_refuses(bench):
    kinds = {
        "first": bench.kind("First", 3, preferred_over=frozenset({"second"})),
        "second": bench.kind(
            "Second",
            5,
            preferred_over=frozenset({"third"}),
            refusal=classmethod(lambda cls, call: "no"),
        ),
        "third": bench.kind("Third", 7),
    }
    assert bench.op(kinds)(small()).equal(small() * 3)


def test_in_tree_dispatch_may_be_asked_for(bench):
    op = bench.op({"fast": bench.kind("Fast", 3)}, target=BUILTIN)
    assert op(small()).equal(small() * 3)


def test_what_is_built_is_built_with_its_device_current(bench, monkeypatch):
    from contextlib import contextmanager

    from tileops_core.call import resolve

    current = []

    @contextmanager
    def on_device(device):
        current.append(device)
        yield
        current.pop()

    monkeypatch.setattr(resolve, "on_device", on_device)
    seen = []

    def entry_for(cls, call):
        return (), lambda: seen.append([*current]) or cls()

    op = bench.op({"fast": bench.kind("Fast", entry_for=classmethod(entry_for))})
    op(small())
    assert seen == [[torch.device("cpu")]]
