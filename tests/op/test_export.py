"""Exported programs: they hold operators, and run where only the library was imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from call_support import served, small
from graphs import fresh, whole

from tileops_core.ops import GQADenseFwdOp, LayerNormFwdOp, ReLUFwdOp, RMSNormFwdOp, SumFwdOp

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh():
    with fresh():
        yield


class Block(torch.nn.Module):
    """Ops of several kinds: a weight, an effect, a dtype and a target among the parameters."""

    def __init__(self):
        super().__init__()
        self.norm = RMSNormFwdOp((4,), 1e-3)
        self.relu = ReLUFwdOp(inplace=True)
        self.sum = SumFwdOp(dim=-1, dtype="float32", target="reference")
        self.layer_norm = LayerNormFwdOp((4,))
        self.weight = torch.nn.Parameter(torch.randn(4))
        self.constant = torch.randn(4)

    def forward(self, x):
        y = self.relu(self.norm(x, self.weight) - 0.5)
        return self.layer_norm(y, self.constant) * self.sum(y)[:, None]


def called(program):
    return [str(n.target) for n in program.graph.nodes if "tileops" in str(n.target)]


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_holds_operators_and_computes_the_same(strict):
    block = Block()
    program = torch.export.export(block, (small(),), strict=strict)
    assert called(program) == [
        "tileops_core.rms_norm_fwd.default",
        "tileops_core.elementwise_relu_fwd_writes_input.default",
        "tileops_core.layer_norm_fwd.default",
        "tileops_core.reduction_sum_fwd.default",
    ]
    assert torch.equal(program.module()(small()), block(small()))


@pytest.mark.parametrize("strict", [False, True])
def test_a_dimension_may_be_dynamic(strict):
    block = Block()
    shapes = ({0: torch.export.Dim("rows", min=2, max=64)},)
    program = torch.export.export(block, (small(),), strict=strict, dynamic_shapes=shapes)
    for rows in (2, 3, 64):
        assert torch.equal(program.module()(small(rows, 4)), block(small(rows, 4)))


def test_a_program_taken_apart_computes_the_same():
    block = Block()
    program = torch.export.export(block, (small(),)).run_decompositions()
    assert all("_raw" in name for name in called(program) if "auto_functionalized" not in name)
    assert torch.equal(program.module()(small()), block(small()))


@pytest.mark.parametrize("apart", [False, True])
def test_an_exported_program_has_no_silent_gradient(apart):
    program = torch.export.export(Block(), (small(),))
    y = (program.run_decompositions() if apart else program).module()(small())
    with pytest.raises(NotImplementedError, match="FwdOp has no gradient"):
        y.sum().backward()


def test_an_exported_program_can_be_compiled():
    block = Block()
    program = torch.export.export(block, (small(),))
    assert torch.equal(whole(program.module(), "aot_eager")(small()), block(small()))


def test_optional_inputs_and_several_tensors_are_exported():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.op = GQADenseFwdOp()

        def forward(self, q, k, v):
            return self.op(q, k, v)

    q, k, v = (torch.randn(1, 8, heads, 16) for heads in (4, 2, 2))
    attention = Attention()
    program = torch.export.export(attention, (q, k, v))
    assert torch.equal(program.module()(q, k, v), attention(q, k, v))


def test_an_op_of_another_library_is_exported():
    class Holder(torch.nn.Module):
        def __init__(self, op):
            super().__init__()
            self.op = op

        def forward(self, x):
            return self.op(x)

    with served() as op:
        program = torch.export.export(Holder(op), (small(),))
        assert called(program) == ["tileops_external.probe_fwd.default"]
        assert torch.equal(program.module()(small()), small() * 2)


PROGRAM = """
import sys
import tileops_core
import torch
folder, names = sys.argv[1], sys.argv[2:]
x, rows = torch.load(f"{folder}/x.pt"), {}
for name in names:
    program = torch.export.load(f"{folder}/{name}.pt2").module()
    with torch.no_grad():
        rows[name] = program(x)
        rows[f"{name} compiled"] = torch.compile(program, backend="aot_eager")(x)
    try:
        program(x).sum().backward()
    except NotImplementedError as error:
        rows[f"{name} backward"] = str(error)
torch.save(rows, f"{folder}/rows.pt")
"""


def test_a_saved_program_runs_where_only_the_library_was_imported(tmp_path):
    """Peer fault 9"""
    block, x = Block(), small()
    program = torch.export.export(block, (x,))
    torch.export.save(program, tmp_path / "whole.pt2")
    torch.export.save(program.run_decompositions(), tmp_path / "apart.pt2")
    torch.save(x, tmp_path / "x.pt")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), "whole", "apart"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = torch.load(tmp_path / "rows.pt")
    with torch.no_grad():
        due = block(x)
    for name in ("whole", "apart"):
        assert torch.equal(rows[name], due)
        assert torch.equal(rows[f"{name} compiled"], due)
        assert "has no gradient" in rows[f"{name} backward"]


def test_a_program_of_an_entry_that_changed_is_refused(tmp_path):
    program = torch.export.export(Block(), (small(),))
    for node in program.graph.nodes:
        if "rms_norm" in str(node.target):
            key = json.loads(node.args[0])
            key[3] = "0" * 16
            node.args = (json.dumps(key, separators=(",", ":")), *node.args[1:])
    program.graph_module.recompile()
    with pytest.raises(RuntimeError, match="RMSNormFwdOp: this graph was made for an entry"):
        program.module()(small())


@pytest.mark.slow
def test_a_program_compiled_ahead_of_time_runs_where_only_the_library_was_imported(tmp_path):
    """Nothing of Python looks the operators up there."""
    block, x = Block().requires_grad_(False), small()
    program = torch.export.export(block, (x,))
    package = torch._inductor.aoti_compile_and_package(program, package_path=f"{tmp_path}/b.pt2")
    torch.save(x, tmp_path / "x.pt")
    code = f"""
import tileops_core, torch
run = torch._inductor.aoti_load_package({package!r})
torch.save(run(torch.load({f"{tmp_path}/x.pt"!r})), {f"{tmp_path}/y.pt"!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(torch.load(tmp_path / "y.pt"), block(x))
