"""Write the JSON Schema of spec files: ``python -m tileops_core.spec.generate_schema``.

Editors that know it complete keys and mark what is no key. It follows from the keys that the reader
takes and from the types of the entries' fields, so it says what the reader says; what an expression
may hold is for the validator.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs

from tileops_core.spec import keys, names, reader
from tileops_core.spec.entries import (
    CaseEntry,
    CompositionEntry,
    FamilyEntry,
    InputEntry,
    OutputEntry,
    ParamEntry,
    RooflineEntry,
    RowEntry,
    Spec,
    StageEntry,
)

NAME = "entry.schema.json"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_EXPRESSION = {"type": ["string", "integer"]}
_CONDITION = {"type": ["boolean", "string"]}
_ANY: dict[str, Any] = {}
_DTYPES = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}

_BY_TYPE = {
    "bool": _FLAG,
    "bool | None": _FLAG,
    "bool | Expr | None": _CONDITION,
    "Expr | None": _EXPRESSION,
    "ShapeExpr | None": _TEXT,
    "str": _TEXT,
    "str | None": _TEXT,
    "Written": _TEXT,
    "Written | None": _ANY,
    "tuple[RuleEntry, ...]": {"type": "array", "items": _EXPRESSION},
    "tuple[Written, ...]": {"type": ["array", "string"]},
    "Mapping[str, Written] | None": {"type": "object"},
}
"""What a key takes, by the type of the field that keeps it."""

_FIELDS = {"let": "lets", "shape_rules": "rules", "is": "shape"}
"""The fields that are not called as their key is."""

_FIXED: dict[str, Any] = {
    "family": {"type": "string", "pattern": names.FAMILY},
    "status": {"enum": list(reader.STATUSES)},
    "device": {"enum": ["cpu"]},
    "buffer": {"enum": ["out"]},
    "alias": _TEXT,
    "when": _ANY,
    "match": {"type": ["string", "array"]},
    "params of a type family": {"type": "object", "additionalProperties": _TEXT},
    "some": {"type": "array", "items": _TEXT},
    "dtype_cases": {"type": "array", "items": _DTYPES},
    "label": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,24}$"},
    "kind": {"enum": ["composite"]},
}


def schema() -> dict[str, Any]:
    """The schema of a file: op names to entries."""
    return {
        "$schema": _DRAFT,
        "title": "TileOPs manifest",
        "description": "Entries of operators, by their names.",
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": names.OP},
        "additionalProperties": _entry(),
    }


def schema_text() -> str:
    """The schema as it is packaged."""
    return json.dumps(schema(), indent=1) + "\n"


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of spec files, for editors and other tools."""
    text = (files("tileops_core.spec") / NAME).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _entry() -> dict[str, Any]:
    composition = _object(
        keys.COMPOSITION,
        CompositionEntry,
        {"stages": _list(_object(keys.STAGE, StageEntry, {}, ("name", "op")))},
        keys.COMPOSITION,
    )
    parts = {
        "signature": _signature(),
        "workloads": {**_list(_row()), "minItems": 1},
        "roofline": _object(keys.ROOFLINE, RooflineEntry, {}),
        "composition": composition,
    }
    return _object(keys.ENTRY, Spec, parts, ("family", "status", "signature", "workloads"))


def _signature() -> dict[str, Any]:
    tensor = ("dtype", "shape")
    param = {
        "anyOf": [
            _object(keys.PARAM, ParamEntry, {}, ("type",)),
            _object(keys.TENSOR_PARAM, InputEntry, {"optional": _FLAG}, tensor),
        ]
    }
    family = _object(
        keys.FAMILY,
        FamilyEntry,
        {
            "params": _FIXED["params of a type family"],
            "cases": _list(_object(keys.CASE, CaseEntry, {}, keys.CASE)),
        },
        keys.FAMILY,
    )
    parts = {
        "forall": _named(_TEXT),
        "params": _named(param),
        "inputs": _named(_object(keys.INPUT, InputEntry, {}, tensor)),
        "outputs": _named(_object(keys.OUTPUT, OutputEntry, {}, tensor)),
        "types": _named(family),
        "let": _named(_EXPRESSION),
        "dtype_combos": {**_list(_DTYPES), "minItems": 1},
    }
    return _object(keys.SIGNATURE, Spec, parts, ("outputs",))


def _row() -> dict[str, Any]:
    """A row: its own keys, and the parameters and indices that the entry declares."""
    row = _object(keys.ROW, RowEntry, {}, ("label",))
    return {**row, "additionalProperties": True}


def _object(
    meanings: Mapping[str, str],
    kept_in: type,
    parts: dict[str, Any],
    required: Iterable[str] = (),
) -> dict[str, Any]:
    """A mapping with these keys and no others.

    Args:
        meanings: The keys that the reader takes, and what they say.
        kept_in: The attrs class whose fields keep their values.
        parts: What some of them take; the others follow from their fields' types.
        required: The keys that must be there.

    Raises:
        KeyError: A key has no field, or one of a type that is not known here.
    """
    types = {field.name: str(field.type) for field in attrs.fields(kept_in)}
    properties = {}
    for key, meaning in meanings.items():
        known: Any = parts.get(key, _FIXED.get(key))
        if known is None:
            known = _BY_TYPE[types[_FIELDS.get(key, key)]]
        properties[key] = {**known, "description": meaning}
    made: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    needed = list(required)
    return {**made, "required": needed} if needed else made


def _named(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": {"pattern": names.DECLARED},
        "additionalProperties": value,
    }


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def main() -> None:
    """Write the schema next to this module."""
    path = Path(__file__).with_name(NAME)
    path.write_text(schema_text(), encoding="utf-8")
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
