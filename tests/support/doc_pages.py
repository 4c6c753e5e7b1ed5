"""What a page of the docs shows, run from top to bottom as a reader would.

``python tests/support/doc_pages.py PAGE`` runs one page in the current directory, which stands for
the reader's project, and stops at the first block that does not do what the page says:

- ``python``: run, all of a page in one namespace; ``pycon``: run and compared, as doctest has it;
- any block whose first line is ``# PATH``: written there;
- ``sh``: each ``tileops`` and ``pytest`` command has to succeed;
- ``console``: each of these behind a ``$``; its output is what is shown, ``...`` standing for any;
- ``pip install -e .``: the project's metadata is written, so that its entry points are found. Other
  installations have been made already.

A block whose first line is ``# Not run: REASON`` is left out.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

NOT_RUN = "# Not run: "
RUN = ("python", "pycon", "sh", "console")
"""The languages of blocks that are run."""

_FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>\{?[\w-]*\}?)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.M | re.S
)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"# ([\w./-]+\.(?:py|toml|txt|yaml|cfg))")
_PROGRAMS = {
    "tileops": [sys.executable, "-m", "tileops_core"],
    # Named, because the metadata of an editable installation may be older than the plugin.
    "pytest": [sys.executable, "-m", "pytest", "-p", "tileops_core.conformance.pytest_plugin"],
}


@attrs.frozen
class Block:
    """A block of code.

    Attributes:
        language: what stands behind the fence.
        text: the code.
        line: the number of its first line, from 1.
    """

    language: str
    text: str
    line: int

    @property
    def path(self) -> str | None:
        """The file that it is, if it is one."""
        found = _PATH.fullmatch(self.text.partition("\n")[0])
        return found[1] if found else None

    @property
    def reason(self) -> str | None:
        """Why it is not run, if it is not."""
        first = self.text.partition("\n")[0]
        return first.removeprefix(NOT_RUN) if first.startswith(NOT_RUN) else None

    @property
    def runs(self) -> bool:
        """Whether it is something that a reader runs."""
        return self.path is None and self.reason is None and self.language in RUN

    def commands(self) -> Iterator[tuple[str, str | None]]:
        """The commands of a shell block, each with the output that is shown, None for none."""
        if self.language == "console":
            for part in re.split(r"^\$ ", self.text, flags=re.M)[1:]:
                command, _, output = part.partition("\n")
                yield command, output or None
        else:
            for command in self.text.replace("\\\n", " ").splitlines():
                yield command, None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["text"], text.count("\n", 0, found.start("text")) + 1)
        for found in _FENCE.finditer(text)
    ]


def links(page: Path) -> list[str]:
    """Where a page's links to other files lead, outside of its code."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", text))


class Mismatch(Exception):
    """A block does something else than the page says."""


class Reader:
    """Somebody who does what a page says.

    Args:
        page: The page.
    """

    def __init__(self, page: Path) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def read(self) -> int:
        """Run the page; how many blocks have been run."""
        count = 0
        for block in blocks(self.page):
            if block.path is not None:
                path = Path(block.path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif not block.runs:
                continue
            elif block.language == "python":
                # The lines of the page are those of the code, for tracebacks.
                code = "\n" * (block.line - 1) + block.text
                exec(compile(code, str(self.page), "exec"), self.names)
            elif block.language == "pycon":
                self._doctest(block)
            else:
                for command, output in block.commands():
                    self._run(block, command, output)
            count += block.runs
        return count

    def _doctest(self, block: Block) -> None:
        name, flags = self.page.name, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        test = doctest.DocTestParser().get_doctest(
            block.text, {}, name, str(self.page), block.line - 1
        )
        test.globs = self.names
        told: list[str] = []
        runner = doctest.DocTestRunner(optionflags=flags)
        if runner.run(test, out=told.append, clear_globs=False).failed:
            raise Mismatch("".join(told))

    def _run(self, block: Block, command: str, output: str | None) -> None:
        words = shlex.split(command, comments=True)
        if words[:3] == ["pip", "install", "-e"]:
            install(Path(words[3]))
        if not words or words[0] not in _PROGRAMS:
            return
        done = subprocess.run(
            [*_PROGRAMS[words[0]], *words[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        where = f"{self.page.name}, line {block.line}: {command}\n"
        if output is None and done.returncode != 0 and block.language == "sh":
            raise Mismatch(f"{where}exits with {done.returncode}:\n{done.stdout}")
        if output is not None and not fits(output, done.stdout):
            raise Mismatch(f"{where}prints\n{done.stdout}\nand not\n{output}")


def fits(shown: str, output: str) -> bool:
    """Whether an output is the one that is shown, as doctest compares them."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown, output, flags)


def install(project: Path) -> None:
    """Write what pip writes of a project whose modules lie beside its `pyproject.toml`."""
    import tomllib

    described = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = described["name"], described["version"]
    info = project / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = described.get("entry-points", {})
    lines = [[f"[{group}]", *(f"{n} = {v}" for n, v in points[group].items())] for group in points]
    (info / "entry_points.txt").write_text("".join(f"{line}\n" for part in lines for line in part))
    importlib.invalidate_caches()


if __name__ == "__main__":
    print(Reader(Path(sys.argv[1])).read())
