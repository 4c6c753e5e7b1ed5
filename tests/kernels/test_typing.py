from __future__ import annotations

import gc
import textwrap
from pathlib import Path

import pytest

mypy_api = pytest.importorskip("mypy.api")

ROOT = Path(__file__).parents[2]
PRELUDE = """
import torch
from tileops_core.kernels import CallSpec

class RowsCall(CallSpec):
    dtype: torch.dtype
    rows: int
    scale: float | None = None

class WiderCall(RowsCall):
    causal: bool = False

cpu = torch.device("cpu")
"""
GOOD = """
RowsCall(cpu, torch.half, 3)
RowsCall(cpu, torch.half, rows=3, scale=0.5)
WiderCall(cpu, torch.half, 3, None, True).rows + 1
RowsCall(cpu, torch.half, 3).stating(arch=90).scale
"""
BAD = {
    'RowsCall(cpu, torch.half, "3")': 'incompatible type "str"; expected "int"',
    "RowsCall(cpu, torch.half)": 'Missing positional argument "rows"',
    "RowsCall(cpu, torch.half, 3, lines=4)": 'Unexpected keyword argument "lines"',
    "RowsCall(cpu, torch.half, 3).rows = 4": 'Property "rows" defined in "RowsCall" is read-only',
    "RowsCall(cpu, torch.half, 3).lines": '"RowsCall" has no attribute "lines"',
}


@pytest.mark.slow
def test_type_checkers_check_the_constructor_of_a_user_s_call_spec(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    module = tmp_path / "user.py"
    module.write_text(textwrap.dedent(PRELUDE + GOOD) + "\n".join(BAD))
    usual = gc.get_threshold()
    try:
        output, _, _ = mypy_api.run(["--follow-imports=silent", "--no-pretty", str(module)])
    finally:
        gc.set_threshold(*usual)  # it has the collector look rarely, for good
    told = [line for line in output.splitlines() if "user.py" in line]
    assert len(told) == len(BAD)
    for line, text in zip(told, BAD.values(), strict=True):
        assert text in line
