"""The sorts that names and expressions have.

A parameter's kind follows from its manifest ``type`` (:mod:`tileops_core.signature.types`); a
``forall`` index states its kind; an expression's kind is computed from its parts.
"""

from __future__ import annotations

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.spec.expressions import Expr


@attrs.frozen(slots=True, eq=False, repr=False)
class Kind(EqualByFields):
    """Base of all kinds."""


@attrs.frozen(slots=True, eq=False, repr=False)
class IntKind(Kind):
    """A Python int, never a bool."""


@attrs.frozen(slots=True, eq=False, repr=False)
class DimKind(IntKind):
    """A non-negative int; may be used wherever an int may."""


@attrs.frozen(slots=True, eq=False, repr=False)
class BoolKind(Kind):
    """True or False."""


@attrs.frozen(slots=True, eq=False, repr=False)
class EnumKind(Kind):
    """One of finitely many words."""

    words: tuple[str, ...]


@attrs.frozen(slots=True, eq=False, repr=False)
class DTypeKind(Kind):
    """A torch dtype by its short name; ``members`` None means any."""

    members: tuple[str, ...] | None = None


@attrs.frozen(slots=True, eq=False, repr=False)
class ShapeKind(Kind):
    """A tuple of Dim."""


@attrs.frozen(slots=True, eq=False, repr=False)
class AxesKind(Kind):
    """An int, a tuple of ints or (when ``optional``) None: the ``dim=`` of reductions."""

    optional: bool = True


@attrs.frozen(slots=True, eq=False, repr=False)
class IntTupleKind(Kind):
    """``int | tuple[int, ...]`` of a fixed ``length`` (a stride, a padding).

    With ``holes``, an item may be None (an output size that is the input's).
    """

    length: int
    holes: bool = False


@attrs.frozen(slots=True, eq=False, repr=False)
class WordOrKind(Kind):
    """A value of ``of``, or one of some ``words`` instead (a padding, or ``'same'``)."""

    words: tuple[str, ...]
    of: Kind


@attrs.frozen(slots=True, eq=False, repr=False)
class SeqKind(Kind):
    """A list of ints that exists only while a workload row is instantiated."""


@attrs.frozen(slots=True, eq=False, repr=False)
class ScalarKind(Kind):
    """A Python number or text; ``types`` among ``"int" "float" "bool" "str" "complex"``."""

    types: tuple[str, ...]


@attrs.frozen(slots=True, eq=False, repr=False)
class MaybeKind(Kind):
    """A value of ``of``, or None."""

    of: Kind


@attrs.frozen(slots=True, eq=False, repr=False)
class DeviceKind(Kind):
    """``torch.device | str | None``: the call device."""


@attrs.frozen(slots=True, eq=False, repr=False)
class Constructor(EqualByFields):
    """One of a sealed sum's forms: its fields by kind, and the Python class of its values.

    ``invariant`` holds conditions over the fields, which every value of this form meets.
    """

    name: str
    python: str
    fields: tuple[tuple[str, Kind], ...]
    invariant: tuple[tuple[str, Expr], ...] = attrs.field(default=(), hash=False)

    def field(self, name: str) -> Kind | None:
        """The kind of a field, or None when this form lacks it."""
        return next((kind for field, kind in self.fields if field == name), None)


@attrs.frozen(slots=True, eq=False, repr=False)
class AdtKind(Kind):
    """A sealed sum by its name: a value has one of the forms, and that form's fields.

    Behind ``x.kind == 'a'`` only the forms that are left are listed.
    """

    name: str
    constructors: tuple[Constructor, ...]


@attrs.frozen(slots=True, eq=False, repr=False)
class OpaqueKind(Kind):
    """An object of a Python class that expressions cannot read."""

    name: str
    python: str


@attrs.frozen(slots=True, eq=False, repr=False)
class TensorKind(Kind):
    """A tensor's name: readable only by ``present`` and ``bytes``."""


@attrs.frozen(slots=True, eq=False, repr=False)
class TupleKind(Kind):
    """``(a, b)``: a tuple written in an expression, by the kinds of its items."""

    items: tuple[Kind, ...]


@attrs.frozen(slots=True, eq=False, repr=False)
class EachKind(Kind):
    """``element for variable in sequence``: only ever an argument, by the element's kind."""

    of: Kind


INT = IntKind()
DIM = DimKind()
BOOL = BoolKind()
SHAPE = ShapeKind()
SEQ = SeqKind()
FLOAT = ScalarKind(("float",))
ANY_DTYPE = DTypeKind(None)
TENSOR = TensorKind()


def is_int(kind: Kind) -> bool:
    """Whether values of this kind are plain ints."""
    return isinstance(kind, IntKind)


def is_number(kind: Kind) -> bool:
    """Whether arithmetic works on values of this kind."""
    return is_int(kind) or (isinstance(kind, ScalarKind) and not {"str"} & set(kind.types))


def may_be_none(kind: Kind) -> bool:
    """Whether a value of this kind may be None, so that presence is asked for before it is read."""
    return isinstance(kind, MaybeKind) or (isinstance(kind, AxesKind) and kind.optional)
