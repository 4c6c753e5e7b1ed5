"""Experts split over processes give what one process gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

PROGRAM = Path(__file__).parents[1] / "support" / "expert_parallel_program.py"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here"
    ),
]


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_with_their_own_experts_give_what_one_process_gives(ranks, tmp_path):
    """MOE-02: ranks without tokens, and experts without, as well."""
    arguments = [str(ranks), str(tmp_path / "rendezvous")]
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(rank), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(outputs)
