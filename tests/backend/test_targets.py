from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import itertools
import pickle
import threading
import warnings
from collections.abc import Iterator

import pytest
import torch

from tileops_core.backend import (
    BuilderRegistration,
    InterfaceRegistration,
    KernelTypeRegistration,
    TargetRegistration,
    registered,
    targets,
)
from tileops_core.backend.registry import Registry
from tileops_core.backend.targets import (
    BUILTIN,
    Builtin,
    check_target,
    current_default,
    default_target,
    registered_targets,
    select_target,
    set_default_target,
)
from tileops_core.errors import (
    AmbiguousTargetError,
    BackendError,
    OpNotAvailableError,
    UnknownTargetError,
)
from tileops_core.interfaces.reduction import SoftmaxFwdInterface
from tileops_core.kernels import Kernel
from tileops_core.ops import SoftmaxFwdOp

CPU = torch.device("cpu")
OP = "SumFwdOp"


def build(*inputs: object, **parameters: object) -> None: ...


def on(*device_types: str):
    return lambda device: device.type in device_types


class Cuda:
    devices = frozenset({"cuda"})


class Anywhere:
    devices = None


on_cpu = on("cpu")


def target(name: str, detect=on_cpu, *ops: str) -> list[object]:
    builders = [BuilderRegistration(op, name, build) for op in ops]
    return [TargetRegistration(name, detect), *builders]


def select(registry: Registry, requested=None, *, op=OP, device=CPU, runs_on=(), **options):
    """Select where the kernel types of the backends ``runs_on`` run on the device."""
    return select_target(
        op,
        requested,
        device,
        in_tree=lambda backend: bool(runs_on) if backend is None else backend in runs_on,
        registry=registry,
        **options,
    )


@pytest.fixture(autouse=True)
def _no_default():
    yield
    targets._process_default = None


# -- BUILTIN ---------------------------------------------------------------------------------


def test_builtin_is_one_object_in_every_copy() -> None:
    assert pickle.loads(pickle.dumps(BUILTIN)) is BUILTIN
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps([BUILTIN], protocol))[0] is BUILTIN
    assert copy.deepcopy({"target": BUILTIN})["target"] is BUILTIN
    assert copy.copy(BUILTIN) is BUILTIN
    assert Builtin() is BUILTIN


def test_builtin_says_its_name() -> None:
    assert repr(BUILTIN) == str(BUILTIN) == "BUILTIN"


# -- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("good", [None, BUILTIN, "acme", "runtime"])
def test_a_target_is_a_known_name_builtin_or_none(registry, good) -> None:
    registry.add(target("acme"))
    check_target(OP, good, registry=registry)


@pytest.mark.parametrize("bad", [3, True, b"acme", ["acme"], Builtin, CPU])
def test_anything_else_is_no_target(registry, bad) -> None:
    with pytest.raises(TypeError, match=f"{OP}: target=.* is no target"):
        check_target(OP, bad, registry=registry)


def test_an_unknown_target_is_told_with_the_known_ones_and_a_guess(registry) -> None:
    """REG-14"""
    registry.add([*target("acme"), *target("zoom")])
    with pytest.raises(UnknownTargetError) as caught:
        check_target(OP, "acne", registry=registry)
    text = str(caught.value)
    for part in (f"{OP}: target='acne'", "did you mean 'acme'?", "acme, runtime, zoom"):
        assert part in text
    assert (caught.value.op, caught.value.target) == (OP, "acne")


def test_an_unknown_target_where_nobody_is_installed_names_the_command(registry) -> None:
    """REG-14"""
    with pytest.raises(UnknownTargetError, match=r"none;.*pip install tileops-reference"):
        check_target(OP, "foo", registry=registry)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("BUILTIN", "tileops_core.BUILTIN"), ("builtin", "tileops_core.BUILTIN"), ("core", "itself")],
)
def test_names_that_only_look_like_targets_are_explained(found, name, hint) -> None:
    registry = Registry(lambda: [found("core", "tileops-core")])
    with pytest.raises(UnknownTargetError, match=hint):
        check_target(OP, name, registry=registry)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_target_of_a_backend_that_failed_has_the_failure_as_its_cause(found) -> None:
    """REG-01"""
    original = RuntimeError("no driver")

    def fail():
        raise original

    bad = found("bad", "bad-kernels", targets=lambda: fail())
    registry = Registry(lambda: [bad])
    for ask in (
        lambda: check_target(OP, "bad", registry=registry),
        lambda: select(registry, "bad"),
    ):
        with pytest.raises(UnknownTargetError, match=r"bad-kernels 1\.0.*no driver") as caught:
            ask()
        assert caught.value.__cause__ is original
        assert caught.value.backend == "bad"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_target_lost_in_a_conflict_says_so(found) -> None:
    """REG-01"""
    both = [TargetRegistration("shared", build)]
    lost = [TargetRegistration("lost", build)]
    points = [
        found("acme", targets=lambda: both),
        found("zeta", targets=lambda: [*lost, TargetRegistration("shared", on("cpu"))]),
    ]
    with pytest.raises(UnknownTargetError, match=r"'lost'.*'shared' is already registered"):
        check_target(OP, "lost", registry=Registry(lambda: points))


def test_a_skipped_backend_says_so(found, monkeypatch) -> None:
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", "acme")
    with pytest.raises(UnknownTargetError, match="skipped by TILEOPS_DISABLE_BACKENDS"):
        check_target(OP, "acme", registry=Registry(lambda: [found("acme")]))


# -- 1: the constructor's --------------------------------------------------------------------


def test_the_constructors_target_stands_above_all(registry) -> None:
    registry.add([*target("acme", on("cpu"), OP), *target("zoom", on(), OP)])
    with default_target_of(registry, "acme"):
        selection = select(registry, "zoom", runs_on=("runtime",))
    assert selection.name == "zoom"
    assert selection.builder is registry.builder(OP, "zoom")
    assert selection.backend is None


def test_a_named_targets_detector_is_not_asked(registry) -> None:
    registry.add(target("acme", lambda device: 1 / 0, OP))
    assert select(registry, "acme").name == "acme"


def test_builtin_passes_over_every_builder(registry) -> None:
    registry.add(target("acme", on("cpu"), OP))
    selection = select(registry, BUILTIN, runs_on=("reference",))
    assert (selection.name, selection.builder, selection.backend) == (BUILTIN, None, None)


def test_builtin_is_refused_where_no_kernel_runs(registry) -> None:
    """DIS-14"""
    registry.add(target("acme", on("cpu"), OP))
    with pytest.raises(OpNotAvailableError, match=f"{OP}: in-tree kernels.*cpu"):
        select(registry, BUILTIN)


# -- every backend is a target ---------------------------------------------------------------


def test_a_backends_name_asks_for_its_kernel_types(found) -> None:
    types = [KernelTypeRegistration(OP, "reference", Anywhere)]
    registry = Registry(lambda: [found("reference", kernel_types=lambda: types), found("acme")])
    selection = select(registry, "reference", runs_on=("reference",))
    assert (selection.name, selection.builder, selection.backend) == (
        "reference",
        None,
        "reference",
    )


def test_a_builder_under_the_backends_name_stands_above_its_kernel_types(found) -> None:
    hooks = {
        "kernel_builders": lambda: [BuilderRegistration(OP, "acme", build)],
        "kernel_types": lambda: [KernelTypeRegistration(OP, "fast", Anywhere)],
    }
    registry = Registry(lambda: [found("acme", **hooks)])
    assert select(registry, "acme", runs_on=("acme",)).builder is not None


def test_a_named_backend_whose_kernels_do_not_run_there_is_an_error_not_a_fall_back(found) -> None:
    """DIS-14"""
    types = [KernelTypeRegistration(OP, "fast", Cuda)]
    points = [
        found("acme", kernel_types=lambda: types),
        found(
            "reference", kernel_types=lambda: [KernelTypeRegistration(OP, "reference", Anywhere)]
        ),
    ]
    with pytest.raises(OpNotAvailableError) as caught:
        select(Registry(lambda: points), "acme", runs_on=("reference",))
    text = str(caught.value)
    for part in (f"{OP}: target 'acme'", "on cpu", "'fast' (needs cuda)", "reference"):
        assert part in text
    assert (caught.value.op, caught.value.target, caught.value.backend) == (OP, "acme", "acme")


def test_a_named_target_without_the_op_is_an_error_not_a_fall_back(registry) -> None:
    """DIS-14"""
    registry.add(target("acme", on("cpu"), "MulFwdOp"))
    with pytest.raises(OpNotAvailableError, match=f"{OP}: target 'acme'.*it serves MulFwdOp"):
        select(registry, "acme", runs_on=("reference",))


def forward(self: object, x: torch.Tensor) -> torch.Tensor:
    return x


class Fine(Kernel, SoftmaxFwdInterface):
    devices = frozenset({"xpu"})
    forward = forward


BROKEN = {
    "has devices = ('cpu',)": type("T", (Fine,), {"devices": ("cpu",)}),
    "does not implement forward": type("T", (Kernel, SoftmaxFwdInterface), {}),
    "has forward": type("T", (Fine,), {"forward": lambda self: None}),
    "does not inherit Kernel": type("T", (SoftmaxFwdInterface,), {"forward": forward}),
    "implements no interface": type("T", (Kernel,), {"forward": forward}),
    "preferred_over names the kernel type itself": type(
        "T", (Fine,), {"preferred_over": frozenset({"broken"})}
    ),
    "No module named 'acme'": "acme.softmax:Softmax",
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("why", BROKEN)
def test_a_named_backend_whose_kernel_type_was_dropped_is_told_so_and_why(why) -> None:
    """DIS-14: it was said to need the very device that the call is on."""
    with registered(KernelTypeRegistration("SoftmaxFwdOp", "broken", BROKEN[why]), backend="acme"):
        with pytest.raises(OpNotAvailableError) as caught:
            SoftmaxFwdOp(dim=-1, target="acme")(torch.ones(3))
        with (
            registered(KernelTypeRegistration("SoftmaxFwdOp", "fine", Fine), backend="acme"),
            pytest.raises(OpNotAvailableError) as with_another,
        ):
            SoftmaxFwdOp(dim=-1, target="acme")(torch.ones(3))
    text = str(caught.value)
    assert "has nothing that works for it; its kernel type 'broken' was dropped as broken" in text
    assert why in text
    assert "`tileops doctor`" in text
    assert "needs cpu" not in text
    text = str(with_another.value)
    assert "serves it by kernel type 'fine' (needs xpu), none of which runs there" in text
    assert "its kernel type 'broken' was dropped as broken" in text


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nobody_tells_a_kernel_type_that_was_dropped_from_one_that_serves(registry) -> None:
    types = [KernelTypeRegistration(OP, key, Cuda) for key in ("fast", "broken")]
    registry.add(types, backend="acme")
    registry.record_failure("acme", TypeError(f"{OP}: kernel type 'broken' (Cuda) is no Kernel"))
    with pytest.raises(OpNotAvailableError) as caught:
        select(registry)
    text = str(caught.value)
    assert (
        f"serves {OP} by kernel type 'fast' (needs cuda); kernel type 'broken' of {OP} was" in text
    )
    assert text.index("see below") < text.index("TypeError: SumFwdOp: kernel type 'broken' (Cuda)")


def test_an_op_that_a_backend_registered_under_a_wrong_name_is_guessed_at(registry) -> None:
    """REG-14"""
    registry.add(target("acme", on("cpu"), "SunFwdOp", "MulFwdOp"))
    with pytest.raises(OpNotAvailableError, match=r"does its 'SunFwdOp' mean 'SumFwdOp'\?"):
        select(registry, "acme")
    with pytest.raises(OpNotAvailableError, match=r"does its 'SunFwdOp' mean 'SumFwdOp'\?"):
        select(registry)


def test_an_op_that_somebody_defines_is_no_misspelled_one(registry) -> None:
    """Names of real ops are as close to each other as a misspelling is."""
    registry.add([InterfaceRegistration("SunFwdOp", "sun", Anywhere)], backend="solar")
    registry.add(target("acme", on("cpu"), "SunFwdOp"))
    with pytest.raises(OpNotAvailableError, match=r"it serves SunFwdOp;"):
        select(registry, "acme")


def test_a_target_is_not_its_backends_kernel_types(registry) -> None:
    registry.add([*target("zoom"), KernelTypeRegistration(OP, "fast", Anywhere)], backend="acme")
    with pytest.raises(OpNotAvailableError):
        select(registry, "zoom", runs_on=("acme",))
    assert select(registry, "acme", runs_on=("acme",)).backend == "acme"


# -- 2: the default --------------------------------------------------------------------------


class default_target_of:
    """``default_target`` for names of a registry of the test's own."""

    def __init__(self, registry: Registry, name: object) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.token = targets._blocks.set((targets._Block(self.name),))

    def __exit__(self, *error: object) -> None:
        targets._blocks.reset(self.token)


def test_the_default_stands_above_detectors(registry) -> None:
    """REG-03"""
    registry.add([*target("a", on("cpu"), OP), *target("b", on("cpu"), OP)])
    with default_target_of(registry, "b"):
        assert select(registry).name == "b"
    with default_target_of(registry, BUILTIN):
        assert select(registry, runs_on=("x",)).name is BUILTIN


def test_a_default_that_left_since_is_told_as_the_default(registry) -> None:
    with (
        default_target_of(registry, "gone"),
        pytest.raises(UnknownTargetError, match="the default target is 'gone'"),
    ):
        select(registry)


def test_an_unknown_default_is_refused_when_it_is_set() -> None:
    """REG-14"""
    with pytest.raises(UnknownTargetError, match="nobodys"):
        set_default_target("nobodys")
    with pytest.raises(UnknownTargetError, match="nobodys"), default_target("nobodys"):
        pass
    with pytest.raises(TypeError):
        set_default_target(3)
    assert current_default() is None


def test_the_processs_default_holds_in_every_thread() -> None:
    with registered(*target("acme_d")):
        set_default_target("acme_d")
        assert in_thread(current_default) == "acme_d"
        set_default_target(None)
        assert in_thread(current_default) is None


def test_a_blocks_default_holds_in_its_own_thread_only() -> None:
    with registered(*target("acme_d")), default_target("acme_d"):
        assert current_default() == "acme_d"
        assert in_thread(current_default) is None


def test_blocks_nest_and_end_whatever_happens() -> None:
    with registered(*target("acme_d"), *target("zoom_d")):
        set_default_target("zoom_d")
        with default_target("acme_d"):
            with default_target(None):
                assert current_default() is None
            with pytest.raises(ZeroDivisionError), default_target(BUILTIN):
                1 / 0  # noqa: B018
            assert current_default() == "acme_d"
        assert current_default() == "zoom_d"


def test_setting_the_processs_default_inside_a_block_shows_after_it() -> None:
    with registered(*target("acme_d")):
        with default_target(BUILTIN):
            set_default_target("acme_d")
            assert current_default() is BUILTIN
        assert current_default() == "acme_d"


def test_each_asyncio_task_has_its_own_block() -> None:
    async def inside(name: str) -> object:
        with default_target(name):
            await asyncio.sleep(0)
            return current_default()

    async def both() -> list[object]:
        return list(await asyncio.gather(inside("acme_d"), inside("zoom_d")))

    with registered(*target("acme_d"), *target("zoom_d")):
        assert asyncio.run(both()) == ["acme_d", "zoom_d"]


def test_blocks_of_generators_end_in_any_order() -> None:
    def block(name: str) -> Iterator[None]:
        with default_target(name):
            yield

    with registered(*target("acme_d"), *target("zoom_d")):
        first, second = block("acme_d"), block("zoom_d")
        next(first)
        next(second)
        next(first, None)
        assert current_default() == "zoom_d"
        next(second, None)
        assert current_default() is None


def test_a_block_may_end_in_another_context_than_it_began_in() -> None:
    """What a framework does that runs the two ends of a generator in two copies of a context."""
    with registered(*target("acme_d")):
        block = default_target("acme_d")
        began = contextvars.copy_context()
        began.run(block.__enter__)
        assert began.run(current_default) == "acme_d"
        block.__exit__(None, None, None)
        assert current_default() is None


def in_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


# -- 3: detectors ----------------------------------------------------------------------------


def test_the_one_target_that_claims_the_device_serves(registry) -> None:
    registry.add([*target("a", on("cuda"), OP), *target("b", on("cpu"), OP)])
    selection = select(registry, runs_on=("reference",))
    assert (selection.name, selection.builder) == ("b", registry.builder(OP, "b"))


def test_only_targets_with_a_builder_for_the_op_are_asked(registry) -> None:
    """DIS-14"""
    asked = []
    registry.add(target("acme", lambda device: asked.append(device) or True, "MulFwdOp"))
    assert select(registry, runs_on=("reference",)).name is BUILTIN
    assert asked == []


def test_detectors_get_the_device_and_nothing_else(registry) -> None:
    asked = []
    registry.add(target("acme", lambda *args, **kwargs: asked.append((args, kwargs)), OP))
    device = torch.device("cuda", 3)
    with pytest.raises(OpNotAvailableError):
        select(registry, device=device)
    assert set(asked[0][0]) == {device}
    assert asked[0] == ((device,), {})


@pytest.mark.parametrize("kind", ["cudacustom", "cud", "meta"])
def test_a_detector_that_compares_types_claims_no_relative(registry, kind) -> None:
    """REG-09"""

    class Device:
        type = kind

        def __str__(self) -> str:
            return kind

    registry.add(target("nvidia", on("cuda"), OP))
    assert select(registry, device=Device(), runs_on=("reference",)).name is BUILTIN


@pytest.mark.parametrize("order", list(itertools.permutations(["acme", "zoom", "other"])))
def test_several_claims_are_ambiguous_in_the_same_words_whatever_the_order(found, order) -> None:
    """REG-03"""
    texts = set()
    for names in (order, sorted(order)):
        registry = Registry(lambda: ())
        for name in names:
            claims = on("cuda" if name == "other" else "cpu")
            registry.add(target(name, claims, OP), backend=f"of_{name}")
        with pytest.raises(AmbiguousTargetError) as caught:
            select(registry, runs_on=("reference",))
        texts.add(str(caught.value))
    (text,) = texts
    for part in (f"{OP}: ", "cpu", "'acme' of backend 'of_acme'", "'zoom' of backend 'of_zoom'"):
        assert part in text
    for way in ("target='acme'", "set_default_target('acme')", "target=BUILTIN"):
        assert way in text
    assert "'other'" not in text


def test_ambiguity_names_the_distributions(found) -> None:
    """REG-03"""
    points = [
        found(
            name,
            f"{name}-kernels",
            targets=lambda name=name: [TargetRegistration(name, on("cpu"))],
            kernel_builders=lambda name=name: [BuilderRegistration(OP, name, build)],
        )
        for name in ("b", "a")
    ]
    with pytest.raises(AmbiguousTargetError, match=r"a-kernels 1\.0.*b-kernels 1\.0"):
        select(Registry(lambda: points))
    assert select(Registry(lambda: points), "b").name == "b"


FAULTY = {
    "an exception": lambda device: 1 / 0,
    "SystemExit": lambda device: exit(),
    "a string": lambda device: "cpu",
    "a device": lambda device: device,
    "a function": lambda device: on,
    "a wrong signature": lambda: True,
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_detector_claims_nothing_and_is_reported_once(found, fault, caplog) -> None:
    point = found(
        "acme",
        targets=lambda: [TargetRegistration("acme", FAULTY[fault])],
        kernel_builders=lambda: [BuilderRegistration(OP, "acme", build)],
    )
    registry = Registry(lambda: [point])
    for _ in range(3):
        selection = select(registry, runs_on=("reference",))
    assert selection.name is BUILTIN
    assert "its detector" in "".join(selection.reasons)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tileops.backend", "WARNING")
    assert "'acme' (acme 1.0) is responsible" in record.getMessage()


def test_a_coroutine_is_no_answer(registry, caplog) -> None:
    async def detect(device: object) -> bool:
        return True

    registry.add(target("acme", detect, OP))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "never awaited", as it should be
        assert select(registry, runs_on=("reference",)).name is BUILTIN
        gc.collect()
    assert "instead of a bool" in caplog.text


def test_a_detector_that_cannot_be_imported_claims_nothing(registry, caplog) -> None:
    registry.add(target("acme", "acme_none:detect", OP))
    assert select(registry, runs_on=("reference",)).name is BUILTIN
    assert "acme_none" in caplog.text


def test_a_faulty_detector_leaves_the_others_their_say(registry) -> None:
    registry.add([*target("a", lambda device: 1 / 0, OP), *target("b", on("cpu"), OP)])
    assert select(registry).name == "b"


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        (True, True),
        (False, False),
        (None, False),
        (1, True),
        (0, False),
        (torch.tensor(True), True),
    ],
)
def test_answers_that_python_takes_for_truth_values_count(registry, answer, claims, caplog) -> None:
    registry.add(target("acme", lambda device: answer, OP))
    assert (select(registry, runs_on=("reference",)).name == "acme") is claims
    assert caplog.records == []


def test_the_user_who_interrupts_a_detector_is_obeyed(registry) -> None:
    def detect(device: object) -> bool:
        raise KeyboardInterrupt

    registry.add(target("acme", detect, OP))
    with pytest.raises(KeyboardInterrupt):
        select(registry)


# -- 4 and 5: in-tree, or nobody -------------------------------------------------------------


def test_in_tree_serves_where_no_detector_claims(registry) -> None:
    registry.add(target("acme", on("cuda"), OP))
    selection = select(registry, runs_on=("reference",))
    assert (selection.name, selection.builder, selection.backend) == (BUILTIN, None, None)


def test_nobody_says_who_is_installed_and_what_each_needs(found) -> None:
    points = [
        found("idle"),
        found(
            "zoom",
            targets=lambda: [TargetRegistration("zoom", on("zoom"))],
            kernel_builders=lambda: [BuilderRegistration(OP, "zoom", build)],
        ),
        found("partial", targets=lambda: [TargetRegistration("partial", on("cpu"))]),
        found("acme", kernel_types=lambda: [KernelTypeRegistration(OP, "fast", Cuda)]),
        found("core", "tileops-core"),
    ]
    with pytest.raises(OpNotAvailableError) as caught:
        select(Registry(lambda: points))
    text = str(caught.value)
    for part in (
        f"{OP}: nobody serves it on cpu",
        "backend 'idle' (idle 1.0): has nothing for SumFwdOp",
        "its detector does not claim cpu",
        "target 'partial' claims cpu but has no builder of SumFwdOp",
        "kernel type 'fast' (needs cuda)",
        "`pip install tileops-reference`",
    ):
        assert part in text
    assert "'core'" not in text
    assert caught.value.op == OP
    assert isinstance(caught.value, NotImplementedError)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nobody_also_names_who_failed_and_who_is_skipped(found, monkeypatch) -> None:
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", "reference")
    points = [found("bad", targets=lambda: 1 / 0), found("reference")]
    with pytest.raises(OpNotAvailableError) as caught:
        select(Registry(lambda: points))
    for part in ("ZeroDivisionError", "'reference' is skipped", "TILEOPS_DISABLE_BACKENDS"):
        assert part in str(caught.value)
    assert "pip install" not in str(caught.value)


def test_nobody_where_nobody_is_installed_names_the_command(registry) -> None:
    with pytest.raises(OpNotAvailableError, match=r"nobody(.|\n)*pip install tileops-reference"):
        select(registry)


# -- composites ------------------------------------------------------------------------------


def test_a_composite_runs_its_composition_under_the_named_target(registry) -> None:
    registry.add(target("acme", on(), "MulFwdOp"))
    selection = select(registry, "acme", composite=True)
    assert (selection.name, selection.builder) == ("acme", None)


def test_a_composite_with_kernels_of_its_own_needs_a_builder(registry) -> None:
    registry.add(target("acme", on(), "MulFwdOp"))
    with pytest.raises(OpNotAvailableError):
        select(registry, "acme", composite=True, own_kernels=True)


def test_a_composite_asks_every_targets_detector(registry) -> None:
    registry.add([*target("acme", on("cpu"), "MulFwdOp"), *target("zoom", on("cuda"))])
    assert select(registry, composite=True).name == "acme"
    registry.add(target("other", on("cpu")))
    with pytest.raises(AmbiguousTargetError):
        select(registry, composite=True)


def test_a_composite_is_available_where_nothing_claims(registry) -> None:
    assert select(registry, composite=True).name is BUILTIN
    assert select(registry, BUILTIN, composite=True, own_kernels=True).name is BUILTIN


# -- telling ---------------------------------------------------------------------------------


def test_a_selection_carries_its_reasons(registry) -> None:
    registry.add([*target("a", on("cuda"), OP), *target("b", on("cpu"), OP)])
    assert select(registry).reasons == (
        "no target= was given",
        "no default target is set",
        "target 'a' does not claim cpu",
        "target 'b' claims cpu",
    )
    assert select(registry, "a").reasons[0] == "target='a' was given to the constructor"


def test_registered_targets_are_names_for_target() -> None:
    entries = [*target("zoom_r", on(), OP), KernelTypeRegistration("MulFwdOp", "r", Anywhere)]
    with registered(*entries, backend="acme_r"):
        assert {"zoom_r", "acme_r"} <= set(registered_targets())
        assert registered_targets() == sorted(registered_targets())
        assert "zoom_r" in registered_targets(OP)
        assert "acme_r" not in registered_targets(OP)
        assert "acme_r" in registered_targets("MulFwdOp")
    assert not {"zoom_r", "acme_r"} & set(registered_targets())


def test_every_selection_error_is_a_backend_error() -> None:
    for error in (UnknownTargetError, AmbiguousTargetError, OpNotAvailableError):
        assert issubclass(error, BackendError)
