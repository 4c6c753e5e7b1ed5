"""The operators that torch knows: all defined by one light import, and what each then does."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files

import pytest
import torch
from call_support import small

from tileops_core.call import torch_operators
from tileops_core.call.torch_operators import LIBRARY, OPERATORS, TorchOperator, define
from tileops_core.ops import RMSNormFwdOp

PACKAGED = json.loads((files("tileops_core.ops") / "_operators.json").read_text("utf-8"))
SCHEMAS = [s for schemas in PACKAGED["schemas"].values() for s in schemas]


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_the_packaged_namespace_is_ours():
    assert PACKAGED["namespace"] == LIBRARY


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.partition("(")[0])
def test_an_operator_and_its_twin_have_the_packaged_schema(schema):
    name, _, rest = schema.partition("(")
    operator = OPERATORS[f"{LIBRARY}::{name}"]
    assert operator.schema == schema
    for overload, called in ((operator.overload, name), (operator.raw, f"{name}_raw")):
        assert str(overload._schema) == f"{LIBRARY}::{called}({rest}"
        assert torch.Tag.flexible_layout in overload.tags
        assert torch.Tag.pt2_compliant_tag in overload.tags


@pytest.mark.parametrize("order", ["import torch, tileops_core", "import tileops_core, torch"])
def test_importing_the_library_defines_them_all_and_imports_no_op(order):
    code = f"""
{order}
import sys
names = {[s.partition("(")[0] for s in SCHEMAS]!r}
assert all(hasattr(torch.ops.tileops_core, name) for name in names)
print([m for m in sys.modules if m.startswith("tileops_core.ops.") and "_" not in m[17:]])
"""
    assert run(code) == "[]\n"


def test_looking_whether_torch_is_there_does_not_lose_them():
    code = """
import tileops_core, importlib.util, sys
assert importlib.util.find_spec("torch") is not None
assert "torch" not in sys.modules
import torch
print(torch.ops.tileops_core.rms_norm_fwd.default._schema.name)
print([type(f).__module__ for f in sys.meta_path if "arrival" in type(f).__module__])
print(type(torch.__spec__.loader).__name__, torch.__loader__ is torch.__spec__.loader)
"""
    assert run(code) == "tileops_core::rms_norm_fwd\n[]\nSourceFileLoader True\n"


def test_without_torch_the_library_is_imported_all_the_same():
    code = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("no torch here", name="torch")
sys.meta_path.insert(0, Nothing())
import tileops_core.spec
try:
    import torch
except ModuleNotFoundError as error:
    print(error)
"""
    assert run(code) == "no torch here\n"


slow = pytest.mark.slow


@pytest.mark.parametrize("way", ["", pytest.param("_raw", marks=slow)])
@pytest.mark.parametrize("mode", ["no_grad", pytest.param("inference_mode", marks=slow)])
def test_an_operator_imports_its_op_when_it_is_first_called(way, mode):
    code = f"""
import tileops_core, torch, sys
key = {RMSNormFwdOp((4,))._key!r}
with torch.{mode}():
    y = torch.ops.tileops_core.rms_norm_fwd{way}(key, torch.ones(3, 4), None)
print(y.shape, "tileops_core.ops.norm" in sys.modules, "tileops_core.ops.gemm" in sys.modules)
"""
    assert run(code) == "torch.Size([3, 4]) True False\n"


def test_what_an_operator_does_is_compiled_when_it_is_first_called():
    code = """
import linecache, torch
from tileops_core.ops import RMSNormFwdOp
op = RMSNormFwdOp((4,))
op(torch.ones(3, 4))
def texts(word):
    return sorted(name for name in linecache.cache if name.startswith(f"<tileops {word} "))
print("<tileops call RMSNormFwdOp>" in texts("call"), texts("operators"))
torch.ops.tileops_core.rms_norm_fwd(op._key, torch.ones(3, 4), None)
print(texts("operators"))
"""
    assert run(code) == "True []\n['<tileops operators RMSNormFwdOp>']\n"


@slow
@pytest.mark.parametrize("how", ["meta", "fake", "vmap", "grad"])
def test_every_kind_of_call_may_be_the_first(how):
    code = f"""
import tileops_core, torch
from torch._subclasses.fake_tensor import FakeTensorMode
key = {RMSNormFwdOp((4,))._key!r}
op = torch.ops.tileops_core.rms_norm_fwd
how = {how!r}
if how == "meta":
    print(op(key, torch.ones(3, 4, device="meta"), None).shape)
elif how == "fake":
    with FakeTensorMode():
        print(op(key, torch.ones(3, 4), None).shape)
elif how == "vmap":
    print(torch.vmap(lambda x: op(key, x, None))(torch.ones(2, 3, 4))[0].shape)
else:
    y = op(key, torch.ones(3, 4, requires_grad=True), None)
    try:
        y.sum().backward()
    except NotImplementedError:
        print(y.shape)
"""
    assert run(code) == "torch.Size([3, 4])\n"


def test_an_operator_whose_class_nobody_defines_says_so():
    define("tileops_test", "OrphanFwdOp", ["orphan(str key, Tensor x) -> Tensor"])
    try:
        with pytest.raises(RuntimeError, match=r"OrphanFwdOp: .*import the module that defines it"):
            torch.ops.tileops_test.orphan("[]", small())
    finally:
        define("tileops_test", "OrphanFwdOp", [])


def test_defining_an_op_again_replaces_its_operators():
    """CMP-13: what goes leaves nothing behind."""
    define("tileops_test", "ReplacedFwdOp", ["replaced(str key, Tensor x) -> Tensor"])
    define("tileops_test", "ReplacedFwdOp", ["other(str key, Tensor x) -> (Tensor, Tensor)"])
    assert "tileops_test::replaced" not in OPERATORS
    assert not hasattr(torch.ops.tileops_test, "replaced")
    assert isinstance(OPERATORS["tileops_test::other"], TorchOperator)
    define("tileops_test", "ReplacedFwdOp", [])
    assert "tileops_test::other" not in OPERATORS


def test_the_gradient_that_does_not_exist_is_an_operator():
    with pytest.raises(NotImplementedError, match="GELUFwdOp has no gradient"):
        torch_operators.no_backward()("GELUFwdOp", [small()], [2], torch.float32, "cpu")
    shape = torch_operators.no_backward()(
        "GELUFwdOp", [small().to("meta")], [2], torch.float16, torch.device("meta")
    )
    assert (shape.shape, shape.dtype) == ((2,), torch.float16)
