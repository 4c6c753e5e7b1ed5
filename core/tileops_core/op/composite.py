"""Ops that are made of other ops: which they hold, and how they come to hold them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tileops_core.backend.targets import Builtin
from tileops_core.call.delegates import Delegates
from tileops_core.call.torch_private import compiling
from tileops_core.kernels.typed_keys import settled
from tileops_core.suggest import did_you_mean

if TYPE_CHECKING:
    from tileops_core.call.state import Construction, Running
    from tileops_core.op.base import Op
    from tileops_core.signature.model import Signature


class Holds:
    """The part of ``Op`` that holds sub-ops.

    Class attribute of a composite: ``delegate_types``, the class of the op at each stage of the
    entry's ``composition``, in its order.
    """

    __slots__ = ()

    delegate_types: ClassVar[Mapping[str, type[Op]]] = {}

    if TYPE_CHECKING:
        _construction: Construction
        _running: Running

        @property
        def target(self) -> str | Builtin | None:
            """What ``target=`` was at construction."""

    def delegate_for(
        self, stage: str, identity: Hashable, given: Any = None, /, **params: Any
    ) -> Any:
        """The sub-op of a stage: held from the first time on that it is asked for.

        A composite's calls of other ops are part of its record, so every op that its body calls
        has to be held. In ``__init__``, after ``super().__init__``, for those that the parameters
        settle; in ``forward`` for the others. Ask again at each call, and keep nothing.

        Args:
            stage: a name of ``delegate_types``.
            identity: tells several sub-ops of one stage apart; ``()`` where there is one.
            given: an op that the caller made; it keeps its own target. Without one the sub-op is
                built, and has this op's target.
            **params: the constructor parameters of the op to build; once it is held they are not
                looked at, so what they depend on belongs into ``identity``.

        Raises:
            TypeError: ``given`` is no op of the stage's class, or ``params`` hold a target.
            ValueError: there is no such stage, another op is held there already, or ``given`` is
                held elsewhere.
        """
        held, read = self._held(stage, given), compiling()
        found = held.get(stage, identity, lambda: self._sub_op(stage, given, params), read=read)
        # Dynamo would guard the marks. What it reads is held already, and was asked then.
        if not read and self._running.tune_requested and not found._running.tune_requested:
            found.request_tune()
        if given is not None and found is not given:
            raise ValueError(
                f"{type(self).__name__}: stage {stage!r}, identity {identity!r} holds {found!r} "
                f"already, and cannot hold {given!r}; another op needs another identity"
            )
        return found

    def held_delegates(self) -> tuple[Op, ...]:
        """The sub-ops held so far, in the order of the stages."""
        stages = list(self.delegate_types)
        held = list(self._running.delegates.items())
        return tuple(item[2] for item in sorted(held, key=lambda item: stages.index(item[0])))

    def _held(self, stage: str, given: Any) -> Delegates:
        """Where sub-ops are held, after a look at what is asked for."""
        name = type(self).__name__
        if stage not in self.delegate_types:
            stages = ", ".join(self.delegate_types) or "none"
            raise ValueError(
                f"{name}: there is no stage {stage!r}{did_you_mean(stage, self.delegate_types)}; "
                f"delegate_types has {stages}"
            )
        due = self.delegate_types[stage]
        if given is not None and not isinstance(given, due):
            raise TypeError(
                f"{name}: stage {stage!r} holds a {due.__name__}, got {given!r} of type "
                f"{type(given).__name__}"
            )
        if given is self:
            raise ValueError(f"{name}: an op cannot be a sub-op of itself")
        running: Running | None = getattr(self, "_running", None)
        if running is None:
            raise TypeError(f"{name}.__init__ must call super().__init__ before it holds sub-ops")
        return running.delegates

    def _sub_op(self, stage: str, given: Any, params: Mapping[str, Any]) -> Any:
        """The op that is about to be held."""
        if given is not None:
            return given
        if "target" in params:
            raise TypeError(
                f"{type(self).__name__}: the sub-op of stage {stage!r} has the composite's own "
                "target; construct it and pass it as given, if it is to have another"
            )
        known = {name: settled(value) for name, value in params.items()}
        return self.delegate_types[stage](**known, target=self.target)


def check_delegate_types(cls: type[Op], signature: Signature) -> None:
    """Check that the class of an implemented op holds at each stage what its entry says.

    Raises:
        TypeError: names, order or ops differ.
    """
    stages = signature.composition.stages if signature.composition is not None else ()
    due = [(stage.name, stage.op) for stage in stages]
    has = [(name, getattr(op, "__name__", repr(op))) for name, op in cls.delegate_types.items()]
    if signature.status != "implemented" and not has:
        return  # the class stands for the entry, and only a target can serve it
    if due != has:
        raise TypeError(
            f"{cls.__name__}: delegate_types is {_told(has)}, the entry's composition is "
            f"{_told(due)}  [{signature.span.short}]"
        )


def _told(stages: list[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{name!r}: {op}' for name, op in stages)}}}"
