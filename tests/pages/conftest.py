"""A small manifest, for tests of the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileops_core.pages.manifest import Entry, Manifest, read_manifest

ACME = """\
# Scaling, as Acme does it.

AcmeScaleFwdOp:
  # factor · x, and then AcmeTileFwdOp.
  family: acme
  status: implemented
  ref_api: torch.mul
  signature:
    forall: {N: Dim, T: "DType[float16 | float32]"}
    params: {factor: {type: float, default: 2.0}, inplace: {type: bool, default: false}}
    inputs:
      x: {dtype: T, shape: "[N]", mutated: inplace, contiguous: true}
    outputs:
      y: {dtype: T, shape: "[N]", alias: x}
  workloads:
    - label: opt-1.3b-ffn
      # the usual
      N: 4096
      dtype_cases: [{T: float16}, {T: float32}]
    - label: opt-1.3b-inplace
      factor: 0.5
      inplace: true
      N: 4096
      dtype_cases: [{T: float32}]
  roofline:
    # a product
    flops: N
"""

SHARD = """\
AcmeTileFwdOp:
  # Rows of packed sequences, by AcmeScaleFwdOp and by Layout.
  family: acme
  status: spec-only
  signature:
    forall: {N: Dim, L: Dim, lens: "Seq[Int]"}
    params:
      layout: {type: Layout}
      table: {dtype: float32, shape: "[8]"}
      epilogue: {type: Epilogue | None, default: null}
    inputs:
      x: {dtype: float32, shape: "[L]"}
      offsets:
        dtype: int32
        shape: "[N + 1]"
        values: prefix_sum(lens)
        requires: ["prefix_offsets(L)"]
      host: {dtype: float32, shape: "[]", device: cpu}
      made: {dtype: float32, shape: "[L]", mutated: true, write_only: true}
      left: {dtype: float32, shape: "[L]", optional: true}
      right: {dtype: float32, shape: "[L]", optional: present(left)}
    outputs:
      y: {dtype: float32, shape: "[L]", nullable: not present(left), buffer: out}
  workloads:
    - label: gpt2-packed
      layout: {masked: {max_m: 3}}
      N: 3
      L: 9
      lens: [2, 3, 4]
      some: [left]
    - label: gpt2-single
      layout: {masked: {max_m: 9}}
      N: 1
      L: 9
      lens: [9]
  roofline:
    flops: 0
    bytes: bytes(x) + bytes(made)
"""

OTHER = """\
OtherFwdOp:
  family: other
  status: spec-only
  signature:
    forall: {N: Dim}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
  workloads: [{label: gpt2-all, N: 4}]
"""

TYPES = """\
Layout:
  # How rows lie.
  masked:
    # Some of max_m each.
    python: tileops_core.interfaces.moe.MaskedLayout
    fields: {max_m: int}
    invariant: [max_m > 0]
Epilogue:
  python: tileops_core.interfaces.moe.RoutingEpilogueSpec
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec")
    texts = {"acme": ACME, "acme_shard": SHARD, "other": OTHER, "types": TYPES}
    for name, text in texts.items():
        (path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def manifest(folder: Path) -> Manifest:
    return read_manifest(folder)


@pytest.fixture
def entries(manifest: Manifest) -> dict[str, Entry]:
    return {entry.op: entry for family in manifest.families for entry in family.entries}
