"""How a call's tensors are read, step by step: data that :mod:`tileops_core.plan` writes out."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.model import Input, Let, ShapeCase
from tileops_core.signature.problems import Problem
from tileops_core.spec.expressions import Expr


@attrs.frozen(slots=True, eq=False, repr=False)
class Place(EqualByFields):
    """Where an axis (or a splice's first axis) lies.

    Axes before the open splice count from the left, those after it from the right. ``ones`` is
    the number of single axes passed on the way, ``runs`` the splices of known length passed.
    """

    from_right: bool
    ones: int
    runs: tuple[Expr, ...]


@attrs.frozen(slots=True, eq=False, repr=False)
class SolveAxis(EqualByFields):
    """``coefficient * name + rest == length``: gives ``name`` (checks it, if ``perhaps`` known)."""

    place: Place
    name: str
    coefficient: int
    rest: Expr | None
    perhaps: bool
    axis: Expr


@attrs.frozen(slots=True, eq=False, repr=False)
class CheckAxis(EqualByFields):
    """The axis equals an expression whose names are all known."""

    place: Place
    axis: Expr


@attrs.frozen(slots=True, eq=False, repr=False)
class CheckRun(EqualByFields):
    """The axes of a splice of known length equal it."""

    place: Place
    run: Expr


@attrs.frozen(slots=True, eq=False, repr=False)
class OpenRun(EqualByFields):
    """The one splice that takes the remaining axes: gives ``name`` (or checks it)."""

    before: Place
    after: Place
    name: str
    perhaps: bool


AxisStep: TypeAlias = SolveAxis | CheckAxis | CheckRun | OpenRun


@attrs.frozen(slots=True, eq=False, repr=False)
class CaseSteps(EqualByFields):
    """One shape case: its rank (``ones`` plus ``runs``, more if ``open``) and its axis steps.

    ``known`` are the names that are certainly settled before the first step. Axes without a step
    are not told yet.
    """

    case: ShapeCase
    ones: int
    runs: tuple[Expr, ...]
    open: bool
    steps: tuple[AxisStep, ...]
    known: frozenset[str]


@attrs.frozen(slots=True, eq=False, repr=False)
class TensorStep(EqualByFields):
    """Read one tensor: its dtype gives ``binds_dtype`` or is checked, then its shape case.

    A parameter that is a tensor is read twice where its shape needs what only a call settles:
    whatever can be told at construction, and in a call (``dtype_known``) the shape as a whole.
    """

    tensor: Input
    binds_dtype: str | None
    perhaps_dtype: bool
    cases: tuple[CaseSteps, ...]
    dtype_known: bool = False


@attrs.frozen(slots=True, eq=False, repr=False)
class LetStep(EqualByFields):
    """Compute a ``let`` of a call."""

    let: Let


@attrs.frozen(slots=True, eq=False, repr=False)
class Solution(EqualByFields):
    """The steps in order, the names that need a None start, and what stays unsolved.

    ``construction`` are the steps of parameters that are tensors, taken once.
    """

    steps: tuple[TensorStep | LetStep, ...]
    perhaps: frozenset[str]
    unsolved: tuple[Problem, ...]
    construction: tuple[TensorStep, ...] = ()
