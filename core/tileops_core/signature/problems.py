"""The codes of what can be wrong with an entry that reads well."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops_core.spec.problems import CODES as READER_CODES
from tileops_core.spec.problems import Problem, Problems, manifest_error

__all__ = ["CODES", "Problem", "Problems", "manifest_error"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        **READER_CODES,
        "unknown-type": "A type or kind is none that the manifest knows.",
        "bad-default": "A default is not of its parameter's type, or a refinement over parameters "
        "refuses it.",
        "param-order": "Python allows no parameter without a default after one with, and no "
        "positional one after a keyword-only one.",
        "name-taken": "A name is declared twice in one entry, or shadows a declared one.",
        "unknown-name": "An expression reads a name that the entry does not declare.",
        "unknown-primitive": "An expression calls something that is no primitive.",
        "arguments": "A primitive or type family is given the wrong number of arguments.",
        "kind": "An expression is not of the kind that its place needs.",
        "maybe-none": "A value that may be None is read where it has not been shown to be there.",
        "not-in-branch": "A field is read where the value may be of a form that lacks it.",
        "never-equal": "A comparison can never hold, or always does.",
        "tensor-read": "An expression reads a tensor, of which only presence and bytes are known.",
        "rule-defines-name": "A refinement defines a name that nothing else gives a value.",
        "unsourced-index": "No input carries an index, so no call can give it a value.",
        "unsolved": "No order of solving gives an index a value on every branch.",
        "unused": "A declaration is used by nothing.",
        "let-cycle": "Named quantities refer to each other in a circle.",
        "unknown-family": "A shape applies a type family that the entry does not declare.",
        "family-match": "A type family's discriminants are not parameters with finitely many "
        "values, or hang on what only the shapes of a call tell.",
        "family-gap": "The cases of a type family leave a value out.",
        "family-overlap": "Two cases of a type family fit the same value.",
        "family-cycle": "Type families apply each other in a circle.",
        "input-order": "A required input stands after an optional one.",
        "presence": "A condition reads what is not known where it is decided.",
        "effects": "The written inputs, aliases and buffers of an entry do not fit together.",
        "dtype-combos": "The rows of dtype_combos do not fit the dtypes that they relate.",
        "composition": "The stages of a composition are no stages.",
        "metadata": "The values or requires of an input are no generator's or predicates'.",
        "row": "A workload row does not fit the signature.",
    }
)
"""What each code means, one sentence each; the reader's codes included."""
