from __future__ import annotations

import sys
import threading
import warnings

import pytest

from tileops_core.backend import (
    BuilderRegistration,
    DiagnosticRegistration,
    KernelTypeRegistration,
    OracleRegistration,
    TargetRegistration,
    hookimpl,
    hookspecs,
)
from tileops_core.backend.discovery import Found
from tileops_core.backend.loader import describe
from tileops_core.backend.registry import Registry
from tileops_core.errors import BackendError

GOOD = """
    @hookimpl
    def tileops_targets():
        return [TargetRegistration("{name}", lambda device: False)]

    @hookimpl
    def tileops_kernel_builders():
        return [BuilderRegistration("SumFwdOp", "{name}", "{name}_kernels:build")]
"""


def good(name: str) -> str:
    return GOOD.format(name=name)


def loaded(registry: Registry) -> Registry:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry.ensure_loaded()
    return registry


def failure(registry: Registry):
    (failure,) = loaded(registry).load_failures()
    return failure


# -- one that fails --------------------------------------------------------------------------

FAULTS = {
    "ImportError": "import a_module_that_is_not_there",
    "RuntimeError": "raise RuntimeError('at import')",
    "SystemExit": "import sys; sys.exit('no licence')",
    "BaseException": "raise BaseException('odd')",
    "GeneratorExit": "raise GeneratorExit",
    "SyntaxError": "def",
    "RecursionError": "def f(): f()\n    f()",
    "in a hook": "@hookimpl\n    def tileops_targets(): raise RuntimeError('in a hook')",
    "SystemExit in a hook": "@hookimpl\n    def tileops_targets(): raise SystemExit",
    "while a hook yields": (
        "@hookimpl\n    def tileops_targets(): yield TargetRegistration('x y', 1)"
    ),
    "an unprintable exception": (
        "class Mute(Exception):\n        def __str__(self): raise RuntimeError\n    raise Mute"
    ),
    "no list": "@hookimpl\n    def tileops_targets(): return 3",
    "a bare registration": (
        "@hookimpl\n    def tileops_targets(): return TargetRegistration('bad', print)"
    ),
    "a bare string": "@hookimpl\n    def tileops_manifest_paths(): return 'ops.yaml'",
    "something else in the list": "@hookimpl\n    def tileops_targets(): return ['bad']",
    "another hook's registrations": (
        "@hookimpl\n    def tileops_targets(): return [OracleRegistration('SumFwdOp', print)]"
    ),
    "a class instead of a registration": (
        "@hookimpl\n    def tileops_targets(): return [TargetRegistration]"
    ),
    "no path": "@hookimpl\n    def tileops_manifest_paths(): return [3]",
    "a hook that takes arguments": "@hookimpl\n    def tileops_targets(registry): return []",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_backend_that_fails_takes_nobody_with_it(site, fault) -> None:
    """REG-01"""
    site.distribution("acme", good("acme"))
    site.distribution("bad", "\n    " + FAULTS[fault])
    site.distribution("zeta", good("zeta"))
    registry = site.registry()
    with pytest.warns(RuntimeWarning, match="backend 'bad'") as caught:
        registry.ensure_loaded()
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1
    assert registry.target_names() == ("acme", "zeta")
    assert [f.backend for f in registry.load_failures()] == ["bad"]


def test_a_failure_says_who_what_and_where(site) -> None:
    """REG-01"""
    site.distribution("bad", "raise RuntimeError('at import')", version="2.1")
    failed = failure(site.registry())
    assert (failed.backend, failed.distribution, failed.version) == ("bad", "bad", "2.1")
    assert failed.entry_point == "bad_plugin"
    assert isinstance(failed.error, RuntimeError)
    assert "bad_plugin.py" in failed.traceback
    assert "at import" in failed.traceback


def test_nothing_of_a_backend_that_fails_late_is_there(site) -> None:
    site.distribution("bad", good("bad") + FAULTS["in a hook"].replace("_targets", "_oracles"))
    registry = loaded(site.registry())
    assert registry.target_names() == ()
    assert registry.targets_of("SumFwdOp") == ()
    assert registry.backends() == ()


def test_the_user_who_interrupts_is_obeyed_and_can_try_again(site) -> None:
    site.distribution("acme", good("acme"))
    site.distribution("slow", good("slow") + "\n    raise KeyboardInterrupt")
    registry = site.registry()
    with pytest.raises(KeyboardInterrupt):
        registry.ensure_loaded()
    assert registry.target_names() == ()
    site.module("slow_plugin", good("slow") + "    # and now it comes through")
    registry.ensure_loaded()
    assert registry.target_names() == ("acme", "slow")


def test_a_stale_entry_point_is_a_failure_like_any_other(site) -> None:
    """REG-06"""
    site.distribution("acme", good("acme"))
    site.distribution("stale")
    registry = loaded(site.registry())
    assert isinstance(registry.load_failures()[0].error, ModuleNotFoundError)
    assert registry.target_names() == ("acme",)


@pytest.mark.parametrize("value", ["m:nothing", "not a value", "m:", "os.path:sep"])
def test_an_entry_point_that_leads_to_no_plugin_is_a_failure(site, value) -> None:
    site.module("m", "")
    site.distribution("bad", points=f"[tileops.backends]\nbad = {value}\n")
    site.distribution(
        "none", "plugin = None", points="[tileops.backends]\nnone = none_plugin:plugin"
    )
    registry = loaded(site.registry())
    failed = {f.backend for f in registry.load_failures()}
    assert "none" in failed
    assert failed <= {"bad", "none"}
    assert set(registry.backend_names()) | failed == {"bad", "none"}


def test_entry_points_that_cannot_be_read_are_a_failure(site) -> None:
    site.distribution("acme", good("acme"))
    site.distribution("bad-one", points="[tileops.backends]\nbad\n")
    registry = loaded(site.registry())
    assert registry.target_names() == ("acme",)
    assert [f.distribution for f in registry.load_failures()] == ["bad-one"]


# -- hooks -----------------------------------------------------------------------------------


def test_a_plugin_may_be_an_object(site) -> None:
    body = """
        class Plugin:
            @hookimpl
            def tileops_targets(self):
                return [TargetRegistration("acme", print)]

        plugin = Plugin()
    """
    site.distribution("acme", body, points="[tileops.backends]\nacme = acme_plugin:plugin\n")
    assert loaded(site.registry()).target_names() == ("acme",)


def test_a_backend_may_register_nothing(site) -> None:
    site.distribution("acme", "")
    registry = loaded(site.registry())
    assert registry.load_failures() == ()
    assert registry.target_names() == ("acme",)


def test_a_hook_that_does_not_exist_is_refused_with_a_guess(site) -> None:
    """REG-14"""
    site.distribution("acme", good("acme") + "\n    @hookimpl\n    def tileops_target(): return []")
    error = failure(site.registry()).error
    assert "tileops_target" in str(error)
    assert "did you mean 'tileops_targets'?" in str(error)


def test_a_hook_named_by_specname_is_checked_too(site) -> None:
    """REG-14"""
    site.distribution("acme", "@hookimpl(specname='pikc')\ndef f(): return []")
    assert "'pikc', which does not exist" in str(failure(site.registry()).error)


def test_a_hook_that_is_optional_may_not_exist(site) -> None:
    site.distribution("acme", "@hookimpl(optionalhook=True)\ndef tileops_of_tomorrow(): return []")
    assert loaded(site.registry()).load_failures() == ()


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("def tileops_oracles(registry):", "tileops_oracles takes registry, and a hook is called"),
        ("def tileops_oracles(*, strict):", "tileops_oracles takes strict, and a hook is called"),
        ("async def tileops_oracles():", "tileops_oracles is async"),
    ],
)
def test_a_hook_that_cannot_be_called_is_refused_in_our_words(site, head, says) -> None:
    site.distribution("acme", f"@hookimpl\n{head} return []")
    error = failure(site.registry()).error
    assert isinstance(error, BackendError)
    assert f"acme_plugin.{says}" in str(error)
    assert "write it as `def tileops_oracles():`" in str(error)


def test_a_hook_may_have_arguments_with_defaults(site) -> None:
    site.distribution("acme", "@hookimpl\ndef tileops_oracles(cache={}): return []")
    assert loaded(site.registry()).load_failures() == ()


def test_a_mark_that_asks_for_too_much_is_told_with_what_is_enough(site) -> None:
    site.distribution("acme", "@hookimpl(wrapper=True)\ndef tileops_oracles(): return []")
    error = failure(site.registry()).error
    assert isinstance(error, BackendError)
    assert "a plain tileops_core.backend.hookimpl" in str(error)


def test_a_hook_without_its_mark_is_refused(site) -> None:
    """REG-14"""
    site.distribution("acme", good("acme") + "\n    def tileops_oracles(): return []")
    assert "tileops_oracles is not marked" in str(failure(site.registry()).error)


def test_a_plugin_that_answers_to_every_name_implements_no_hook() -> None:
    class Obliging:
        def __getattr__(self, name: str) -> object:
            return print

    registry = loaded(Registry(lambda: [Found("acme", "m", "acme", Obliging)]))
    assert registry.load_failures() == ()


def test_hooks_of_one_backend_see_nothing_of_another(found) -> None:
    """REG-16"""

    def wrapping():
        yield
        raise RuntimeError("a wrapper around everybody's results")

    def empty():
        result = yield
        return [[] for _ in result]

    acme = found("acme", targets=lambda: [TargetRegistration("acme", print)])
    for wrapper in (wrapping, empty):
        other = found("other")
        module = other.load()
        module.tileops_targets = hookimpl(wrapper=True, tryfirst=True)(wrapper)
        wrapped = Found("other", "m", "other", lambda module=module: module)
        for order in ([acme, wrapped], [wrapped, acme]):
            registry = loaded(Registry(lambda order=order: order))
            assert registry.target_names()[0] == "acme"
            assert registry.targets()["acme"].backend == "acme"


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_read_does_not_depend_on_who_was_found_first(found, reverse) -> None:
    """REG-16"""
    points = [
        found(
            name,
            targets=lambda name=name: [TargetRegistration(f"{name}_fast", print)],
            kernel_builders=lambda name=name: [
                BuilderRegistration("SumFwdOp", f"{name}_fast", print)
            ],
            kernel_types=lambda name=name: [
                KernelTypeRegistration("SumFwdOp", key + name, int) for key in ("z", "a")
            ],
        )
        for name in ("b", "a", "c")
    ]
    registry = loaded(Registry(lambda: points[::-1] if reverse else points))
    assert registry.targets_of("SumFwdOp") == ("a_fast", "b_fast", "c_fast")
    keys = [entry.key for entry in registry.kernel_types("SumFwdOp")]
    assert keys == ["aa", "za", "ab", "zb", "ac", "zc"]
    assert registry.backend_names() == ("a", "b", "c")


def test_every_hook_has_a_result_and_a_docstring() -> None:
    hooks = {name for name in dir(hookspecs) if name.startswith("tileops_")}
    assert hooks == set(hookspecs.HOOKS)
    assert len(hooks) == 8
    assert all(getattr(hookspecs, name).__doc__ for name in hooks)


def test_results_may_be_any_iterable(found) -> None:
    for wrap in (list, tuple, set, iter):
        point = found("acme", targets=lambda wrap=wrap: wrap([TargetRegistration("x", print)]))
        assert loaded(Registry(lambda point=point: [point])).target_names() == ("acme", "x")


def test_spec_files_are_kept_as_paths(found, tmp_path) -> None:
    point = found("acme", manifest_paths=lambda: [tmp_path / "b.yaml", "a.yaml"])
    registry = loaded(Registry(lambda: [point]))
    assert registry.manifest_paths() == tuple(sorted([str(tmp_path / "b.yaml"), "a.yaml"]))


# -- when and how often ----------------------------------------------------------------------


def test_loading_happens_once_however_often_it_is_asked_for(site) -> None:
    site.distribution("acme", good("acme") + "\n    print('imported')")
    calls = []
    registry = Registry(lambda: calls.append(1) or site.find())
    for _ in range(3):
        loaded(registry)
    assert len(calls) == 1
    assert registry.generation == 1


def test_threads_that_race_load_once_and_all_see_everything(site) -> None:
    site.distribution("acme", good("acme") + "\n    import time; time.sleep(0.05)")
    site.distribution("bad", "raise RuntimeError")
    calls, seen, start = [], [], threading.Barrier(8)
    registry = Registry(lambda: calls.append(1) or site.find())

    def ask() -> None:
        start.wait()
        registry.ensure_loaded()
        seen.append((registry.target_names(), len(registry.load_failures())))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert calls == [1]
    assert seen == [(("acme",), 1)] * 8
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1


ACTS = {
    "constructs an op": lambda registry: registry.ensure_loaded(),
    "registers": lambda registry: registry.add([TargetRegistration("bad", print)]),
    "unregisters": lambda registry: registry.remove("acme"),
    "asks for failures": lambda registry: registry.load_failures(),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_backend_that_acts_while_it_is_imported_fails_alone(found, act) -> None:
    def load() -> None:
        ACTS[act](registry)

    bad = Found("bad", "bad_plugin", "bad", load)
    acme = found("acme", targets=lambda: [TargetRegistration("acme", print)])
    registry = Registry(lambda: [bad, acme])
    assert loaded(registry).target_names() == ("acme",)
    assert "while it is imported" in str(failure(registry).error)


def test_failures_are_known_to_who_asks_for_them_first(site) -> None:
    """REG-08"""
    site.distribution("bad", "raise RuntimeError('at import')")
    with pytest.warns(RuntimeWarning, match="at import"):
        failures = site.registry().load_failures()
    assert [f.backend for f in failures] == ["bad"]


# -- warnings --------------------------------------------------------------------------------


def test_the_warning_says_who_why_and_what_to_do(site) -> None:
    site.distribution("bad-kernels", "raise RuntimeError('no driver')")
    with pytest.warns(RuntimeWarning) as caught:
        site.registry().ensure_loaded()
    text = str(caught[0].message)
    for part in (
        "'bad_kernels'",
        "bad-kernels 1.0",
        "bad_kernels_plugin",
        "RuntimeError: no driver",
        "TILEOPS_DISABLE_BACKENDS=bad_kernels",
        "tileops doctor",
    ):
        assert part in text


def test_the_warning_points_at_the_users_line(site) -> None:
    site.distribution("bad", "raise RuntimeError")
    with pytest.warns(RuntimeWarning) as caught:
        site.registry().ensure_loaded()
    assert caught[0].filename == __file__


def test_generated_code_is_not_the_users_line(site) -> None:
    site.distribution("bad", "raise RuntimeError")
    namespace: dict[str, object] = {"registry": site.registry()}
    exec(compile("def init(): registry.ensure_loaded()", "<tileops init X>", "exec"), namespace)
    with pytest.warns(RuntimeWarning) as caught:
        namespace["init"]()
    assert caught[0].filename == __file__


def test_warnings_that_are_errors_leave_a_whole_registry(site) -> None:
    for name in ("bad", "acme", "worse"):
        site.distribution(name, good(name) if name == "acme" else "raise RuntimeError")
    registry = site.registry()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="'bad'"):
            registry.ensure_loaded()
        assert registry.target_names() == ("acme",)
        assert [f.backend for f in registry.load_failures()] == ["bad", "worse"]
        registry.ensure_loaded()


def test_failures_can_be_read_where_warnings_are_errors(site) -> None:
    """REG-08"""
    site.distribution("bad", "raise RuntimeError")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(site.registry().load_failures()) == 1


# -- environment -----------------------------------------------------------------------------


def test_strict_raises_instead_of_warning_at_every_use(site, monkeypatch) -> None:
    monkeypatch.setenv("TILEOPS_STRICT_BACKENDS", "1")
    site.distribution("acme", good("acme"))
    site.distribution("bad", "raise RuntimeError('no driver')")
    registry = site.registry()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(BackendError, match=r"'bad'.*no driver") as caught:
                registry.ensure_loaded()
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert caught.value.backend == "bad"
        assert [f.backend for f in registry.load_failures()] == ["bad"]
    assert registry.target_names() == ("acme",)


def test_strict_changes_nothing_where_nobody_fails(site, monkeypatch) -> None:
    monkeypatch.setenv("TILEOPS_STRICT_BACKENDS", "1")
    site.distribution("acme", good("acme"))
    site.registry().ensure_loaded()


@pytest.mark.parametrize("value", ["", "0", "false", " No ", "off"])
def test_strict_can_be_off_in_words(site, monkeypatch, value) -> None:
    monkeypatch.setenv("TILEOPS_STRICT_BACKENDS", value)
    site.distribution("bad", "raise RuntimeError")
    with pytest.warns(RuntimeWarning):
        site.registry().ensure_loaded()


@pytest.mark.parametrize(
    ("value", "staying"),
    [
        ("", ("acme", "zeta", "zeta_more")),
        ("acme", ("zeta", "zeta_more")),
        (" acme , zeta,,", ("zeta_more",)),
        ("zeta", ("acme", "zeta_more")),
        ("Zeta_Kernels", ("acme",)),
        ("zeta-kernels", ("acme",)),
        ("*", ()),
        ("acme,*", ()),
        (",", ("acme", "zeta", "zeta_more")),
    ],
)
def test_backends_can_be_skipped(site, monkeypatch, value, staying) -> None:
    site.distribution("acme", good("acme"))
    points = "[tileops.backends]\nzeta = zeta_plugin\nzeta_more = more_plugin\n"
    site.distribution("zeta-kernels", points=points)
    site.module("zeta_plugin", good("zeta"))
    site.module("more_plugin", "")
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", value)
    registry = loaded(site.registry())
    assert registry.backend_names() == staying
    assert set(registry.disabled()) == {"acme", "zeta", "zeta_more"} - set(staying)


def one_name(site, first: str = "acme-one", second: str = "acme-two") -> None:
    """Two distributions that call their backends the same."""
    for name in (first, second):
        module = f"{name.replace('-', '_')}_plugin"
        site.distribution(name, "", points=f"[tileops.backends]\nacme = {module}\n")


def test_of_two_backends_of_one_name_the_hint_skips_the_one_that_failed(site) -> None:
    one_name(site)
    failed = failure(site.registry())
    assert (failed.distribution, failed.skip) == ("acme-two", "acme-two")
    assert describe(failed).endswith("TILEOPS_DISABLE_BACKENDS=acme-two")


def test_the_hint_for_two_backends_of_one_name_helps(site, monkeypatch) -> None:
    one_name(site)
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", failure(site.registry()).skip)
    again = site.registry()
    assert loaded(again).load_failures() == ()
    assert again.backend_names() == ("acme",)


def test_without_a_name_that_skips_one_backend_only_there_is_no_hint_to_skip(site) -> None:
    one_name(site, "a", "acme")
    failed = failure(site.registry())
    assert failed.skip is None
    assert "TILEOPS_DISABLE_BACKENDS" not in describe(failed)


def test_a_skipped_backend_is_not_imported(site, monkeypatch) -> None:
    site.distribution("bad", "raise RuntimeError")
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", "bad")
    assert loaded(site.registry()).load_failures() == ()
    assert "bad_plugin" not in sys.modules


@pytest.mark.parametrize("value", ["*", "core", "tileops-core"])
def test_the_core_cannot_be_skipped(found, monkeypatch, value) -> None:
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", value)
    registry = loaded(Registry(lambda: [found("core", "tileops-core")]))
    assert registry.backend_names() == ("core",)


def test_skipping_what_is_not_there_is_told_with_a_guess(site, monkeypatch, caplog) -> None:
    """REG-19"""
    site.distribution("acme", good("acme"))
    monkeypatch.setenv("TILEOPS_DISABLE_BACKENDS", "acne")
    loaded(site.registry())
    assert "'acne', which is not installed (did you mean 'acme'?)" in caplog.text


# -- the oracle of a stranger ----------------------------------------------------------------


def test_loading_imports_no_kernel_code(found) -> None:
    point = found(
        "acme",
        kernel_types=lambda: [KernelTypeRegistration("SumFwdOp", "fast", "acme_kernels:Fast")],
        oracles=lambda: [OracleRegistration("SumFwdOp", "acme_kernels:sum")],
        diagnostics=lambda: [DiagnosticRegistration("driver", "acme_kernels:driver")],
    )
    registry = loaded(Registry(lambda: [point]))
    assert registry.load_failures() == ()
    assert "acme_kernels" not in sys.modules
