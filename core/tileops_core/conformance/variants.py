"""The calls that an entry alone says to try: its rows, and every boundary of what it accepts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileops_core.conformance.quantities import Quantity, axes_params, quantities, resized
from tileops_core.signature.branches import Given, Key, TooManyBranches
from tileops_core.signature.calls import Calls
from tileops_core.signature.instance import Instance
from tileops_core.signature.kinds import (
    AxesKind,
    DTypeKind,
    IntKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    ScalarKind,
    ShapeKind,
    WordOrKind,
)
from tileops_core.signature.model import REQUIRED, Param, Signature
from tileops_core.signature.scaling import changed, elements, scaled
from tileops_core.signature.types import misfit
from tileops_core.signature.workload import cases
from tileops_core.spec.entries import AdtValue
from tileops_core.spec.expressions import Expr

COLUMNS: Mapping[str, str] = {
    "workload": "the entry's rows, scaled to the device",
    "dtype": "each dtype, and each combination that the entry allows",
    "optional": "optional tensors present and absent",
    "branch": "each value of each discriminant, and those that conditions read together",
    "effect": "each set of written inputs, absent outputs, and the caller's buffer",
    "parameter": "other values of parameters: axes from both ends, numbers",
    "empty": "a length of 0",
    "single": "one element",
    "scalar": "tensors without axes",
    "odd": "odd lengths, and lengths around those of blocks",
    "long": "long sums of positive terms",
    "layout": "tensors whose elements lie elsewhere than in order",
    "expanded": "tensors whose elements share memory",
    "special": "NaN, zeros, and values near the end of the range",
}
"""What the calls of an op are grouped by, and why they are tried."""

LAYOUTS = ("transposed", "strided", "padded", "offset", "negative")
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
_EDGES = (31, 129)
_LONG = 4099
_LONGEST = 1 << 19
"""Elements that a call with one long axis may have."""

_SMALL = 1 << 11
"""Elements of the calls that boundaries are made of."""

_TINY = 1 << 7
"""Elements of the call that one long axis is put into."""

_BRANCHES = 96
"""Of more combinations that conditions read together, so many are taken."""


@attrs.frozen
class Variant:
    """One call to try.

    Attributes:
        column: one of ``COLUMNS``.
        name: what is special about it, unique within the column.
        call: the call, checked.
        values: what the tensors hold; see :func:`tileops_core.conformance.inputs.make`.
        layout: how they lie in memory.
        out: whether the caller brings the output's buffer.
    """

    column: str
    name: str
    call: Instance
    values: str = "ordinary"
    layout: str = "dense"
    out: bool = False

    @property
    def id(self) -> str:
        """The column and the name."""
        return f"{self.column}/{self.name}"


class Variants:
    """All calls of one op.

    Args:
        signature: The op's.
        elements: How many elements the tensors of a row's call may have together.

    Attributes:
        unreached: Branches that the entry allows and no call was found for, in words.
    """

    def __init__(self, signature: Signature, elements: int) -> None:
        self.signature = signature
        self.elements = elements
        self.unreached: list[str] = []
        rows = [case.scaled(_SMALL).instance for case in cases(signature)]
        self.bases = _different(rows)
        self.calls = Calls(signature, self.bases)
        self._seen: dict[Any, str] = {}

    @property
    def base(self) -> Instance:
        """The call that boundaries are made of: the first row's, small."""
        return self.bases[0]

    def all(self) -> list[Variant]:
        """Every call, each once, in the order of the columns."""
        found: dict[str, Variant] = {}
        with_parameters = (self._workloads(), self._branches(), self._parameters())
        # Without a tensor there is no length besides, no memory, and nothing that values could do.
        with_tensors = (
            self._empty(),
            self._single(),
            self._scalar(),
            self._odd(),
            self._long(),
            self._layouts(),
            self._special(),
        )
        tried = with_parameters + (with_tensors if self.signature.inputs else ())
        for variant in itertools.chain.from_iterable(tried):
            found.setdefault(variant.id, variant)
        return list(found.values())

    def representatives(self) -> list[Variant]:
        """A few ordinary calls: one for each set of effects, and one of each dtype."""
        few = [Variant("workload", self.base.case_id, self.base)]
        few += [v for v in self._branches() if v.column in ("effect", "dtype")]
        return few

    # -- rows -----------------------------------------------------------------------------

    def _workloads(self) -> Iterator[Variant]:
        for case in cases(self.signature):
            yield Variant("workload", case.case_id, case.scaled(self.elements).instance)

    # -- discriminants --------------------------------------------------------------------

    def _branches(self) -> Iterator[Variant]:
        effects = set(self._effect_conditions())
        # What writes is looked at first: a call that stands there already is no branch besides.
        groups = [(self._keys(effects), "effect")] if effects else []
        groups += [(frozenset({key}), "") for key in self.calls.branches.values]
        groups += [(self._keys({condition}), "") for condition in self._conditions()]
        # What one parameter means may depend on another, and no condition of the entry says so.
        groups += [(frozenset(pair), "") for pair in itertools.combinations(self._choices(), 2)]
        seen: set[Any] = {_identity(self.base)}
        for keys, column in groups:
            for given in self._accepted(keys) if keys else ():
                call = self._on_branch(given)
                if call is None:
                    told = self._told(given)
                    self.unreached += [told] if told not in self.unreached else []
                elif _identity(call) not in seen or column or _is_presence(given):
                    seen.add(_identity(call))
                    yield Variant(column or self._column(given), self._told(given), call)
        if self.signature.out_buffer is not None:
            yield Variant("effect", "out", self.base, out=True)

    def _choices(self) -> Iterator[str]:
        """The discriminants that are no dtypes."""
        for key in self.calls.branches.values:
            if not isinstance(_inner(self.calls.kinds.get(key)), DTypeKind):
                yield key

    def _keys(self, conditions: Iterable[Expr]) -> frozenset[Key]:
        branches = self.calls.branches
        return frozenset(k for c in conditions for k in branches.keys(c) if isinstance(k, str))

    def _accepted(self, keys: frozenset[Key]) -> Sequence[Given]:
        try:
            accepted = self.calls.branches.accepted(keys)
        except TooManyBranches:
            return ()
        # Evenly spread, and the same ones each time.
        step = max(1, len(accepted) / _BRANCHES)
        return [accepted[int(i * step)] for i in range(min(len(accepted), _BRANCHES))]

    def _effect_conditions(self) -> Iterator[Expr]:
        for item in self.signature.inputs:
            if isinstance(item.mutated, Expr):
                yield item.mutated
        for output in self.signature.outputs:
            if output.nullable is not None:
                yield output.nullable

    def _conditions(self) -> Iterator[Expr]:
        """The conditions that decide which tensors there are, and their shapes."""
        given = (*self.signature.construction_tensors, *self.signature.inputs)
        for tensor in (*given, *self.signature.outputs):
            yield from (case.when for case in tensor.shape if case.when is not None)
        yield from (item.optional for item in given if isinstance(item.optional, Expr))
        yield from (rule.expr for rule in self.calls.branches.restrictions)

    def _on_branch(self, given: Given) -> Instance | None:
        for base in self.calls.bases:
            values = self.calls.on_branch(base, given)
            call = self.calls.settled(values, self.base.label)
            if call is not None:
                return call if elements(call) <= _SMALL else scaled(call, _SMALL)
        return None

    def _column(self, given: Given) -> str:
        names = [key for key in given if isinstance(key, str)]
        if all(_name(key) in self.calls.branches.inputs for key in names):
            return "optional"
        kinds = [_inner(self.calls.kinds.get(key)) for key in names]
        return "dtype" if all(isinstance(kind, DTypeKind) for kind in kinds) else "branch"

    def _told(self, given: Given) -> str:
        words = []
        for key, value in given.items():
            if not isinstance(key, str):
                continue
            name = _name(key)
            if name == key:
                words.append(f"{key}={_word_of(value)}")
            else:
                words.append(f"{'with' if value else 'without'} {name}")
        return ", ".join(words)

    # -- parameters -----------------------------------------------------------------------

    def _parameters(self) -> Iterator[Variant]:
        base = self._of_rank(3)
        for param in self.signature.params:
            for value in _other_values(param, self.base.params.get(param.name)):
                call = changed(base, {param.name: value})
                if call is not None:
                    yield Variant("parameter", f"{param.name}={value}", call)

    def _of_rank(self, rank: int) -> Instance:
        """The base with shapes of several axes, all of them different, where it can be."""
        shapes = [q.name for q in quantities(self.base) if q.axis is not None]
        shapes = [n for n in dict.fromkeys(shapes) if n in self.base.given]
        wide = changed(self.base, dict.fromkeys(shapes, _PRIMES[:rank])) if shapes else None
        return wide or self.base

    # -- lengths --------------------------------------------------------------------------

    def _empty(self) -> Iterator[Variant]:
        for base in (self.base, self._of_rank(3)):
            for quantity in quantities(base):
                call = resized(base, quantity, 0)
                if call is not None:
                    yield Variant("empty", f"{quantity}=0", call)

    def _single(self) -> Iterator[Variant]:
        call = self._greedy(self.base, itertools.repeat(1))
        yield Variant("single", "every length 1", call)
        for quantity in quantities(self.base):
            one = resized(self.base, quantity, 1)
            if one is not None:
                yield Variant("single", f"{quantity}=1", one)

    def _scalar(self) -> Iterator[Variant]:
        shapes = [i.name for i in self.signature.indices if isinstance(i.kind, ShapeKind)]
        shapes = [name for name in shapes if name in self.base.given]
        axes = axes_params(self.signature)
        choices = [{p: self.base.params[p] for p in axes}]
        choices += [dict.fromkeys(axes, value) for value in (None, -1, 0, ())] if axes else []
        for several in ([[name] for name in shapes] + [shapes]) if shapes else []:
            for chosen in choices:
                if all(misfit(v, self.calls.kinds[p]) is None for p, v in chosen.items()):
                    values = {**dict.fromkeys(several, ()), **chosen}
                    call = changed(self.base, values)
                    if call is not None:
                        yield Variant("scalar", _listed(values), call)

    def _odd(self) -> Iterator[Variant]:
        yield Variant("odd", "different primes", self._greedy(self.base, iter(_PRIMES)))
        for quantity in quantities(self.base):
            for size in _EDGES:
                call = resized(self.base, quantity, size)
                if call is not None and elements(call) <= _LONGEST:
                    yield Variant("odd", f"{quantity}={size}", call)

    def _long(self) -> Iterator[Variant]:
        for dtypes, start in self._narrow_and_wide():
            base = scaled(start, _TINY)
            for quantity in quantities(base):
                call = resized(base, quantity, _LONG) or resized(base, quantity, _LONG // 2 * 2)
                if call is not None and elements(call) <= _LONGEST:
                    name = ", ".join([f"{quantity}={_LONG}", *dtypes])
                    yield Variant("long", name, call, values="positive")

    def _narrow_and_wide(self) -> Iterator[tuple[list[str], Instance]]:
        """The base in 16 bits and in 32, where the entry has both; else as it is."""
        found = False
        for dtype in ("float16", "float32"):
            given: dict[Key, Any] = {
                index.name: dtype
                for index in self.signature.indices
                if isinstance(index.kind, DTypeKind) and dtype in (index.kind.members or ())
            }
            call = self._on_branch(given) if given else None
            if call is not None:
                found = True
                yield [dtype], call
        if not found:
            yield [], self.base

    def _greedy(self, call: Instance, sizes: Iterator[int]) -> Instance:
        """As many lengths changed as the entry accepts, one by one."""
        for quantity in quantities(call):
            size = next(sizes, 3)
            smaller = resized(call, quantity, size)
            call = call if smaller is None else smaller
        return call

    # -- memory and values ----------------------------------------------------------------

    def _layouts(self) -> Iterator[Variant]:
        wide = self._of_rank(3)
        bases = {"": wide, **{v.name: v.call for v in self._branches() if v.column == "effect"}}
        for name, call in bases.items():
            for layout in LAYOUTS:
                where = f"{layout}, {name}" if name else layout
                yield Variant("layout", where, call, layout=layout)
        if self.signature.out_buffer is not None and not self.signature.out_buffer.contiguous:
            yield Variant("layout", "strided out", wide, layout="strided", out=True)
        yield Variant("expanded", "first axis", wide, layout="expanded")

    def _special(self) -> Iterator[Variant]:
        yield Variant("special", "zeros", self.base, values="zeros")
        yield Variant("special", "large", self.base, values="large")
        for item in self.signature.inputs:
            if self.base.inputs[item.name] is not None and item.values is None:
                yield Variant(
                    "special", f"NaN in {item.name}", self.base, values=f"nan:{item.name}"
                )


def _different(rows: Sequence[Instance]) -> list[Instance]:
    """The rows' calls without those that differ in nothing but what was halved away."""
    found: dict[Any, Instance] = {}
    for row in rows:
        found.setdefault(_identity(row), row)
    return list(found.values())


def _is_presence(given: Given) -> bool:
    """Whether one tensor is passed or not: both are told, though a row may be the same call."""
    return len(given) == 1 and all(isinstance(k, str) and k.startswith("present(") for k in given)


def _name(key: str) -> str:
    """What a discriminant speaks of: ``"w"`` for ``"present(w)"``."""
    return key.removeprefix("present(").rstrip(")")


def _word_of(value: Any) -> str:
    """A discriminant's value; of a sum the form and what else decides."""
    if not isinstance(value, AdtValue):
        return str(value)
    fields = ", ".join(str(of) for _, of in value.fields)
    return f"{value.kind}({fields})" if fields else value.kind


def _identity(call: Instance) -> Any:
    return repr((call.params, sorted(call.given.items()), call.some))


def _inner(kind: Kind | None) -> Kind | None:
    return kind.of if isinstance(kind, MaybeKind) else kind


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _other_values(param: Param, now: Any) -> Iterator[Any]:
    """Values of a parameter that may make a difference, besides those of discriminants."""
    kind = _inner(param.kind)
    if isinstance(kind, WordOrKind):
        yield from (word for word in kind.words if word != now)
        kind = kind.of
    values: tuple[Any, ...] = ()
    if isinstance(kind, AxesKind):
        values = (*range(-3, 3), (), (0,), (0, 1), (0, 2), (-1, -3), (0, 1, 2), None)
    elif isinstance(kind, IntTupleKind):
        values = (1, 2, 3, *((n + 1, *(1,) * (kind.length - 1)) for n in range(2)))
    elif isinstance(kind, IntKind):
        values = (*range(-3, 4), None)
    elif isinstance(kind, ScalarKind):
        if "int" in kind.types:
            values += (0, 1, 2, -1)
        if "float" in kind.types:
            values += (0.0, 0.5, 1.0, 2.0)
    if values and param.default is not REQUIRED:
        values += (param.default,)
    for value in values:
        different = type(value) is not type(now) or value != now
        if different and misfit(value, param.kind) is None:
            yield value


__all__ = ["COLUMNS", "LAYOUTS", "Quantity", "Variant", "Variants"]
