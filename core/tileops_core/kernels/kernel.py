"""What a kernel is, and what a place that calls one promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from tileops_core.kernels.call_spec import CallSpec


class KernelInterface(ABC):
    """The call contract of one place where an op calls a kernel.

    A subclass names its call spec type as ``request`` and declares an abstract ``forward`` that
    takes the signature's inputs in order (None for an absent one, keyword-only ones by name),
    then ``out`` if the entry declares it. The docstring of ``forward`` is the contract: shape,
    dtype, layout, device and writing of every tensor, and what is returned.
    """

    request: ClassVar[type[CallSpec]]

    @abstractmethod
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Compute the call; the subclass's docstring is the contract."""


class Kernel:
    """Base of implementations; a kernel type inherits it and one kernel interface.

    Only what is compiled into the program belongs in the constructor; everything else is passed
    at the call. What a kernel type is for is declared in class attributes:

    - ``devices``: device types it runs on; None means any.
    - ``supported_archs``: architecture numbers of its one device type; None means all.
    - ``general``: it serves what no other kernel type serves, and ranks below all others.
    - ``preferred_over``: keys of kernel types of the same interface that it wins against; keys
      that are not installed are ignored.
    - ``autotune_configs``: configurations to choose from by measuring, or None. What ``entry_for``
      builds has the first one, and ``with_config`` says how to build another.
    """

    devices: ClassVar[frozenset[str] | None] = frozenset({"cuda"})
    supported_archs: ClassVar[frozenset[int] | None] = None
    general: ClassVar[bool] = False
    preferred_over: ClassVar[frozenset[str]] = frozenset()
    autotune_configs: ClassVar[Sequence[Mapping[str, Any]] | None] = None

    config: Mapping[str, Any] = MappingProxyType({})
    """The configuration in use, for tunable kernels."""

    forward: Callable[..., Any]

    @classmethod
    def refusal(cls, call: Any) -> str | None:
        """Why this kernel type cannot serve a call, or None where it can."""
        return None

    @classmethod
    def defers(cls, call: Any) -> str | None:
        """Why the general implementation is faster for a call, or None where it is not.

        A kernel type that defers ranks below the general one, and still serves the call when its
        backend is named.
        """
        return None

    @classmethod
    def entry_for(cls, call: Any) -> tuple[Hashable, Callable[[], object]]:
        """What to build for a call.

        Args:
            call: The interface's ``request``, already accepted by ``refusal``.

        Returns:
            ``(identity, factory)``: the identity holds what is compiled in and nothing else, so
            shapes only where the program fixes them; the factory builds it. Here: one program
            for every call, made without arguments.
        """
        return (), cls

    def with_config(self, config: Mapping[str, Any]) -> Kernel:
        """A kernel that computes the same, built with another configuration.

        A kernel type with ``autotune_configs`` writes it.

        Args:
            config: One of ``autotune_configs``; the new kernel's ``config``.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no configurations")

    def request_tune(self) -> None:
        """Choose the configuration by measuring, at the next launch with real tensors.

        One of ``autotune_configs``, whose results are compared with the first one's before it may
        win. A kernel type that knows a better way overrides this; with nothing to choose there is
        nothing to do.
        """
        # Here: whoever defines kernels needs nothing of it.
        from tileops_core.kernels.tuning import request

        request(self)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call ``forward``."""
        return self.forward(*inputs, **named)
