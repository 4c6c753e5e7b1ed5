"""The small entry of the validator's examples as a signature, and calls of it."""

from __future__ import annotations

from typing import Any

from tileops_core.signature.build import build_signature
from tileops_core.signature.instance import Instance
from tileops_core.signature.model import Signature
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.validate.examples import OP, entry_text


def signature(**changes: str) -> Signature:
    """The signature, with parts of it replaced."""
    text = entry_text({f"signature.{key}": value for key, value in changes.items()})
    return build_signature(ManifestFile("probe.yaml", text).load(OP))


def call(of: Signature, *some: str, flag: bool = False, **sizes: Any) -> Instance:
    """A call with these optional tensors and sizes; the rest is as in the entry's row."""
    params = {"flag": flag, "stride": 1, "cap": None, "dim": 0, "mode": "a"}
    given = {"M": 2, "N": 3, "S": (4,), "T": "float16", **sizes}
    return Instance(of, "call", tuple(some), params, given)
