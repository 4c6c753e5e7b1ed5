"""``types.yaml``: the types that entries of several ops share, read when an entry names one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import attrs

from tileops_core.spans import Span
from tileops_core.spec.entries import ConstructorEntry, SharedTypeEntry
from tileops_core.spec.fields import Fields, text_of
from tileops_core.spec.problems import Problem, Problems
from tileops_core.spec.reader import rule_of
from tileops_core.spec.yaml_nodes import (
    NOT_YAML,
    AnyNode,
    Scalar,
    Source,
    compose,
    convert,
    syntax_problem,
)
from tileops_core.spec.yaml_nodes import Mapping as MappingNode

FILE = "types.yaml"
"""The file's name, among those of the families."""

_CONSTRUCTOR = ("python", "fields", "invariant")


class SharedTypes:
    """The types of one manifest.

    Args:
        read: Gives the file's text; called once, when somebody asks for a type. None stands for
            a manifest without such a file.
        path: What messages call the file.
    """

    def __init__(self, read: Callable[[], str] | None = None, path: str = FILE) -> None:
        self._read = read
        self._path = path
        self._lock = threading.Lock()
        self._found: tuple[Mapping[str, SharedTypeEntry], tuple[Problem, ...]] | None = None

    def get(self, name: str) -> SharedTypeEntry | None:
        """The type of that name, its own problems on it, or None when there is none."""
        return self._load()[0].get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all types, in the file's order."""
        return tuple(self._load()[0])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the text, the problems of its types included."""
        entries, problems = self._load()
        return (*problems, *(p for entry in entries.values() for p in entry.problems))

    def _load(self) -> tuple[Mapping[str, SharedTypeEntry], tuple[Problem, ...]]:
        if self._found is None:
            with self._lock:
                if self._found is None:
                    problems = Problems()
                    text = self._read() if self._read else ""
                    entries = {e.name: e for e in _entries(Source(self._path, text), problems)}
                    self._found = entries, tuple(problems)
        return self._found


def _entries(source: Source, problems: Problems) -> Iterator[SharedTypeEntry]:
    try:
        root = compose(source)
    except NOT_YAML as error:
        problem = syntax_problem(error, source)
        problems.add(problem.code, problem.message, problem.span, problem.hint)
        return
    node = convert(source, root, problems) if root is not None else None
    if isinstance(node, MappingNode):
        for name, (key, value) in node.entries.items():
            own = Problems()
            entry = _shared_type(name, key.span, value, own)
            yield attrs.evolve(entry, problems=tuple(own)) if len(own) else entry
    elif node is not None:
        problems.add("wrong-value", f"{source.path} is {node.kind}, a mapping is due", node.span)


def _shared_type(name: str, span: Span, node: AnyNode, problems: Problems) -> SharedTypeEntry:
    python = node.entries.get("python") if isinstance(node, MappingNode) else None
    if python is not None and isinstance(python[1], Scalar):
        fields = Fields(node, name, ("python",), problems)
        return SharedTypeEntry(name, (), fields.written_text("python"), span)
    if not isinstance(node, MappingNode) or not node.entries:
        problems.add(
            "wrong-value",
            f"{name} is {node.kind}, a mapping of constructors is due",
            node.span,
            "an object that expressions cannot read has the one key python",
        )
        return SharedTypeEntry(name, (), None, span)
    constructors = tuple(
        _constructor(name, constructor, key.span, inner, problems)
        for constructor, (key, inner) in node.entries.items()
    )
    return SharedTypeEntry(name, constructors, None, span)


def _constructor(
    sum_name: str, name: str, span: Span, node: AnyNode, problems: Problems
) -> ConstructorEntry:
    what = f"{sum_name}.{name}"
    fields = Fields(node, what, _CONSTRUCTOR, problems)
    fields.require("python", span, "the dotted name of the class of its values")
    return ConstructorEntry(
        name=name,
        python=fields.written_text("python"),
        fields=tuple(
            (field, kind)
            for field, _, value in fields.named("fields")
            if (kind := text_of(value, f"{what}: {field}", problems))
        ),
        invariant=tuple(rule_of(item, problems) for item in fields.items("invariant")),
        span=span,
    )
