"""A stranger's op: ``examples/acme_ops``, installed by pip and used in processes that find it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "examples" / "acme_ops"
OP = "SoftcapFwdOp"

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """Runs Python, in a folder of its own, where the distribution is installed."""
    folder = tmp_path_factory.mktemp("acme")
    site = folder / "site"
    offline = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-index")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", site, ROOT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
    )
    path = os.pathsep.join([str(site), *filter(None, sys.path)])

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done

    return run


def code(text: str) -> tuple[str, str]:
    return "-c", textwrap.dedent(text)


def test_the_op_is_constructed_called_and_recorded(python: Python) -> None:
    told = python(
        *code(
            """
            import torch
            from acme_ops import SoftcapFwdOp

            op, x = SoftcapFwdOp(cap=2.0), torch.tensor([-100.0, 0.0, 1.0, torch.nan])
            torch.testing.assert_close(op(x), 2 * torch.tanh(x / 2), equal_nan=True)
            print(op.last_call.served_by, op.serving_target, op.eval_roofline())
            print(SoftcapFwdOp(cap=2.0, target="acme_ops")(x).shape)
            """
        )
    ).stdout
    assert told == "BUILTIN (acme_ops:acme_ops) BUILTIN (12, 32)\ntorch.Size([4])\n"


def test_a_call_that_does_not_fit_is_refused_as_for_the_librarys_ops(python: Python) -> None:
    told = python(
        *code(
            """
            import torch
            from acme_ops import SoftcapFwdOp

            for wrong in (lambda: SoftcapFwdOp(cap=2.0)(torch.ones(3, dtype=torch.int64)),
                          lambda: SoftcapFwdOp(cap=-1.0)(torch.ones(3))):
                try:
                    wrong()
                except ValueError as error:
                    print(error)
            """
        )
    ).stdout
    dtype, rule = told.splitlines()
    assert dtype.startswith(f"{OP}: x has dtype int64, the signature says ")
    assert rule.startswith(f"{OP}: ")
    assert "cap > 0" in rule
    assert "softcap.yaml:" in rule


def test_in_compiled_code_it_is_one_node(python: Python) -> None:
    told = python(
        *code(
            """
            import torch
            from acme_ops import SoftcapFwdOp

            op, x = SoftcapFwdOp(cap=2.0), torch.randn(4, 8)
            graphs = []
            def backend(graph, inputs):
                graphs.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
                return graph.forward
            compiled = torch.compile(lambda x: op(x) + 1, backend=backend, fullgraph=True)
            assert torch.equal(compiled(x), op(x) + 1)
            (nodes,) = graphs
            print(len(nodes), nodes[0])
            """
        )
    ).stdout
    count, node = told.split()
    assert (count, node) == ("2", "tileops_external.softcap_fwd.default")


def test_the_validator_checks_its_entry_and_its_class(python: Python) -> None:
    both = [
        json.loads(python("-m", "tileops_core", "validate", "--json", *more).stdout)
        for more in ((), ("--no-code",))
    ]
    assert [found["findings"] for found in both] == [[], []]
    assert [note for found in both for note in found["notes"] if OP in note or "acme" in note] == []


def test_its_contract_is_shown_and_so_is_the_code_made_from_it(python: Python) -> None:
    facts = json.loads(python("-m", "tileops_core", "show", OP, "--json").stdout)
    assert facts["summary"].startswith("``cap * tanh(x / cap)``")
    assert facts["entry"].startswith("softcap.yaml:")
    assert facts["default"]["cpu"] == "in-tree: acme_ops"
    assert facts["targets"]["acme_ops"] == ["cpu"]
    assert "if not (cap > 0):" in python("-m", "tileops_core", "show", OP, "--plan").stdout


def test_it_stands_in_the_support_matrix(python: Python) -> None:
    rows = json.loads(python("-m", "tileops_core", "ops", "--json").stdout)
    (row,) = (row for row in rows if row["op"] == OP)
    assert (row["family"], row["status"]) == ("softcap", "implemented")
    assert row["targets"]["acme_ops"] == ["cpu"]
    assert row["targets"]["reference"] is None


def test_a_call_of_it_is_explained(python: Python) -> None:
    call = ("--shape", "x=float16[3,4]", "--param", "cap=2.0")
    told = json.loads(python("-m", "tileops_core", "explain", OP, *call, "--json").stdout)
    assert told["kernels"][0]["chosen"] == "acme_ops"


def test_its_cost_is_told_for_each_case(python: Python) -> None:
    case = ("--case", "gemma-2-9b-scores-float16", "--profile", "h100-sxm")
    cost = json.loads(python("-m", "tileops_core", "show", OP, *case, "--json").stdout)
    assert cost["flops"] == 3 * 16 * 1024 * 1024


@pytest.mark.slow
def test_it_passes_the_conformance_suite(python: Python) -> None:
    report = json.loads(python("-m", "tileops_core", "check-backend", "acme_ops", "--json").stdout)
    assert report["passed"]
    columns = {r["column"] for r in report["results"] if r["op"] == OP and r["outcome"] == "passed"}
    assert columns >= {"workload", "dtype", "layout", "special", "threads", "compile", "leak"}


def test_what_its_readme_shows_works(python: Python) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert python("-c", block).stdout == ""
