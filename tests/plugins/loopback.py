"""``--through-loopback``: run the suite with a whole-op target that claims every device.

``PYTHONPATH=tests/plugins pytest -p loopback --through-loopback`` puts a distribution on the path
(``loopback_site``) with a backend whose target serves every op. It is found, loaded and selected as
a stranger's would be, so what the tests say of ops then holds for a target as it does for kernels
in-tree. Tests that choose who serves by a parameter of theirs are left out: they have their own run
through a target. Tests that speak of what a second target changes are expected to fail.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parent / "loopback_site"

CHANGED = {
    "call/test_bad_backend.py::test_a_target_with_one_op_does_not_switch_off_the_others": (
        "the other ops are not served in-tree here"
    ),
    "call/test_composite_calls.py::test_so_does_one_that_claims_the_device": (
        "the loopback claims the device too"
    ),
    "call/test_composite_calls.py::test_a_composite_with_kernels_is_refused_on_a_claimed_device": (
        "the loopback claims the device too"
    ),
    "call/test_modes.py::test_an_implicit_axis_warns_at_every_new_kind_of_call": (
        "the warning comes from call_spec, which nobody asks for when a target serves"
    ),
    "call/test_threads.py::test_a_forked_child_does_not_wait_for_its_parents_choice": (
        "the loopback claims the device too"
    ),
    "cli/test_doctor.py::test_targets_that_claim_one_device_are_told_with_a_way_to_choose": (
        "the loopback claims the device too"
    ),
    "cli/test_doctor.py::test_targets_that_build_different_ops_are_not_ambiguous": (
        "the loopback builds every op"
    ),
    "cli/test_ops.py::test_the_reference_serves_every_implemented_op_on_the_cpu": (
        "by default the loopback serves"
    ),
    "cli/test_ops.py::test_a_detector_that_claims_the_device_makes_its_target_the_default": (
        "the loopback claims the device too"
    ),
    "cli/test_ops.py::test_a_composite_runs_where_its_stages_do": (
        "the loopback serves the composite whole"
    ),
    "cli/test_ops.py::test_two_detectors_that_claim_one_device_are_ambiguous": (
        "the loopback is a third"
    ),
    "op/test_definition.py::test_the_nearer_of_two_forms_counts": "a target serves, no body runs",
    "op/test_parameters.py::test_not_a_number_in_tree_is_one_kernel": "the target builds kernels",
    "record/test_signature_call.py::test_in_tree_the_kernel_type_of_each_interface_is_named": (
        "the target serves"
    ),
    "ops/test_moe_layer.py::test_a_target_that_serves_whole_layers_does_not_serve_one_that_was_given_"
    "objects": "the loopback claims the device too",
    "ops/test_moe_layer.py::test_given_experts_settle_what_they_compute": (
        "the loopback serves the experts whole, which costs no stages"
    ),
    "ops/test_call_specs.py::test_softmax_without_an_axis_warns_and_takes_torch_s": (
        "the warning comes from call_spec, which nobody asks for when a target serves"
    ),
}
"""Tests that fail because of the target, each with its reason."""

CHOICES = ("in_tree", "loopback")
"""What a test's parameter is called that chooses who serves."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--through-loopback",
        action="store_true",
        help="serve every op by a whole-op target that forwards to the reference",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Install the distribution, before anything loads the backends."""
    if config.getoption("--through-loopback"):
        sys.path.append(str(SITE))
        importlib.import_module("loopback_backend").claims_devices = True


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say in the first lines who serves."""
    if config.getoption("--through-loopback"):
        return "tileops: every op is served by target 'loopback'"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that choose who serves, and mark those that have to fail."""
    if not config.getoption("--through-loopback"):
        return
    left_out = [item for item in items if _chooses(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        name = item.nodeid.partition("[")[0].rpartition("tests/")[2]
        if name in CHANGED:
            item.add_marker(pytest.mark.xfail(reason=CHANGED[name], strict=True))


def _chooses(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return any(type(value) is str and value in CHOICES for value in parameters.values())
