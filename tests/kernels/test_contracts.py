from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from typing import Any

import pytest
import torch

from tileops_core.kernels import CallSpec, Kernel, KernelInterface
from tileops_core.kernels.contracts import install


class Imported(KernelInterface):
    """An interface of some other op."""

    @abstractmethod
    def forward(self, x):
        """Do something else."""


def bad_kernels(bench: Any) -> dict[str, tuple[Any, type[Exception], str]]:
    """Each local fault: the kernel type, the exception's type and what its text says."""
    k = bench.kernel
    norm, stats = bench.NormKernel, bench.StatsKernel
    three = lambda self, x, weight, bias: x  # noqa: E731
    one = lambda self, x: x  # noqa: E731
    return {
        "no kernel": (
            type("Probe", (norm,), {"forward": lambda self, x, weight: x}),
            TypeError,
            "does not inherit Kernel",
        ),
        "no class": (3, TypeError, "is not a class"),
        "entry_for is a function": (
            k(entry_for=lambda cls, call: ((), cls)),
            TypeError,
            "entry_for .* must be a classmethod",
        ),
        "refusal is a function": (
            k(refusal=lambda call: None),
            TypeError,
            "refusal .* must be a classmethod",
        ),
        "defers is static": (
            k(defers=staticmethod(lambda call: None)),
            TypeError,
            "defers .* must be a classmethod",
        ),
        "forward takes too much": (k(forward=three), TypeError, "missing a required .*'bias'"),
        "forward takes too little": (k(forward=one), TypeError, "too many positional"),
        "static forward takes too little": (
            k(forward=staticmethod(lambda x: x)),
            TypeError,
            "too many positional",
        ),
        "forward lacks a name": (
            k(interface=stats, forward=lambda self, x, *, moment=1: x),
            TypeError,
            "unexpected keyword argument 'out'",
        ),
        "forward requires what may be left out": (
            k(interface=stats, forward=lambda self, x, *, moment, out=None: x),
            TypeError,
            "missing a required .*'moment'",
        ),
        "forward is no method": (k(forward=3), TypeError, "forward as 3"),
        "forward is missing": (
            type("Probe", (Kernel, norm), {}),
            TypeError,
            "does not implement forward of NormKernel",
        ),
        "no interface": (
            type("Probe", (Kernel,), {"forward": one}),
            TypeError,
            r"no interface of the op: it has none, the op has 'norm' \(NormKernel\)",
        ),
        "configurations are no mappings": (
            k(autotune_configs=(3,)),
            TypeError,
            r"autotune_configs = \(3,\); it must be a sequence of mappings",
        ),
        "configurations are no sequence": (
            k(autotune_configs={"block": 3}),
            TypeError,
            "must be a sequence of mappings",
        ),
        "no configuration to choose": (
            k(autotune_configs=()),
            ValueError,
            "autotune_configs is empty",
        ),
        "no way to another configuration": (
            k(autotune_configs=({"block": 3},)),
            TypeError,
            "neither with_config, .* nor a request_tune of its own",
        ),
        "an interface of another op": (
            k(interface=Imported, forward=one),
            TypeError,
            "it has Imported, the op has 'norm'",
        ),
        "two interfaces": (
            type("Probe", (Kernel, norm, stats), {"forward": lambda self, *a, **b: a}),
            ValueError,
            "several interfaces .*'norm', 'stats'",
        ),
        "devices is a word": (
            k(devices="cuda"),
            TypeError,
            "devices = 'cuda'; .* frozenset of str",
        ),
        "archs is a number": (
            k(devices=frozenset({"cuda"}), supported_archs=90),
            TypeError,
            "supported_archs = 90; .* frozenset of int or None",
        ),
        "preferred_over is a word": (k(preferred_over="b"), TypeError, "preferred_over = 'b'"),
        "devices has a device": (
            k(devices=frozenset({"cuda:0"})),
            ValueError,
            "devices has 'cuda:0', which is one device and no type: write 'cuda'",
        ),
        "archs of two device types": (
            k(devices=frozenset({"cuda", "acme"}), supported_archs=frozenset({90})),
            ValueError,
            "one device type, but devices are: acme, cuda",
        ),
        "archs of any device": (
            k(supported_archs=frozenset({90})),
            ValueError,
            "one device type, but devices are: any device",
        ),
        "preferred over itself": (
            k(preferred_over=frozenset({"probe"})),
            ValueError,
            "names the kernel type itself",
        ),
        "general and preferred": (
            k(general=True, preferred_over=frozenset({"b"})),
            ValueError,
            "general kernel type ranks below all others",
        ),
    }


FAULTS = [
    "no kernel",
    "no class",
    "entry_for is a function",
    "refusal is a function",
    "defers is static",
    "forward takes too much",
    "forward takes too little",
    "static forward takes too little",
    "forward lacks a name",
    "forward requires what may be left out",
    "forward is no method",
    "forward is missing",
    "no interface",
    "configurations are no mappings",
    "configurations are no sequence",
    "no configuration to choose",
    "no way to another configuration",
    "an interface of another op",
    "two interfaces",
    "devices is a word",
    "archs is a number",
    "preferred_over is a word",
    "devices has a device",
    "archs of two device types",
    "archs of any device",
    "preferred over itself",
    "general and preferred",
]


def test_every_fault_is_in_the_list(bench):
    assert list(bad_kernels(bench)) == FAULTS


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_op_s_own_kernel_type_raises(bench, fault):
    kernel_type, error, text = bad_kernels(bench)[fault]
    with pytest.raises(error, match=text) as caught:
        bench.install(own={"probe": kernel_type})
    name = "3" if kernel_type == 3 else "Probe"
    assert str(caught.value).startswith(f"ProbeFwdOp: kernel type 'probe' ({name})")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_registered_kernel_type_with_a_fault_is_dropped_alone(bench, fault):
    kernel_type, error, text = bad_kernels(bench)[fault]
    items = bench.registered("acme", probe=kernel_type, good=bench.kernel())
    installed = bench.install(items)
    ((item, exception),) = installed.faults
    assert item is items[0]
    with pytest.raises(error, match=text):
        raise exception
    assert "of backend 'acme'" in str(exception)
    assert [c.key for c in installed.candidates("norm")] == ["good"]


def test_a_kernel_type_whose_import_fails_is_dropped_alone(bench):
    gone = ImportError("no module named acme.norm")
    installed = bench.install(bench.registered("acme", bad=gone, good=bench.kernel()))
    assert [error for _, error in installed.faults] == [gone]
    assert [c.key for c in installed.candidates("norm")] == ["good"]


def test_a_misspelled_interface_gets_a_guess(bench):
    """DIS-06: a kernel type under a call place that the op does not have is told, not dropped."""
    typo = type("NormKernels", (KernelInterface,), {"forward": bench.NormKernel.forward})
    with pytest.raises(TypeError, match=r"it has NormKernels.*did you mean 'NormKernel'\?"):
        bench.install(own={"probe": bench.kernel(interface=typo)})


def test_two_general_kernel_types_of_one_backend_are_one_too_many(bench):
    a, b = (bench.kernel(general=True) for _ in "ab")
    with pytest.raises(ValueError, match=r"'b' .* 'a' is general for 'norm' too"):
        bench.install(own={"a": a, "b": b})
    installed = bench.install(bench.registered("acme", a=a, b=b))
    assert [item.key for item, _ in installed.faults] == ["b"]


def test_general_kernel_types_of_two_backends_or_two_interfaces_are_fine(bench):
    general, other = (
        bench.kernel(interface=i, general=True) for i in (bench.NormKernel, bench.StatsKernel)
    )
    installed = bench.install(
        bench.registered("acme", a=general, s=other), bench.registered("zeta", b=general)
    )
    assert installed.faults == ()


def test_a_preference_over_another_interface_s_kernel_type_is_a_fault(bench):
    a = bench.kernel(preferred_over=frozenset({"s"}))
    s = bench.kernel(interface=bench.StatsKernel)
    with pytest.raises(ValueError, match="names 's', which implements 'stats', not 'norm'"):
        bench.install(own={"a": a, "s": s})
    installed = bench.install(bench.registered("acme", a=a), bench.registered("zeta", s=s))
    assert [item.key for item, _ in installed.faults] == ["a"]


def test_what_a_backend_registers_is_no_fault_of_the_op_s_own(bench):
    own = bench.kernel(preferred_over=frozenset({"s"}))
    s = bench.kernel(interface=bench.StatsKernel)
    installed = bench.install(bench.registered("acme", s=s), own={"own": own})
    assert installed.faults == ()
    assert installed.candidates("norm")[0].beats == frozenset()


def test_a_circle_of_own_kernel_types_raises(bench):
    own = {
        key: bench.kernel(preferred_over=frozenset({over}))
        for key, over in [("a", "b"), ("b", "c"), ("c", "a")]
    }
    with pytest.raises(ValueError, match=r"'c' .* goes in a circle through 'a', 'b'"):
        bench.install(own=own)


def test_the_registration_that_closes_a_circle_is_dropped(bench):
    items = [
        *bench.registered("one", a=bench.kernel(preferred_over=frozenset({"b"}))),
        *bench.registered("two", b=bench.kernel(preferred_over=frozenset({"c"}))),
        *bench.registered("three", c=bench.kernel(preferred_over=frozenset({"a"}))),
    ]
    for order in itertools.permutations(items):
        installed = bench.install(list(order))
        assert [item.key for item, _ in installed.faults] == ["b"]
        assert [c.key for c in installed.candidates("norm")] == ["a", "c"]


def test_a_circle_with_the_op_s_own_drops_the_registered_one(bench):
    installed = bench.install(
        bench.registered("acme", b=bench.kernel(preferred_over=frozenset({"a"}))),
        own={"a": bench.kernel(preferred_over=frozenset({"b"}))},
    )
    assert [item.key for item, _ in installed.faults] == ["b"]


def test_a_registered_key_that_the_op_has_is_a_fault(bench):
    installed = bench.install(bench.registered("acme", a=bench.kernel()), own={"a": bench.kernel()})
    ((_, error),) = installed.faults
    with pytest.raises(ValueError, match="the key is taken: the op itself has Probe"):
        raise error
    assert installed.candidates("norm")[0].backend is None


def test_a_key_that_two_backends_register_is_the_first_backend_s(bench):
    items = [
        *bench.registered("zeta", a=bench.kernel()),
        *bench.registered("acme", a=bench.kernel()),
    ]
    for order in itertools.permutations(items):
        installed = bench.install(list(order))
        ((item, error),) = installed.faults
        assert item.backend == "zeta"
        with pytest.raises(ValueError, match="the key is taken: backend 'acme' registered Probe"):
            raise error


@pytest.mark.parametrize(
    "forward",
    [
        staticmethod(lambda x, weight: x),
        staticmethod(torch.mul),
        torch.mul,
        functools.partial(lambda a, x, weight: x, 1),
        lambda self, *everything: everything,
        lambda self, x, weight, extra=None: x,
        lambda self, other_name, w: w,
    ],
)
def test_a_forward_that_takes_the_call_is_fine(bench, forward):
    bench.install(own={"a": bench.kernel(forward=forward)})


@pytest.mark.parametrize(
    ("interface", "error", "text"),
    [
        (3, TypeError, "is 3, not a subclass of KernelInterface"),
        (Kernel, TypeError, "not a subclass of KernelInterface"),
        (type("NoForward", (KernelInterface,), {}), TypeError, "its own `forward`"),
        (
            type("Concrete", (KernelInterface,), {"forward": lambda self, x: x}),
            TypeError,
            r"\(Concrete\) must declare `forward` as an abstract method",
        ),
        (Imported, TypeError, r"\(Imported\) has request None; .* subclass of CallSpec"),
        (
            type("Both", (Kernel, Imported), {"request": None}),
            TypeError,
            "itself a kernel type",
        ),
    ],
)
def test_an_interface_with_a_fault_raises(interface, error, text):
    with pytest.raises(error, match=text) as caught:
        install("ProbeFwdOp", {"norm": interface}, {}, ())
    assert str(caught.value).startswith("ProbeFwdOp: kernel interface 'norm'")


def test_one_interface_class_has_one_name(bench):
    with pytest.raises(ValueError, match=r"'b' \(NormKernel\) is also 'a'"):
        install("ProbeFwdOp", {"a": bench.NormKernel, "b": bench.NormKernel}, {}, ())


def test_a_kernel_type_belongs_to_the_finer_of_two_related_interfaces(bench):
    class FinerKernel(bench.NormKernel):
        @abstractmethod
        def forward(self, x, weight):
            """Like the other, and saves statistics."""

    interfaces = {"norm": bench.NormKernel, "finer": FinerKernel}
    own = {"a": bench.kernel(), "b": bench.kernel(interface=FinerKernel)}
    installed = install("ProbeFwdOp", interfaces, own, ())
    assert [c.key for c in installed.candidates("norm")] == ["a"]
    assert [c.key for c in installed.candidates("finer")] == ["b"]


def test_preference_is_transitive_and_ignores_absent_keys(bench):
    own = {
        "a": bench.kernel(preferred_over=frozenset({"b", "another wheel's"})),
        "b": bench.kernel(preferred_over=frozenset({"c"})),
        "c": bench.kernel(),
    }
    beats = {c.key: c.beats for c in bench.install(own=own).candidates("norm")}
    assert beats == {"a": {"b", "c"}, "b": {"c"}, "c": frozenset()}


def test_runs_on_asks_for_the_device_type_and_the_backend(bench):
    installed = bench.install(
        bench.registered("acme", a=bench.kernel(devices=frozenset({"cuda"}))),
        bench.registered("reference", r=bench.kernel(interface=bench.StatsKernel)),
    )
    assert installed.runs_on("cuda", "acme")
    assert not installed.runs_on("cpu", "acme")
    assert installed.runs_on("cpu")
    assert installed.runs_on("cpu", "reference")
    assert not installed.runs_on("cpu", "nobody")
    assert not bench.install().runs_on("cpu")


@pytest.mark.parametrize(
    "forward", [lambda self, x, buffer=None: x, lambda self, x, out=None, /: x, lambda self, x: x]
)
def test_a_forward_that_cannot_take_out_by_name_is_a_fault(forward):
    class Buffered(Imported):
        request = CallSpec

        @abstractmethod
        def forward(self, x, out=None):
            """Write into out if it is given."""

    kernel_type = type("Probe", (Kernel, Buffered), {"devices": None, "forward": forward})
    with pytest.raises(TypeError, match="'out'"):
        install("ProbeFwdOp", {"norm": Buffered}, {"probe": kernel_type}, ())


def test_an_interface_without_kernel_types_has_no_candidates(bench):
    assert bench.install().candidates("norm") == ()


@pytest.mark.parametrize("way", ["with_config", "request_tune"])
def test_a_kernel_type_with_configurations_has_a_way_to_use_them(bench, way):
    declared = {"autotune_configs": [{"block": 3}], way: lambda self, config=None: self}
    assert bench.install(own={"a": bench.kernel(**declared)}).faults == ()
