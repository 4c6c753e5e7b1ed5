"""Write Python source, compile it once, and let debuggers step into it."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any


class SourceWriter:
    """Lines with indentation, and the global names that they use."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self.globals: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Append one line at the current depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Append ``header`` and indent what follows inside the ``with``."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def use(self, name: str, value: Any) -> str:
        """Make ``value`` a global of the source; returns ``name``."""
        self.globals[name] = value
        return name

    def text(self) -> str:
        """The whole source."""
        return "\n".join(self._lines) + "\n"


class LateSource:
    """Source that is written and compiled when one of its functions is first asked for.

    There is no lock: one that is held while code is compiled would be held for good in a process
    that is forked meanwhile. Threads that ask together may each compile; they all get the functions
    of the one that was ready first.

    Args:
        write: writes it.
        filename: its name in :mod:`linecache`.
    """

    def __init__(self, write: Callable[[], SourceWriter], filename: str) -> None:
        self._write = write
        self._filename = filename
        self._compiled: dict[str, dict[str, FunctionType]] = {}

    def __getitem__(self, name: str) -> FunctionType:
        """One of its functions, the same one each time."""
        functions = self._compiled.get("functions")
        if functions is None:
            made = compile_source(self._write(), self._filename)
            functions = self._compiled.setdefault("functions", made)
        return functions[name]

    def text(self) -> str:
        """The whole source."""
        return self._write().text()


def compile_source(writer: SourceWriter, filename: str) -> dict[str, FunctionType]:
    """Compile and run the source; returns the functions it defines by name.

    The text is registered with :mod:`linecache` under ``filename``, so tracebacks show it and
    a debugger steps into it. Compiling the same name again replaces the text.
    """
    text = writer.text()
    code = compile(text, filename, "exec")
    # Without a __name__: dynamo would import the module of that name to read the globals.
    namespace = dict(writer.globals)
    exec(code, namespace)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    functions = {
        name: value
        for name, value in namespace.items()
        if isinstance(value, FunctionType) and value.__code__.co_filename == filename
    }
    for function in functions.values():
        function.__module__ = filename.strip("<>").replace(" ", ".")
    return functions
