from __future__ import annotations

import threading

import pytest

from tileops_core.backend import (
    BuilderRegistration,
    DiagnosticRegistration,
    InterfaceRegistration,
    KernelTypeRegistration,
    OracleRegistration,
    TargetRegistration,
    register_kernel_builder,
    register_kernel_type,
    register_target,
    registered,
    unregister_backend,
)
from tileops_core.backend.registry import REGISTRY
from tileops_core.errors import BackendError, UnknownTargetError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class Kernel: ...


def detect(device: object) -> bool:
    return False


def build(*inputs: object) -> None: ...


def of_runtime() -> list[object]:
    return [entry.registration for entry in REGISTRY.registered_by("runtime")]


@pytest.fixture(autouse=True)
def _leave_nothing():
    yield
    unregister_backend("runtime")


def test_a_target_with_its_builder_is_registered_in_two_calls() -> None:
    register_target("acme_rt", detect)
    register_kernel_builder("SomeFwdOp", "acme_rt", build)
    assert REGISTRY.targets_of("SomeFwdOp") == ("acme_rt",)
    assert REGISTRY.builder("SomeFwdOp", "acme_rt").resolve() is build


def test_a_kernel_type_belongs_to_runtime_unless_a_backend_is_named() -> None:
    register_kernel_type("SomeFwdOp", "fast", Kernel)
    register_kernel_type("SomeFwdOp", "faster", Kernel, backend="acme_rt")
    by_key = {entry.key: entry.backend for entry in REGISTRY.kernel_types("SomeFwdOp")}
    assert by_key == {"fast": "runtime", "faster": "acme_rt"}
    unregister_backend("acme_rt")
    assert [entry.key for entry in REGISTRY.kernel_types("SomeFwdOp")] == ["fast"]


def test_what_a_registration_refuses_the_functions_refuse() -> None:
    with pytest.raises(ValueError, match="TargetRegistration"):
        register_target("acme-rt", detect)
    with pytest.raises(TypeError, match="BuilderRegistration"):
        register_kernel_builder("SomeFwdOp", "acme_rt", None)
    with pytest.raises(TypeError, match="KernelTypeRegistration"):
        register_kernel_type("SomeFwdOp", "fast", build)


def test_a_typo_in_the_target_of_a_builder_is_told() -> None:
    """REG-14"""
    register_target("acme_rt", detect)
    with pytest.raises(BackendError, match="did you mean 'acme_rt'"):
        register_kernel_builder("SomeFwdOp", "acme_tr", build)


def test_a_block_takes_back_what_it_added() -> None:
    before = REGISTRY.target_names()
    with registered(
        BuilderRegistration("SomeFwdOp", "acme_rt", build),
        TargetRegistration("acme_rt", detect),
        InterfaceRegistration("SomeFwdOp", "some", Kernel),
        KernelTypeRegistration("SomeFwdOp", "fast", Kernel),
        OracleRegistration("SomeFwdOp", build),
        DiagnosticRegistration("some driver", build),
    ):
        assert DiagnosticRegistration("some driver", build) in of_runtime()
        assert REGISTRY.targets_of("SomeFwdOp") == ("acme_rt",)
        assert list(REGISTRY.interfaces("SomeFwdOp")) == ["some"]
        assert REGISTRY.oracle("SomeFwdOp") is build
    assert REGISTRY.target_names() == before
    assert REGISTRY.targets_of("SomeFwdOp") == ()
    assert dict(REGISTRY.interfaces("SomeFwdOp")) == {}
    assert REGISTRY.kernel_types("SomeFwdOp") == ()
    assert REGISTRY.oracle("SomeFwdOp") is None
    assert of_runtime() == []


def test_a_block_takes_back_after_an_exception_too() -> None:
    with pytest.raises(ZeroDivisionError), registered(TargetRegistration("acme_rt", detect)):
        1 / 0  # noqa: B018
    assert "acme_rt" not in REGISTRY.target_names()


def test_a_block_leaves_what_was_there() -> None:
    register_target("acme_rt", detect)
    with registered(TargetRegistration("acme_rt", detect), TargetRegistration("more", detect)):
        pass
    assert "acme_rt" in REGISTRY.target_names()
    assert "more" not in REGISTRY.target_names()


def test_a_block_leaves_what_others_registered_inside_it() -> None:
    with registered(TargetRegistration("acme_rt", detect)):
        register_kernel_type("SomeFwdOp", "fast", Kernel)
    assert [entry.key for entry in REGISTRY.kernel_types("SomeFwdOp")] == ["fast"]


def test_blocks_nest_with_the_same_registration() -> None:
    again = TargetRegistration("acme_rt", detect)
    with registered(again):
        with registered(again):
            pass
        assert "acme_rt" in REGISTRY.target_names()
    assert "acme_rt" not in REGISTRY.target_names()


def test_a_block_that_conflicts_registers_nothing() -> None:
    register_target("acme_rt", detect)
    with (
        pytest.raises(BackendError, match="already registered"),
        registered(TargetRegistration("more", detect), TargetRegistration("acme_rt", build)),
    ):
        raise AssertionError
    assert "more" not in REGISTRY.target_names()


def test_a_block_can_stand_for_a_whole_backend() -> None:
    with registered(KernelTypeRegistration("SomeFwdOp", "fast", Kernel), backend="acme_rt"):
        assert "acme_rt" in REGISTRY.target_names()
    assert "acme_rt" not in REGISTRY.target_names()


def test_a_block_takes_registrations_only() -> None:
    with (
        pytest.raises(TypeError, match="is no registration"),
        registered([TargetRegistration("a", detect)]),
    ):
        raise AssertionError


def test_an_unknown_backend_cannot_be_unregistered() -> None:
    with pytest.raises(UnknownTargetError, match="no backend is called 'nobody_rt'"):
        unregister_backend("nobody_rt")


def test_nothing_registered_at_run_time_may_be_unregistered() -> None:
    unregister_backend("runtime")
    unregister_backend("runtime")


def test_threads_that_register_at_once_all_get_in() -> None:
    start = threading.Barrier(8)

    def register(number: int) -> None:
        start.wait()
        for step in range(10):
            register_kernel_type("SomeFwdOp", f"k{number}_{step}", Kernel)

    threads = [threading.Thread(target=register, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(REGISTRY.kernel_types("SomeFwdOp")) == 80


def test_the_functions_and_the_ops_see_one_registry() -> None:
    """REG-18"""
    from tileops_core.backend import order, registry, runtime, targets

    assert runtime.REGISTRY is targets.REGISTRY is order.REGISTRY is registry.REGISTRY
