"""The functions of the language, explained."""

from __future__ import annotations

import re

import pytest

from tileops_core.pages import glossary
from tileops_core.signature.generators import GENERATORS
from tileops_core.signature.predicates import PREDICATES
from tileops_core.signature.primitives import PRIMITIVES


@pytest.mark.parametrize(
    ("made", "known"),
    [
        (glossary.primitives, PRIMITIVES),
        (glossary.predicates, PREDICATES),
        (glossary.generators, GENERATORS),
    ],
)
def test_every_function_has_a_sentence(made, known) -> None:
    rows = [re.fullmatch(r"\| `([\w.]+)\(.*?\)` \| (\S.*\.) \|", row) for row in made()[2:]]
    assert [row and row[1] for row in rows] == list(known)


def test_only_functions_that_there_are_have_a_sentence() -> None:
    assert set(glossary._PRIMITIVES) <= set(PRIMITIVES)
