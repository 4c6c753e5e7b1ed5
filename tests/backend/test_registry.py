from __future__ import annotations

import importlib
import itertools
import sys
import threading
import warnings

import faulty
import pytest

from tileops_core.backend import (
    BuilderRegistration,
    DeviceFactsRegistration,
    DiagnosticRegistration,
    InterfaceRegistration,
    KernelTypeRegistration,
    OracleRegistration,
    TargetRegistration,
)
from tileops_core.backend.registry import Registry
from tileops_core.errors import BackendError, UnknownTargetError


def claims_nothing(device: object) -> bool:
    return False


def build(*inputs: object, **parameters: object) -> None: ...


def another_build(*inputs: object, **parameters: object) -> None: ...


def load(*points) -> Registry:
    registry = Registry(lambda: points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry.ensure_loaded()
    return registry


def target(name: str) -> TargetRegistration:
    return TargetRegistration(name, claims_nothing)


def hooks(*registrations: object) -> dict[str, object]:
    """The hooks that return these registrations."""
    names = {
        TargetRegistration: "targets",
        BuilderRegistration: "kernel_builders",
        InterfaceRegistration: "kernel_interfaces",
        KernelTypeRegistration: "kernel_types",
        DeviceFactsRegistration: "device_facts",
        OracleRegistration: "oracles",
        DiagnosticRegistration: "diagnostics",
    }
    return {
        name: lambda kind=kind: [r for r in registrations if type(r) is kind]
        for kind, name in names.items()
    }


SAME = {
    "target": lambda referent: [TargetRegistration("shared", referent)],
    "builder": lambda referent: [
        target(f"t{id(referent)}"),
        BuilderRegistration("SumFwdOp", "acme", referent),
    ],
    "kernel type": lambda referent: [KernelTypeRegistration("SumFwdOp", "fast", referent)],
    "interface": lambda referent: [InterfaceRegistration("SumFwdOp", "sum", referent)],
    "device facts": lambda referent: [DeviceFactsRegistration("acme", referent)],
    "oracle": lambda referent: [OracleRegistration("SumFwdOp", referent)],
}


# -- conflicts -------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in SAME if kind != "builder"])
def test_of_two_backends_with_the_same_the_second_by_name_fails(found, kind, reverse) -> None:
    """REG-13"""
    points = [
        found(name, **hooks(*SAME[kind](referent)))
        for name, referent in (("acme", "acme_kernels:f"), ("zeta", "zeta_kernels:f"))
    ]
    registry = load(*(points[::-1] if reverse else points))
    (failure,) = registry.load_failures()
    assert failure.backend == "zeta"
    text = str(failure.error)
    for part in ("'acme' (acme 1.0)", "'zeta' (zeta 1.0)"):
        assert part in text
    assert registry.registered_by("zeta") == ()
    assert len(registry.registered_by("acme")) == 1
    if kind != "interface":
        assert "module acme_kernels" in text
        assert "module zeta_kernels" in text


def test_two_builders_of_one_op_for_one_target_conflict(found) -> None:
    """REG-13"""
    builder = BuilderRegistration("SumFwdOp", "shared", build)
    acme = found("acme", **hooks(target("shared"), builder))
    zeta = found("zeta", **hooks(builder, KernelTypeRegistration("SumFwdOp", "z", int)))
    registry = load(zeta, acme)
    assert [f.backend for f in registry.load_failures()] == ["zeta"]
    assert registry.builder("SumFwdOp", "shared").backend == "acme"
    assert registry.kernel_types("SumFwdOp") == ()


def test_one_backend_that_registers_two_things_in_one_place_fails(found) -> None:
    both = [TargetRegistration("acme", claims_nothing), TargetRegistration("acme", print)]
    (failure,) = load(found("acme", **hooks(*both))).load_failures()
    assert "target 'acme' is already registered" in str(failure.error)
    assert str(failure.error).endswith("return one of the two only")


def test_two_diagnostics_of_one_name_in_one_backend_conflict(found) -> None:
    both = [DiagnosticRegistration("C compiler", function) for function in (print, repr)]
    (failure,) = load(found("acme", **hooks(*both))).load_failures()
    assert "diagnostic 'C compiler' is already registered" in str(failure.error)
    assert str(failure.error).endswith("return one of the two only")
    assert failure.error.target is None


def test_two_backends_may_call_their_diagnostics_the_same(found) -> None:
    points = [
        found(name, **hooks(DiagnosticRegistration("C compiler", function)))
        for name, function in (("acme", print), ("zeta", repr))
    ]
    registry = load(*points)
    assert registry.load_failures() == ()
    for name, function in (("acme", print), ("zeta", repr)):
        (diagnostic,) = registry.registered_by(name)
        assert diagnostic.resolve() is function


def test_what_a_backend_lists_twice_is_there_once(found) -> None:
    registry = load(found("acme", **hooks(target("acme"), target("acme"))))
    assert registry.load_failures() == ()
    assert len(registry.registered_by("acme")) == 1


def test_two_distributions_with_one_backend_name_are_told_apart(found) -> None:
    """REG-04"""
    points = [found("acme", "acme-b"), found("acme", "acme-a")]
    registry = load(*points)
    (failure,) = registry.load_failures()
    assert failure.distribution == "acme-b"
    assert "acme-a 1.0" in str(failure.error)
    assert "acme-b 1.0" in str(failure.error)
    assert [who.distribution for who in registry.backends()] == ["acme-a"]


def test_a_name_stays_with_its_distribution_when_its_backend_fails(found) -> None:
    first = found("acme", "acme-a", targets=lambda: 1 / 0)
    registry = load(first, found("acme", "acme-b"))
    assert [f.distribution for f in registry.load_failures()] == ["acme-a", "acme-b"]
    assert registry.target_names() == ()


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_a_backends_name_is_no_other_distributions_target(found, order) -> None:
    thief = found("a_thief", **hooks(target("victim")))
    points = [thief, found("victim")]
    registry = load(*(points[i] for i in order))
    (failure,) = registry.load_failures()
    assert failure.backend == "a_thief"
    assert "'victim' is the name of a backend of victim" in str(failure.error)
    assert registry.target_names() == ("victim",)


def test_a_failing_backends_name_is_kept_too(found) -> None:
    registry = load(
        found("a_thief", **hooks(target("victim"))), found("victim", targets=lambda: 1 / 0)
    )
    assert {f.backend for f in registry.load_failures()} == {"a_thief", "victim"}


def test_a_skipped_backends_name_is_free(found, monkeypatch) -> None:
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", "victim")
    registry = load(found("a_thief", **hooks(target("victim"))), found("victim"))
    assert registry.load_failures() == ()


def test_nobody_adds_builders_under_another_backends_name(found) -> None:
    thief = found("a_thief", **hooks(BuilderRegistration("SumFwdOp", "victim", build)))
    registry = load(thief, found("victim"))
    assert [f.backend for f in registry.load_failures()] == ["a_thief"]
    assert registry.targets_of("SumFwdOp") == ()


def test_backends_of_one_distribution_share_their_names(found) -> None:
    more = found("acme_more", "acme", **hooks(target("acme")))
    registry = load(found("acme", "acme"), more)
    assert registry.load_failures() == ()
    assert registry.targets()["acme"].backend == "acme_more"


def test_a_backend_may_serve_an_op_under_its_own_name_without_a_target(found) -> None:
    registry = load(found("acme", **hooks(BuilderRegistration("SumFwdOp", "acme", build))))
    assert registry.targets_of("SumFwdOp") == ("acme",)


def test_one_distribution_may_add_builders_to_another_distributions_target(found) -> None:
    adder = found("acme_more", **hooks(BuilderRegistration("SumFwdOp", "zoom", build)))
    registry = load(adder, found("zeta", **hooks(target("zoom"))))
    assert registry.load_failures() == ()
    assert registry.targets_of("SumFwdOp") == ("zoom",)


def test_a_builder_for_a_target_that_nobody_has_is_refused_with_a_guess(found) -> None:
    """REG-14"""
    wrong = BuilderRegistration("SumFwdOp", "acne", build)
    registry = load(found("acme", **hooks(target("acme"), wrong)), found("zeta"))
    (failure,) = registry.load_failures()
    assert "(did you mean 'acme'?)" in str(failure.error)
    assert registry.target_names() == ("zeta",)


def test_who_builds_for_a_backend_that_fails_fails_with_it(found) -> None:
    points = [
        found("a", **hooks(target("a_t"), BuilderRegistration("SumFwdOp", "b_t", build))),
        found("b", **hooks(target("b_t"), BuilderRegistration("SumFwdOp", "c_t", build))),
        found("d"),
    ]
    registry = load(*points)
    assert {f.backend for f in registry.load_failures()} == {"a", "b"}
    assert registry.backend_names() == ("d",)


def test_only_the_distribution_of_an_op_gives_it_interfaces(found) -> None:
    core = found("core", "tileops-core", **hooks(InterfaceRegistration("SumFwdOp", "sum", int)))
    other = found("a", **hooks(InterfaceRegistration("SumFwdOp", "second", int)))
    registry = load(other, core)
    assert [f.backend for f in registry.load_failures()] == ["a"]
    assert list(registry.interfaces("SumFwdOp")) == ["sum"]


def test_an_op_may_have_several_interfaces(found) -> None:
    two = [InterfaceRegistration("SumFwdOp", name, int) for name in ("train", "infer")]
    assert list(load(found("acme", **hooks(*two))).interfaces("SumFwdOp")) == ["infer", "train"]


@pytest.mark.parametrize("name", ["core", "runtime", "BUILTIN", "builtin"])
def test_names_that_the_library_needs_are_kept(found, name) -> None:
    registry = load(found(name, "acme"), found("core", "tileops-core"))
    (failure,) = registry.load_failures()
    assert failure.distribution == "acme"
    assert f"the backend name {name!r} is kept" in str(failure.error)
    assert registry.backend_names() == ("core",)


def test_a_backend_of_this_process_is_not_called_builtin_either(registry) -> None:
    with pytest.raises(ValueError, match="'BUILTIN' is kept for in-tree kernels"):
        registry.add([], backend="BUILTIN")


@pytest.mark.parametrize("name", ["my-backend", "my backend", "1st", "class"])
def test_a_backends_name_is_an_identifier(found, name) -> None:
    (failure,) = load(found(name)).load_failures()
    assert "cannot name a backend" in str(failure.error)
    if name == "my-backend":
        assert "did you mean 'my_backend'?" in str(failure.error)


def test_the_core_registers_interfaces_only(found) -> None:
    registry = load(found("core", "tileops-core", **hooks(target("core"))))
    assert "interfaces only" in str(registry.load_failures()[0].error)


def test_the_core_is_a_backend_but_no_target(found) -> None:
    registry = load(found("core", "tileops-core"), found("acme"))
    assert registry.backend_names() == ("acme", "core")
    assert registry.target_names() == ("acme",)


# -- run time --------------------------------------------------------------------------------


def test_registering_makes_sure_first_that_everybody_is_loaded(found) -> None:
    registry = Registry(lambda: [found("acme", **hooks(target("shared")))])
    with pytest.raises(BackendError, match="already registered by backend 'acme'"):
        registry.add([target("shared")])
    assert registry.load_failures() == ()


def test_every_change_raises_the_generation(registry) -> None:
    seen = [registry.generation]

    def changed() -> bool:
        seen.append(registry.generation)
        return seen[-1] > seen[-2]

    registry.ensure_loaded()
    assert changed()
    done = registry.add([target("a"), target("b")])
    assert changed()
    registry.add([target("a")])
    assert not changed()
    registry.take_back(done)
    assert changed()
    registry.take_back(done)
    registry.add([target("a")])
    assert changed()
    registry.remove("runtime")
    assert changed()


def test_the_same_function_again_is_no_conflict(registry) -> None:
    """REG-13"""
    registry.add([target("acme"), BuilderRegistration("SumFwdOp", "acme", build)])
    before = registry.generation
    registry.add([target("acme"), BuilderRegistration("SumFwdOp", "acme", build)])
    assert registry.generation == before


def test_a_reloaded_module_replaces_what_it_registered(registry, site) -> None:
    """REG-13"""
    site.module(
        "acme_kernels",
        """
        class Kernel: pass
        def build(*inputs): pass
        detect = lambda device: False
        """,
    )
    import acme_kernels as module

    def register() -> None:
        registry.add(
            [
                TargetRegistration("acme", module.detect),
                BuilderRegistration("SumFwdOp", "acme", module.build),
                KernelTypeRegistration("SumFwdOp", "fast", module.Kernel),
            ]
        )

    register()
    importlib.reload(module)
    register()
    assert registry.builder("SumFwdOp", "acme").resolve() is module.build
    assert registry.kernel_types("SumFwdOp")[0].resolve() is module.Kernel
    assert registry.targets()["acme"].resolve() is module.detect


def test_a_string_and_the_function_it_names_are_the_same(registry) -> None:
    """REG-13"""
    registry.add([OracleRegistration("SumFwdOp", f"{build.__module__}:build")])
    registry.add([OracleRegistration("SumFwdOp", build)])
    assert registry.oracle("SumFwdOp") is build


def test_another_function_in_the_same_place_is_a_conflict_that_names_both_modules(
    registry, site
) -> None:
    """REG-13"""
    for name in ("acme", "zeta"):
        site.module(f"{name}_kernels", "def build(*inputs): pass")
    registry.add([target("t")])
    registry.add(
        [BuilderRegistration("SumFwdOp", "t", importlib.import_module("acme_kernels").build)]
    )
    with pytest.raises(BackendError, match=r"acme_kernels.*zeta_kernels"):
        registry.add([BuilderRegistration("SumFwdOp", "t", "zeta_kernels:build")])
    assert registry.builder("SumFwdOp", "t").resolve().__module__ == "acme_kernels"


def test_an_installed_backends_place_is_taken_at_run_time_too(found) -> None:
    registry = load(
        found("acme", **hooks(target("acme"), BuilderRegistration("SumFwdOp", "acme", build)))
    )
    for registration in (target("acme"), BuilderRegistration("SumFwdOp", "acme", build)):
        with pytest.raises(BackendError, match=r"acme 1\.0"):
            registry.add([registration])


def test_a_batch_is_registered_whole_or_not_at_all(registry) -> None:
    registry.add([OracleRegistration("SumFwdOp", build)])
    before = registry.snapshot()
    with pytest.raises(BackendError):
        registry.add([target("acme"), OracleRegistration("SumFwdOp", another_build)])
    with pytest.raises(TypeError, match="is no registration"):
        registry.add([target("acme"), "acme"])
    assert registry.snapshot() is before


def test_a_builder_and_its_target_may_come_in_any_order_within_a_batch(registry) -> None:
    registry.add([BuilderRegistration("SumFwdOp", "acme", build), target("acme")])
    assert registry.targets_of("SumFwdOp") == ("acme",)


def test_a_builder_for_an_unknown_target_is_refused_at_run_time(registry) -> None:
    """REG-14"""
    registry.add([target("acme")])
    with pytest.raises(BackendError, match="did you mean 'acme'"):
        registry.add([BuilderRegistration("SumFwdOp", "acne", build)])
    assert registry.targets_of("SumFwdOp") == ()


def test_kernel_types_belong_to_the_backend_that_is_named(registry) -> None:
    registry.add([KernelTypeRegistration("SumFwdOp", "fast", int)], backend="acme")
    (entry,) = registry.kernel_types("SumFwdOp")
    assert (entry.backend, entry.distribution, entry.version) == ("acme", None, None)
    assert registry.target_names() == ("acme",)


@pytest.mark.parametrize("name", ["my-backend", "", None])
def test_a_backend_named_at_run_time_is_an_identifier(registry, name) -> None:
    with pytest.raises(ValueError, match="backend="):
        registry.add([target("acme")], backend=name)


def test_an_installed_backend_can_be_added_to(found) -> None:
    registry = load(found("acme"))
    registry.add([KernelTypeRegistration("SumFwdOp", "fast", int)], backend="acme")
    (entry,) = registry.kernel_types("SumFwdOp")
    assert (entry.distribution, entry.version) == ("acme", "1.0")


def test_a_name_that_is_a_target_is_no_new_backend(found) -> None:
    registry = load(found("acme", **hooks(target("zoom"))))
    with pytest.raises(BackendError, match="target 'zoom' belongs to backend 'acme'"):
        registry.add([KernelTypeRegistration("SumFwdOp", "fast", int)], backend="zoom")


def test_a_failed_backends_name_is_not_free(found) -> None:
    registry = load(found("acme", targets=lambda: 1 / 0))
    with pytest.raises(BackendError, match="'acme' is a backend of acme"):
        registry.add([KernelTypeRegistration("SumFwdOp", "fast", int)], backend="acme")


# -- taking back -----------------------------------------------------------------------------


def test_what_was_there_before_stays(registry) -> None:
    registry.add([target("a")])
    done = registry.add([target("a"), target("b")])
    registry.take_back(done)
    assert registry.target_names() == ("a", "runtime")


def test_what_was_replaced_comes_back(registry) -> None:
    first = OracleRegistration("SumFwdOp", f"{build.__module__}:build")
    registry.add([first])
    done = registry.add([OracleRegistration("SumFwdOp", build)])
    registry.take_back(done)
    (entry,) = registry.registered_by("runtime")
    assert entry.registration is first


def test_what_somebody_else_put_there_since_stays(registry) -> None:
    done = registry.add([target("a")])
    registry.remove("runtime")
    registry.add([target("a")], backend="other")
    registry.take_back(done)
    assert registry.targets()["a"].backend == "other"


def test_a_backend_made_at_run_time_leaves_with_its_last_registration(registry) -> None:
    done = registry.add([target("a")], backend="acme")
    more = registry.add([target("b")], backend="acme")
    registry.take_back(done)
    assert registry.backend_names() == ("acme",)
    registry.take_back(more)
    assert registry.backend_names() == ()


def test_an_installed_backend_stays_when_an_addition_is_taken_back(found) -> None:
    registry = load(found("acme"))
    registry.take_back(registry.add([target("zoom")], backend="acme"))
    assert registry.target_names() == ("acme",)


# -- unregistering ---------------------------------------------------------------------------


def test_a_backend_leaves_with_all_that_it_registered(found) -> None:
    everything = [SAME[kind]("acme_kernels:f") for kind in SAME if kind != "builder"]
    registry = load(found("acme", **hooks(*itertools.chain(*everything))), found("zeta"))
    registry.remove("acme")
    assert registry.backend_names() == ("zeta",)
    assert registry.registered_by("acme") == ()
    assert registry.device_facts("acme") is None
    assert registry.oracle("SumFwdOp") is None
    assert registry.kernel_types("SumFwdOp") == ()
    assert dict(registry.interfaces("SumFwdOp")) == {}


def test_its_name_is_free_then(found) -> None:
    registry = load(found("acme"))
    registry.remove("acme")
    registry.add([target("acme")])
    assert registry.targets()["acme"].backend == "runtime"


def test_builders_for_a_target_that_left_are_no_choice(found) -> None:
    registry = load(found("acme", **hooks(target("acme"))))
    registry.add([KernelTypeRegistration("SumFwdOp", "fast", int)])
    adder = found("zeta", **hooks(BuilderRegistration("SumFwdOp", "zoom", build)))
    registry = load(found("acme", **hooks(target("zoom"))), adder)
    registry.remove("acme")
    assert registry.targets_of("SumFwdOp") == ()
    assert "zoom" not in registry.target_names()


def test_a_backend_that_nobody_knows_cannot_leave(found) -> None:
    registry = load(found("acme"), found("core", "tileops-core"))
    with pytest.raises(UnknownTargetError, match="did you mean 'acme'"):
        registry.remove("acne")
    with pytest.raises(BackendError, match="stays"):
        registry.remove("core")
    registry.remove("runtime")


# -- reading ---------------------------------------------------------------------------------


def test_a_snapshot_never_changes(registry) -> None:
    registry.add([target("a"), KernelTypeRegistration("SumFwdOp", "k", int)])
    before = registry.snapshot()
    registry.add([target("b"), KernelTypeRegistration("SumFwdOp", "l", int)])
    registry.remove("runtime")
    assert list(before.targets) == ["a"]
    assert [entry.key for entry in before.kernel_types["SumFwdOp"]] == ["k"]
    with pytest.raises(TypeError):
        before.targets["c"] = None


def test_device_types_are_compared_whole(registry) -> None:
    """REG-09"""
    registry.add([DeviceFactsRegistration("acme", build)])
    assert registry.device_facts("acme") is build
    assert registry.device_facts("acmecustom") is None
    assert registry.device_facts("acm") is None


def test_a_string_is_resolved_once_when_it_is_needed(registry, site) -> None:
    site.module("acme_kernels", "class Outer:\n    class Kernel: pass\nprint('imported')\n")
    registry.add([KernelTypeRegistration("SumFwdOp", "fast", "acme_kernels:Outer.Kernel")])
    assert "acme_kernels" not in sys.modules
    (entry,) = registry.kernel_types("SumFwdOp")
    assert entry.resolve() is entry.resolve()
    assert entry.resolve() is sys.modules["acme_kernels"].Outer.Kernel


def test_threads_that_race_resolve_to_one_object(registry, site) -> None:
    site.module(
        "acme_kernels",
        "import time; time.sleep(0.02)\ndef __getattr__(name): return type(name, (), {})\n",
    )
    registry.add([KernelTypeRegistration("SumFwdOp", "fast", "acme_kernels:Fast")])
    (entry,) = registry.kernel_types("SumFwdOp")
    start, seen = threading.Barrier(8), []

    def resolve() -> None:
        start.wait()
        seen.append(entry.resolve())

    threads = [threading.Thread(target=resolve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert seen[0] is entry.resolve()


RESOLVING = {
    "no module": ("acme_none:f", ModuleNotFoundError, ""),
    "no attribute": ("acme_kernels:g", AttributeError, ""),
    "no deep attribute": ("acme_kernels:f.g.h", AttributeError, ""),
    "SystemExit": ("acme_kernels:f", SystemExit, "raise SystemExit('no licence')"),
    "SyntaxError": ("acme_kernels:f", SyntaxError, "def"),
}


@pytest.mark.parametrize("fault", RESOLVING)
def test_a_string_that_leads_nowhere_is_its_backends_error(found, site, fault) -> None:
    reference, cause, body = RESOLVING[fault]
    site.module("acme_kernels", body or "def f(): pass")
    registry = load(
        found("acme", **hooks(target("acme"), BuilderRegistration("SumFwdOp", "acme", reference)))
    )
    for _ in range(2):
        with pytest.raises(BackendError) as caught:
            registry.builder("SumFwdOp", "acme").resolve()
        error = caught.value
        assert isinstance(error.__cause__, cause)
        assert (error.backend, error.op, error.target) == ("acme", "SumFwdOp", "acme")
        for part in ("SumFwdOp: ", "'acme' (acme 1.0)", repr(reference)):
            assert part in str(error)


def test_the_user_who_interrupts_an_import_is_obeyed(registry, site) -> None:
    site.module("acme_kernels", "raise KeyboardInterrupt")
    registry.add([OracleRegistration("SumFwdOp", "acme_kernels:f")])
    with pytest.raises(KeyboardInterrupt):
        registry.oracle("SumFwdOp")


def test_a_string_that_failed_is_tried_again(registry, site) -> None:
    registry.add([OracleRegistration("SumFwdOp", "acme_kernels:f")])
    with pytest.raises(BackendError):
        registry.oracle("SumFwdOp")
    site.module("acme_kernels", "def f(): pass")
    importlib.invalidate_caches()
    assert registry.oracle("SumFwdOp").__name__ == "f"


@pytest.mark.parametrize(
    ("registration", "kind"),
    [
        (KernelTypeRegistration("SumFwdOp", "fast", "os:getcwd"), "is not a class"),
        (OracleRegistration("SumFwdOp", "os:sep"), "is not callable"),
        (DiagnosticRegistration("paths", "os:sep"), "is not callable"),
    ],
)
def test_a_string_that_leads_to_the_wrong_kind_of_thing_is_told(
    registry, registration, kind
) -> None:
    registry.add([registration])
    (entry,) = registry.registered_by("runtime")
    with pytest.raises(BackendError, match=kind):
        entry.resolve()


# -- diagnostics -----------------------------------------------------------------------------


def diagnostic(find: object) -> object:
    """A diagnostic as an empty registry holds it."""
    registry = Registry(lambda: ())
    registry.add([DiagnosticRegistration("C compiler", find)], backend="acme")
    (held,) = registry.registered_by("acme")
    return held


@pytest.mark.parametrize("text", ["none found; install g++", "none found;\n  install\tg++\n"])
def test_what_a_diagnostic_finds_is_told_in_one_line(text) -> None:
    assert diagnostic(lambda: text).ask() == "none found; install g++"


def test_a_diagnostic_that_finds_nothing_says_none() -> None:
    assert diagnostic(lambda: None).ask() is None


def test_a_diagnostic_is_asked_anew_each_time() -> None:
    """What is missing may be installed in between."""
    answers = ["none found; install g++", None]
    asked = diagnostic(lambda: answers.pop(0))
    assert [asked.ask(), asked.ask()] == ["none found; install g++", None]


@pytest.mark.parametrize("fault", faulty.diagnostic_faults(), ids=lambda fault: fault.name)
def test_a_diagnostic_that_is_no_diagnostic_is_its_backends_fault(fault) -> None:
    with pytest.raises(fault.error) as caught:
        diagnostic(fault.does).ask()
    assert fault.is_told_by(caught.value), caught.value
    assert caught.value.backend == "acme"


def test_the_user_who_interrupts_a_diagnostic_is_obeyed() -> None:
    def wait() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnostic(wait).ask()


# -- failures after loading ------------------------------------------------------------------


def test_a_failure_found_later_is_kept_and_told_once(found) -> None:
    registry = load(found("acme"))
    generation = registry.generation
    with pytest.warns(RuntimeWarning, match=r"acme 1\.0.*forward takes two"):
        registry.record_failure("acme", TypeError("SumFwdOp: forward takes two"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registry.record_failure("acme", TypeError("SumFwdOp: forward takes two"))
    assert [f.distribution for f in registry.load_failures()] == ["acme"]
    assert registry.generation == generation
    assert registry.backend_names() == ("acme",)


def test_another_failure_of_the_same_backend_is_told_too(found) -> None:
    registry = load(found("acme"))
    for text in ("one", "two"):
        with pytest.warns(RuntimeWarning, match=text):
            registry.record_failure("acme", TypeError(text))
    assert len(registry.load_failures()) == 2


def test_failures_within_a_backend_leave_with_it(registry, found) -> None:
    done = registry.add([KernelTypeRegistration("SumFwdOp", "fast", int)])
    with pytest.warns(RuntimeWarning, match="this part of it is not used"):
        registry.record_failure("runtime", TypeError("forward takes two"))
    registry.take_back(done)
    assert registry.load_failures() == ()
    registry = load(found("acme"), found("bad", targets=lambda: 1 / 0))
    with pytest.warns(RuntimeWarning):
        registry.record_failure("acme", TypeError("forward takes two"))
    registry.remove("acme")
    assert [f.backend for f in registry.load_failures()] == ["bad"]


def test_a_failure_found_later_raises_where_strict(found, monkeypatch) -> None:
    registry = load(found("acme"))
    monkeypatch.setenv("TILEOPS_STRICT_BACKENDS", "1")
    for _ in range(2):
        with pytest.raises(BackendError, match="forward takes two") as caught:
            registry.record_failure("acme", TypeError("forward takes two"))
        assert isinstance(caught.value.__cause__, TypeError)


def test_registrations_are_found_again_by_who_made_them(found) -> None:
    registry = load(found("acme", **hooks(target("b"), target("a"), *SAME["oracle"](build))))
    titles = [entry.registration.title for entry in registry.registered_by("acme")]
    assert titles == ["the oracle of SumFwdOp", "target 'a'", "target 'b'"]
