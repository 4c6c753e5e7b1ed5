"""Whose code an exception came out of."""

from __future__ import annotations

from tileops_core.backend.blame import blame
from tileops_core.call.routes import Blamed
from tileops_core.errors import BackendError, SignatureError


def note_origin(op: str, blamed: Blamed, error: BaseException) -> None:
    """Note on an exception whose code it came out of.

    Not on the library's own about this op: they name whoever is responsible, the caller included.
    """
    if isinstance(error, SignatureError | BackendError) and error.op == op:
        return
    blame(error, op=op, target=blamed.target, backend=blamed.backend, version=blamed.version)
