"""How far long work has come, where a terminal watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on stderr if that is a terminal, else nothing.

    Args:
        title: What is done.
        total: In how many steps.

    Yields:
        What to call after each step.
    """
    if total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    # Here, because only a terminal needs it.
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
