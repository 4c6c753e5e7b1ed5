"""The JSON Schema of spec files says what the reader says of keys and plain types."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

import tileops_core
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.generate_schema import NAME, main, manifest_schema, schema_text
from tileops_core.validate.examples import EXAMPLES, entry_text

SPECS = sorted(
    (path for path in (files("tileops_manifest") / "spec").iterdir()
     if path.name.endswith(".yaml") and path.name != "types.yaml"),
    key=lambda path: path.name,
)  # fmt: skip
KEYS = ("unknown-key", "missing-key", "wrong-value")


@pytest.fixture(scope="module")
def validator():
    schema = manifest_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def errors(validator, text):
    return [error.message for error in validator.iter_errors(yaml.safe_load(text))]


def test_the_packaged_schema_is_fresh():
    text = (files("tileops_core.spec") / NAME).read_text(encoding="utf-8")
    assert text == schema_text(), "run python -m tileops_core.spec.generate_schema"


def test_writing_the_schema_changes_nothing_that_is_fresh(capsys):
    main()
    assert capsys.readouterr().out.strip().endswith(NAME)
    test_the_packaged_schema_is_fresh()


def test_it_is_a_public_name():
    assert tileops_core.manifest_schema() == manifest_schema()


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_every_spec_file_fits(validator, path):
    assert errors(validator, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("code", sorted(EXAMPLES.keys() - {"yaml-syntax", "yaml-tag"}))
def test_what_the_reader_takes_fits(validator, code):
    example = EXAMPLES[code]
    text = example.entry(example.right)
    assert ManifestFile("probe.yaml", text).load("ProbeFwdOp").problems == ()
    assert errors(validator, text) == []


@pytest.mark.parametrize("code", KEYS)
def test_what_the_reader_refuses_for_its_keys_does_not_fit(validator, code):
    example = EXAMPLES[code]
    assert errors(validator, example.entry(example.wrong)) != []


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "done"},
        {"signature.inputs": "x: {dtype: T}"},
        {"signature.inputs": 'x: {dtype: T, shape: "[M]", kw_only: 1}'},
        {"signature.outputs": 'y: {dtype: T, shape: "[M]", buffer: in}'},
        {"workloads": "- {M: 2}"},
        {"workloads": "[]"},
        {"roofline": "{flop: 1}"},
        {"composition": "{kind: chain, stages: []}"},
        {"signature.dtype_combos": "- T"},
        {"signature.dtype_combos": "[]"},
        {"family": "Probe"},
        {"family": "class"},
        {"signature.let": "class: M"},
        {"signature.let": "_L: M"},
    ],
)
def test_wrong_keys_and_types_do_not_fit(validator, changes):
    assert errors(validator, entry_text(changes)) != []


@pytest.mark.parametrize("op", ["A-BFwdOp", "aFwdOp", "FwdOp", "ÄFwdOp", "AFwd", "AFwdOp x"])
def test_what_no_class_can_be_called_does_not_fit(validator, op):
    text = entry_text()
    assert errors(validator, text) == []
    assert errors(validator, text.replace("ProbeFwdOp", op)) != []


def test_every_object_lists_all_its_keys(validator):
    entry = manifest_schema()["additionalProperties"]
    assert entry["additionalProperties"] is False
    assert set(entry["properties"]) >= {"family", "status", "signature", "workloads"}


def test_the_schema_says_what_each_key_says() -> None:
    def properties(part_of: object) -> Iterator[tuple[str, dict[str, Any]]]:
        if isinstance(part_of, dict):
            if part_of.get("type") == "object":
                yield from part_of.get("properties", {}).items()
            for part in part_of.values():
                yield from properties(part)
        elif isinstance(part_of, list):
            for part in part_of:
                yield from properties(part)

    found = list(properties(manifest_schema()))
    assert len(found) > 40
    assert [key for key, part in found if not part.get("description", "").endswith(".")] == []
