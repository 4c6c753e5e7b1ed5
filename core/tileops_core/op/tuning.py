"""What of an op has been built, and tuning it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tileops_core.call.binding import UNBOUND, Binding
from tileops_core.call.origin import note_origin
from tileops_core.call.tune import ask_entry, ask_target
from tileops_core.errors import OpNotAvailableError
from tileops_core.kernels.contracts import Candidate
from tileops_core.kernels.dispatch import EntryKey
from tileops_core.kernels.enumeration import kernels_in
from tileops_core.kernels.kernel import Kernel
from tileops_core.op.hosts import known_host, tune_host
from tileops_core.suggest import did_you_mean, listed

if TYPE_CHECKING:
    from tileops_core.call.state import Construction, Running
    from tileops_core.op.base import Op
    from tileops_core.plan.model import Plan


class Tunes:
    """The part of ``Op`` that looks at what was built. None of it is on the road of a call."""

    __slots__ = ()

    if TYPE_CHECKING:
        _plan: ClassVar[Plan]
        _binding: Binding
        _key: str
        _construction: Construction
        _running: Running

        def held_delegates(self) -> tuple[Op, ...]:
            """The sub-ops held so far."""

    def iter_kernels(self) -> Iterator[Kernel]:
        """Every kernel that was built for this op and the sub-ops it holds, once each."""
        seen: set[int] = set()
        binding = self._runner()._binding
        entries = [entry for _, entry in binding.built_entries.items()]
        entries += binding.target_kernels.values()
        for sub_op in self.held_delegates():
            entries += sub_op.iter_kernels()
        for kernel in kernels_in(entries):
            if id(kernel) not in seen:
                seen.add(id(kernel))
                yield kernel

    def built_entries(self, interface: str) -> Mapping[Hashable, Any]:
        """What was built for one of the op's kernel interfaces.

        Args:
            interface: its name; of no consequence where a target serves the op.

        Returns:
            In-tree, the entries of that interface by ``(kernel type, identity)``; where a pair
            was built for several device types or architectures, these follow in the key. Where a
            target serves the op, all its kernels, by ``(device, (dtype and shape per input))``.

        Raises:
            OpNotAvailableError: the op has no such interface.
        """
        runner = self._runner()
        binding: Binding = runner._binding
        if binding.builder is not None:
            return binding.target_kernels
        interfaces = runner._construction.installed.interfaces
        if interface not in interfaces:
            raise OpNotAvailableError(
                f"{self._plan.op}: there is no kernel interface {interface!r}"
                f"{did_you_mean(interface, interfaces)}; the op has {listed(interfaces)}",
                op=self._plan.op,
            )
        built = [
            (key, entry)
            for key, entry in binding.built_entries.items()
            if runner._candidate(key).interface == interface
        ]
        places: dict[tuple[Hashable, ...], set[Any]] = {}
        for key, _ in built:
            places.setdefault((key[0], key[3], key[4]), set()).add(key[1:3])
        return {
            (key[0], key[3])
            if len(places[key[0], key[3], key[4]]) == 1
            else (key[0], key[3], *key[1:3]): entry
            for key, entry in built
        }

    def request_tune(self) -> None:
        """Have every kernel choose its configuration by measuring: the only way into tuned mode.

        It reaches the kernels that are built, those a target built included, and all that are
        built from now on, of the sub-ops too, and those of the calls that graphs make. What is
        measured, and when, is a kernel's own affair; those with ``autotune_configs`` measure at
        their next launch. A target's kernel that cannot be asked is warned about, once per
        instance.
        """
        # In this order: whatever is built after the mark is tuned by whoever builds it.
        self._running.tune_requested = True
        for binding in (self._running.candidate, self._binding):
            if binding is not None and binding is not UNBOUND:
                self._ask(binding)
        for sub_op in self.held_delegates():
            sub_op.request_tune()
        if self._construction.anchor is not None:  # it is no host itself
            tune_host(self._key)

    def _runner(self) -> Any:
        """Who ran the calls: of an instance that only graphs have called, the host of its key.

        The two may have been constructed with other kernel types registered.
        """
        host = known_host(self._key) if self._binding is UNBOUND else None
        return self if host is None else host

    def _ask(self, binding: Binding) -> None:
        op: Any = self
        for key, entry in binding.built_entries.items():
            candidate = self._candidate(key)
            try:
                ask_entry(op, candidate, key[3:], entry)
            except BaseException as error:
                note_origin(
                    self._plan.op, binding.credit(candidate, candidate.interface).blamed, error
                )
                raise
        for facts, kernel in binding.target_kernels.items():
            blamed = binding.credit(None).blamed
            try:
                ask_target(op, blamed, facts, kernel)
            except BaseException as error:
                note_origin(self._plan.op, blamed, error)
                raise
        if binding.builder is None:
            # Routes hold what a kernel's forward was; the next call of each kind looks again.
            binding.young, binding.old = {}, {}

    def _candidate(self, key: EntryKey) -> Candidate:
        """The kernel type that a build entry is of."""
        installed = self._construction.installed
        every = (c for name in installed.interfaces for c in installed.candidates(name))
        return next(c for c in every if c.kernel_type is key[0])

    def kernel_config(self) -> Mapping[str, Any]:
        """The configuration in use: the op's own, else the first that a kernel states, else ``{}``.

        A target's kernel counts, if it has a ``config``.
        """
        held = [*self._runner()._binding.target_kernels.values(), *self.iter_kernels()]
        for holder in (self, *held):
            config = getattr(holder, "config", None)
            if isinstance(config, Mapping) and config:
                return config
        return {}
