"""The custom operators that stand for ops in graphs, as torch knows them.

Importing this module defines all of the library's, so that an exported program loads and runs in a
process that has imported nothing else of the library. What an operator does comes with its op's
class, which is imported when the operator is first used.

Each operator has a twin, ``<name>_raw``, that lies below autograd. Torch's graph tools record the
operator; compilers see its Autograd kernel through and call the twin, which saves them a Python
function per call.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from tileops_core.call.torch_private import (
    add_vmap_rule,
    add_write_kernel,
    count_write,
    forget_operators,
    is_view_in_graph,
    ordinary_state,
)

if TYPE_CHECKING:
    from tileops_core.plan.model import Plan
    from tileops_core.signature.operators import Operator

LIBRARY = "tileops_core"
"""The namespace of the library's own operators."""

OTHERS = "tileops_external"
"""The namespace of the operators of ops that are defined elsewhere."""

# The kernels take tensors however they lie, and make dense ones.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)


class TorchOperator:
    """One operator and what its kernels do, which its op's class fills in.

    Attributes:
        qualname: namespace and name.
        op: the name of the op that it stands for.
        schema: what it takes and returns, behind its name.
        autograd: the Autograd kernel.
        run: the kernel below autograd, on tensors with data; see :meth:`_runs`.
        shapes: the kernel for tensors without data.
        slices: the rule of ``torch.vmap``.
    """

    __slots__ = (
        "_load",
        "_overload",
        "_raw",
        "autograd",
        "op",
        "qualname",
        "run",
        "schema",
        "shapes",
        "slices",
    )
    run: Any

    def __init__(self, namespace: str, op: str, schema: str) -> None:
        self.qualname = f"{namespace}::{schema.partition('(')[0]}"
        self.op = op
        self.schema = schema
        self._overload: Any = None
        self._raw: Any = None
        self._load: Callable[[], tuple[FunctionType, Callable[..., Any]]] | None = None
        run: Any = FunctionType(_run_loaded.__code__, {"_operator": self})
        self.run = run
        self.autograd: Callable[..., Any] = self._autograd_loaded
        self.shapes: Callable[..., Any] = lambda *args: self._loaded().shapes(*args)
        self.slices: Callable[..., Any] = lambda *args: self._loaded().slices(*args)

    def fill_later(self, load: Callable[[], tuple[FunctionType, Callable[..., Any]]]) -> None:
        """Take :attr:`run` and :attr:`autograd` from ``load`` when one of them is first called."""
        self.run.__code__ = _run_loaded.__code__
        self.autograd = self._autograd_loaded
        self._load = load

    def _autograd_loaded(self, *args: Any) -> Any:
        return self._loaded().autograd(*args)

    def _loaded(self) -> TorchOperator:
        """Itself, after its op's class was defined, and what it does was filled in.

        Raises:
            RuntimeError: nothing known defines such a class.
        """
        if self._load is None and self.qualname.startswith(f"{LIBRARY}::"):
            with ordinary_state():
                getattr(import_module("tileops_core.ops"), self.op)
        if self._load is None:
            raise RuntimeError(
                f"{self.op}: the operator {self.qualname} is called, but no class of the op is "
                "defined; import the module that defines it first"
            )
        run, self.autograd = self._load()
        self._runs(run)
        return self

    def _runs(self, function: FunctionType) -> None:
        """Make :attr:`run` do what a function without a closure does.

        Torch keeps the function that it was given first, and there is no call between it and the
        kernel that is cheap enough.
        """
        self.run.__globals__.update(function.__globals__)
        self.run.__code__ = function.__code__

    @property
    def overload(self) -> Any:
        """What torch calls the operator by."""
        if self._overload is None:
            self._overload = _overload(self.qualname)
        return self._overload

    @property
    def raw(self) -> Any:
        """What torch calls the twin by."""
        if self._raw is None:
            self._raw = _overload(f"{self.qualname}_raw")
        return self._raw


def _run_loaded(*args: Any) -> Any:
    """The kernel of an operator whose op's class is not defined yet."""
    return _operator._loaded().run(*args)  # type: ignore[name-defined]  # noqa: F821


class Bound:
    """An operator of an op: the op's plan, the branch, and what torch knows of it.

    ``fresh`` are the positions of the outputs that it returns: those that are neither the caller's
    nor left out.
    """

    __slots__ = ("branch", "fresh", "plan", "torch")

    def __init__(self, plan: Plan, branch: Operator, torch: TorchOperator) -> None:
        self.plan = plan
        self.branch = branch
        self.torch = torch
        self.fresh = tuple(
            i
            for i, output in enumerate(plan.signature.outputs)
            if output.name not in branch.without
            and output.alias not in branch.written
            and not (branch.out and output.buffer)
        )


def _overload(qualname: str) -> Any:
    namespace, name = qualname.split("::")
    return getattr(getattr(torch.ops, namespace), name).default


OPERATORS: dict[str, TorchOperator] = {}
"""Every operator that is defined, by its qualified name."""

_LIBRARIES: dict[tuple[str, str], Any] = {}
# By namespace and op. Torch forgets operators when their library object goes.


def _library(namespace: str) -> Any:
    """Torch's handle of operators in a namespace; many such fragments make one up."""
    return torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]


def define(namespace: str, op: str, schemas: Iterable[str], *, random: bool = False) -> None:
    """Define an op's operators and their twins, in place of any that it has.

    Args:
        namespace: the namespace that they go to.
        op: the op's name.
        schemas: an operator's schema each, without the namespace.
        random: whether equal calls may differ, so that compilers must make each of them.
    """
    former = _LIBRARIES.pop((namespace, op), None)
    if former is not None:
        for qualname in [q for q, o in OPERATORS.items() if o.op == op]:
            del OPERATORS[qualname]
        forget_operators(former)
    library = _LIBRARIES[namespace, op] = _library(namespace)
    tags = (*_TAGS, torch.Tag.nondeterministic_seeded) if random else _TAGS
    for schema in schemas:
        _define(library, namespace, op, schema, tags)


def _define(
    library: Any, namespace: str, op: str, schema: str, tags: tuple[torch.Tag, ...]
) -> None:
    name, paren, rest = schema.partition("(")
    operator = OPERATORS[f"{namespace}::{name}"] = TorchOperator(namespace, op, schema)
    twin = f"{name}_raw"
    library.define(schema, tags=tags)
    library.define(f"{twin}{paren}{rest}", tags=tags)
    library.impl(name, lambda *args: operator.autograd(*args), "Autograd")
    # Autograd has no part in calls of inference mode.
    library.impl(name, lambda *args: operator.raw(*args), "CompositeExplicitAutograd")
    add_vmap_rule(
        library, operator.qualname, lambda *args: operator.slices(*args), lambda: operator.overload
    )
    library.impl(twin, torch.library.fallthrough_kernel, "Autograd")
    written = written_arguments(schema)
    if written:
        add_write_kernel(library, twin, partial(_write, written), lambda: operator.raw)
    library.impl(twin, operator.run, "CompositeExplicitAutograd")
    library.impl(twin, lambda *args: operator.shapes(*args), "Meta")


def written_arguments(schema: str) -> tuple[int, ...]:
    """The positions of the arguments that an operator with this schema writes."""
    arguments = schema.partition("(")[2].rpartition(") ->")[0].split(",")
    return tuple(i for i, text in enumerate(arguments) if "!" in text)


def _write(written: Sequence[int], go_on: Callable[..., Any], *args: Any) -> Any:
    """Run an operator that writes, so that autograd learns of it and a compiler gets it right.

    Autograd notices by a tensor's version that something it has saved was written. With real
    tensors the call counts its own writes, but compilers trace the operator with tensors that
    nobody writes.

    What torch makes of a write into a part of an argument of the graph is sometimes lost, or goes
    to other memory (2.6 to 2.13), so the graph shows a copy of that part that is written and copied
    back. Torch's own ``copy_`` it gets right.
    """
    given, back = list(args), {}
    for i in written:
        tensor = args[i]
        if tensor is not None and is_view_in_graph(tensor):
            if id(tensor) not in back:
                back[id(tensor)] = tensor, torch.ops.tileops_core.copy_of.default(tensor)
            given[i] = back[id(tensor)][1]
    result = go_on(*given)
    # Afterwards, as torch counts: whoever sees the call on its way knows a tensor by its version.
    for i in written:
        if args[i] is not None:
            count_write(args[i])
    for tensor, copy in back.values():
        tensor.copy_(copy)
    return result


def no_backward() -> Any:
    """The operator that stands for a gradient that does not exist; it raises when it is run."""
    return torch.ops.tileops_core.no_backward.default


def _no_backward(op: str, grads: Sequence[torch.Tensor], *facts: Any) -> torch.Tensor:
    from tileops_core.call.grad import refuse

    raise refuse(op)


def _gradient_shape(
    op: str, grads: Sequence[torch.Tensor], size: Any, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="meta")


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _define_packaged() -> None:
    """Define the library's operators, which are generated from the manifest."""
    # Of the library's package, which is being imported; tileops_core.ops another thread may hold.
    data = pkgutil.get_data("tileops_core", "ops/_operators.json")
    assert data is not None
    packaged = json.loads(data)
    for op, schemas in packaged["schemas"].items():
        define(LIBRARY, op, schemas, random=op in packaged["random"])


_define_packaged()

# What the gradient depends on is among the arguments, or compilers would move it into the forward.
_shared = _LIBRARIES[LIBRARY, ""] = _library(LIBRARY)
_shared.define(
    "no_backward(str op, Tensor[] grads, SymInt[] size, ScalarType dtype, Device device) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_shared.impl("no_backward", _no_backward, "CompositeExplicitAutograd")
_shared.impl("no_backward", _gradient_shape, "Meta")
# An operator of its own, because a compiler that knows what `clone` does leaves it out.
_shared.define("copy_of(Tensor x) -> Tensor", tags=_TAGS)
_shared.impl("copy_of", torch.library.fallthrough_kernel, "Autograd")
_shared.impl("copy_of", _copy_of, "CompositeExplicitAutograd")
_shared.impl("copy_of", _copy_of, "Meta")
