"""A property that is computed once, and makes nobody wait."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import tileops_core
from tileops_core.cached import cached_property


class Circle:
    def __init__(self, compute):
        self.compute = compute

    @cached_property
    def area(self):
        """How large it is."""
        return self.compute()


def test_a_value_is_computed_once():
    values = iter([1, 2])
    circle = Circle(lambda: next(values))
    assert (circle.area, circle.area) == (1, 1)


def test_the_class_shows_the_property_and_its_docstring():
    assert isinstance(Circle.area, cached_property)
    assert Circle.area.__doc__ == "How large it is."


def test_another_thread_may_compute_meanwhile_and_both_get_what_was_first():
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert go_on.wait(20)
        return "slow"

    def compute():
        return slow() if threading.current_thread() is thread else "quick"

    circle, got = Circle(compute), []
    thread = threading.Thread(target=lambda: got.append(circle.area), daemon=True)
    other = threading.Thread(target=lambda: got.append(circle.area), daemon=True)
    thread.start()
    assert begun.wait(20)
    other.start()
    other.join(2)
    assert got == ["quick"], "it waits for the other thread"
    go_on.set()
    thread.join(20)
    assert got == ["quick", "quick"]


def test_the_library_uses_none_that_has_a_lock():
    wrong = []
    for path in Path(tileops_core.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "functools":
                wrong += [path.name for alias in node.names if alias.name == "cached_property"]
    assert wrong == []
