from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "sympy", "rich", "click", "numpy", "pluggy")


@pytest.mark.parametrize(
    "module",
    [
        "tileops_core.spec.catalogue",
        "tileops_core.signature.build",
        "tileops_core.signature.workload",
    ],
)
def test_reading_the_manifest_imports_nothing_heavy(module):
    code = (
        f"import {module}, sys\n"
        "from tileops_core.signature.build import build_signature\n"
        "from tileops_core.spec.catalogue import load_spec\n"
        "build_signature(load_spec('GEMMFwdOp'))\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
