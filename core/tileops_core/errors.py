"""Every error the library raises on purpose::

    TileOpsError
    ├─ SignatureError(ValueError)            a call or a construction that the entry refuses
    │  └─ NotATensorError(TypeError)         something else stands where a tensor belongs
    ├─ ManifestError(ValueError)             an entry that is wrong
    ├─ StaleGraphError(RuntimeError)         a graph calls an op that is no longer, or has changed
    └─ BackendError                          somebody who should compute did not, or wrongly
       ├─ UnknownTargetError(ValueError)     nobody registered that name
       ├─ AmbiguousTargetError               two targets claim one device
       ├─ OpNotAvailableError(NotImplementedError)   nobody serves it there, or no such device
       └─ DispatchError(RuntimeError)        kernels are there, but not one for this call

Each message says what was asked, what was found, who is responsible and what to do next;
the same facts are attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileops_core.spans import Span


class TileOpsError(Exception):
    """Base of all errors below."""


class SignatureError(TileOpsError, ValueError):
    """A call, or a constructor's arguments, that do not fit the op's entry.

    Attributes: ``op``, ``tensor`` (or parameter) name, ``axis`` (int or None), ``expected`` and
    ``actual`` (what the entry says, what came), ``span`` (where the entry says it).
    """

    def __init__(
        self,
        message: str,
        *,
        op: str | None = None,
        tensor: str | None = None,
        axis: int | None = None,
        expected: Any = None,
        actual: Any = None,
        span: Span | None = None,
    ) -> None:
        super().__init__(message)
        self.op = op
        self.tensor = tensor
        self.axis = axis
        self.expected = expected
        self.actual = actual
        self.span = span


class NotATensorError(SignatureError, TypeError):
    """A tensor was due and something else came."""


class ManifestError(TileOpsError, ValueError):
    """One or more problems in manifest text; ``problems`` holds them all."""

    def __init__(self, message: str, *, problems: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class StaleGraphError(TileOpsError, RuntimeError):
    """A compiled or exported graph calls an op that is gone, or whose entry has changed."""

    def __init__(self, message: str, *, op: str | None = None) -> None:
        super().__init__(message)
        self.op = op


class BackendError(TileOpsError):
    """A backend's fault or absence. Attributes: ``backend``, ``op``, ``target`` (names or None)."""

    def __init__(
        self,
        message: str,
        *,
        backend: str | None = None,
        op: str | None = None,
        target: str | None = None,
    ) -> None:
        super().__init__(message)
        self.backend = backend
        self.op = op
        self.target = target


class UnknownTargetError(BackendError, ValueError):
    """A target was named that nobody registered."""


class AmbiguousTargetError(BackendError):
    """Two or more targets claim the call's device, and nothing chooses between them."""


class OpNotAvailableError(BackendError, NotImplementedError):
    """Nobody serves this op on this device or under this target, or the device is not there."""


class DispatchError(BackendError, RuntimeError):
    """Kernels for the op exist, but none, or more than one, claims this call."""
