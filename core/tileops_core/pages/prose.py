"""An author's comment as prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from tileops_core.pages.markdown import block, escaped

_OP = re.compile(r"\b[A-Z]\w*(?:Fwd|Bwd)Op\b")
_ABBREVIATED = ("al", "cf", "e.g", "i.e", "sec", "vs")
_LONGEST = 150

Link = Callable[[str], "str | None"]
"""Where the section of an op is, None if there is no such op."""


def paragraphs(comment: Sequence[str], link: Link) -> list[str]:
    """The lines of a comment as Markdown: prose, and as code what is indented.

    An empty line ends a paragraph. Ops are linked where they are named.
    """
    lines: list[str] = []
    for indented, group in groupby(comment, lambda line: line.startswith("  ")):
        texts = list(group)
        if indented:
            before = min(len(text) - len(text.lstrip()) for text in texts)
            lines += ["", *block("\n".join(text[before:] for text in texts)), ""]
        else:
            lines += [linked(escaped(text.strip()), link) for text in texts]
    return _trimmed(lines)


def _trimmed(lines: list[str]) -> list[str]:
    kept = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
    while kept and not kept[-1]:
        kept.pop()
    return kept[1:] if kept and not kept[0] else kept


def linked(text: str, link: Link) -> str:
    """Markdown with a link at every name of an op that there is."""

    def with_link(found: re.Match[str]) -> str:
        target = link(found[0])
        return found[0] if target is None else f"[{found[0]}]({target})"

    return _OP.sub(with_link, text)


def first_sentence(comment: Sequence[str]) -> str:
    """What a comment says first, as plain text on one line; shortened if it is long."""
    said = []
    for line in comment:
        if not line or line.startswith("  "):
            break
        said.append(line.strip())
    sentence = next(_sentences(" ".join(said)), "").rstrip(":")
    if len(sentence) <= _LONGEST:
        return sentence.removesuffix(".")
    return f"{sentence[: _cut(sentence)]} …"


def _cut(sentence: str) -> int:
    """Where to end a sentence that is too long: behind a clause, else behind a word."""
    depth, clause, word = 0, 0, _LONGEST
    for place, sign in enumerate(sentence[:_LONGEST]):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and sentence[place + 1] == " ":
            if sign in ",;:":
                clause = place
            word = place + 1
    return clause if clause > _LONGEST // 3 else word


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for end in re.finditer(r"(?<=[^\s.]\.)\s+", text):
        sentence = text[start : end.start()]
        if not sentence.rstrip(".").lower().endswith(_ABBREVIATED):
            yield sentence
            start = end.end()
    yield text[start:]
