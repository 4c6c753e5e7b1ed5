"""Run with `python -I` in an environment that holds nothing but the wheels; exits 1 on a fault.

No test of pytest's: the wheels session of noxfile.py runs it away from the source tree.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch

import tileops_core
from tileops_core.ops.norm import RMSNormFwdOp
from tileops_tilelang.cpu import toolchain

ours = ["tileops-manifest", "tileops-core", "tileops-reference", "tileops-tilelang"]
versions = {name: version(name) for name in ours}
assert len(set(versions.values())) == 1, versions
assert tileops_core.__version__ == versions["tileops-core"], tileops_core.__version__
assert Path(tileops_core.__file__).is_relative_to(sys.prefix), tileops_core.__file__
assert tileops_core.load_failures() == (), tileops_core.load_failures()

# Kernels are kept away from the user's own.
os.environ["TILEOPS_CACHE_DIR"] = tempfile.mkdtemp(prefix="tileops-smoke-")
missing = toolchain.missing()
print(f"TileLang kernels for the CPU: {missing or 'can be built'}")

x, weight = torch.randn(4, 64), torch.randn(64)
for target in (None, "reference", *(["tilelang"] if missing is None else [])):
    op = RMSNormFwdOp(normalized_shape=(64,), target=target)
    expected = torch.nn.functional.rms_norm(x, (64,), weight, None)
    torch.testing.assert_close(op(x, weight), expected)
    print(f"RMSNormFwdOp, target={target}: served by {op.last_call.served_by}")
shutil.rmtree(os.environ["TILEOPS_CACHE_DIR"], ignore_errors=True)
