"""What a code means, with the smallest text that has the fault and the text that has not; and what
a word of the language means.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tileops_core.validate.codes import CODES
from tileops_core.validate.examples import EXAMPLES, Example
from tileops_core.validate.language import SAMPLES, Topic, samples_in, topics_named


def explain(code: str) -> str:
    """A code's meaning and, where text can show the fault, an example and its rewrite."""
    return "\n".join([code, "", f"  {CODES[code]}", *_shown(EXAMPLES.get(code))])


def explain_word(word: str) -> str:
    """What a word of the language means, wherever it may stand, with examples and their values."""
    return "\n\n".join("\n".join(_topic(topic)) for topic in topics_named(word))


def _topic(topic: Topic) -> Iterator[str]:
    yield f"{topic.name} ({topic.group})"
    for part in filter(None, (topic.signature, *topic.meaning)):
        yield ""
        for line in part.splitlines():
            yield from textwrap.wrap(line, 100, initial_indent="  ", subsequent_indent="  ")
    if topic.examples:
        yield ""
    for text, value in topic.examples:
        yield f"    >>> {text}"
        yield f"    {value}"
    read = samples_in(topic)
    if read:
        yield ""
        yield from (f"  {name} is {SAMPLES[name].said}" for name in read)


def page() -> str:
    """The page of the docs that lists every code, in Markdown."""
    lines = [
        "# Problem codes",
        "",
        "Every finding of `tileops validate`, and every problem of a `ManifestError`, has one of",
        "these codes; they do not change. `tileops validate --explain CODE` shows one of them.",
    ]
    for code, meaning in CODES.items():
        lines += ["", f"## {code}", "", *textwrap.wrap(meaning, 100)]
        example = EXAMPLES.get(code)
        if example is not None:
            lines += ["", *_fenced("Refused:", example.wrong, example)]
            lines += ["", *_fenced("Instead:", example.right, example)]
    return "\n".join([*lines, ""])


def _shown(example: Example | None) -> Iterator[str]:
    if example is None:
        return
    for title, text in (("refused", example.wrong), ("instead", example.right)):
        yield ""
        yield f"  {title}:"
        yield from (f"    {line}".rstrip() for line in example.text(text).splitlines())


def _fenced(title: str, text: str, example: Example) -> list[str]:
    return [title, "", "```yaml", *example.text(text).splitlines(), "```"]


def main() -> None:
    """Write the page into the docs of the repository that this module lies in."""
    path = Path(__file__).parents[3] / "docs" / "problems.md"
    path.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
