"""The package of ops: lazy, complete, and known to type checkers."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tileops_core import ops
from tileops_core.backend.registry import REGISTRY
from tileops_core.ops import _generate, _index
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import family_of, known_ops, load_spec, status_of

IMPLEMENTED = sorted(op for op in known_ops() if status_of(op) == "implemented")
FOLDER = Path(ops.__file__).parent


def test_the_package_exports_the_implemented_ops_and_their_families():
    families = {family_of(op) for op in IMPLEMENTED}
    assert sorted(ops.__all__) == sorted({*IMPLEMENTED, *families})
    assert set(ops.__all__) <= set(dir(ops))


@pytest.mark.parametrize("op", IMPLEMENTED)
def test_an_op_is_found_in_its_family_and_in_the_package(op):
    module = importlib.import_module(f"tileops_core.ops.{family_of(op)}")
    assert op in module.__all__
    assert getattr(module, op) is getattr(ops, op)


@pytest.mark.parametrize("family", sorted({family_of(op) for op in IMPLEMENTED}))
def test_a_family_module_exports_its_ops_alone(family):
    module = importlib.import_module(f"tileops_core.ops.{family}")
    assert sorted(module.__all__) == [op for op in IMPLEMENTED if family_of(op) == family]


def test_an_unknown_name_gets_a_guess():
    with pytest.raises(AttributeError, match=r"did you mean 'RMSNormFwdOp'\?"):
        ops.RmsNormFwdOp  # noqa: B018


@functools.cache
def loaded_by(code: str) -> set[str]:
    """The modules of ours and of others that some code imports in a new process."""
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(out.stdout))


def test_importing_the_package_imports_no_family_and_no_torch():
    modules = loaded_by("import tileops_core.ops as ops; dir(ops)")
    assert "torch" not in modules
    assert "yaml" not in modules
    assert not {f"tileops_core.ops.{family}" for family in _index.FAMILIES} & modules


def test_an_op_imports_its_own_family_alone():
    modules = loaded_by("from tileops_core.ops import ReLUFwdOp")
    found = {f"tileops_core.ops.{family}" for family in _index.FAMILIES} & modules
    assert found == {"tileops_core.ops.elementwise"}


def test_importing_an_op_loads_no_backend():
    modules = loaded_by("from tileops_core.ops import ReLUFwdOp")
    assert not any(module.startswith("tileops_reference") for module in modules)


@pytest.mark.parametrize("name", sorted(_generate.generated()))
def test_generated_files_are_fresh(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text == _generate.generated()[name], "run python -m tileops_core.ops._generate"


def test_no_stub_is_left_over():
    assert {path.name for path in FOLDER.glob("*.pyi")} <= set(_generate.generated())


@pytest.mark.parametrize("op", IMPLEMENTED)
def test_an_op_has_one_interface_whose_forward_takes_the_op_s_inputs(op):
    """None, if it is made of other ops. Tensors given at construction come behind, by name."""
    REGISTRY.ensure_loaded()
    signature = build_signature(load_spec(op))
    taken = [tensor.name for tensor in signature.inputs]
    taken += [tensor.name for tensor in signature.construction_tensors]
    taken += ["out"] if signature.out_buffer is not None else []
    found = [registered.resolve() for registered in REGISTRY.interfaces(op).values()]
    forms = [list(inspect.signature(interface.forward).parameters)[1:] for interface in found]
    assert forms == ([taken] if signature.composition is None else [])


@pytest.mark.parametrize("op", IMPLEMENTED)
def test_an_op_class_says_what_it_computes_and_where_that_is_from(op):
    text = inspect.getdoc(getattr(ops, op))
    assert "Follows" in text or "follows" in text


USER = """
import torch
from torch import Tensor

from tileops_core.ops import GELUFwdOp, RMSNormFwdOp, SumFwdOp
from tileops_core.ops.norm import FusedAddLayerNormFwdOp

x = torch.ones(2, 3)
op = RMSNormFwdOp(normalized_shape=(3,), target="reference")
y: Tensor = op(x, x[0])
eps: float | None = op.eps
z: Tensor = SumFwdOp([0, 1], dtype=torch.float32)(op(x))
pair: tuple[Tensor, Tensor] = FusedAddLayerNormFwdOp()(x, x, x[0], x[0])

RMSNormFwdOp()  # line 14
RMSNormFwdOp((3,), epsilon=1e-5)  # line 15
op(x, x, x)  # line 16
op.eps = 3.0  # line 17
GELUFwdOp(approximate="erf")  # line 18
GELUFwdOp("tanh")  # line 19
"""


@pytest.mark.slow
def test_a_type_checker_knows_constructors_and_calls(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER.lstrip())
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "user.py"]
    # The installed packages are typed; where they run from a source tree mypy is told the way.
    path = ":".join(str(Path(importlib.import_module(p).__file__).parents[1]) for p in PACKAGES)
    out = subprocess.run(
        [*command, "--cache-dir", str(Path(__file__).parents[2] / ".mypy_cache")],
        cwd=tmp_path,
        env={"PATH": "", "MYPYPATH": path},
        capture_output=True,
        text=True,
    )
    lines = [line for line in out.stdout.splitlines() if ": error:" in line]
    assert [int(line.split(":")[1]) for line in lines] == [14, 15, 16, 17, 18, 19], out.stdout


PACKAGES = ("tileops_core", "tileops_manifest")
