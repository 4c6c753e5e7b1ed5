"""Every small fault that somebody can make in an entry's YAML, one at a time."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import yaml

Change = Callable[[Any], None]
"""Changes a tree of YAML nodes in place."""

_OTHER = (
    ("text", lambda: yaml.ScalarNode("tag:yaml.org,2002:str", "surprise")),
    ("number", lambda: yaml.ScalarNode("tag:yaml.org,2002:int", "7")),
    ("boolean", lambda: yaml.ScalarNode("tag:yaml.org,2002:bool", "true")),
    ("null", lambda: yaml.ScalarNode("tag:yaml.org,2002:null", "null")),
    ("list", lambda: yaml.SequenceNode("tag:yaml.org,2002:seq", [], flow_style=True)),
    ("mapping", lambda: yaml.MappingNode("tag:yaml.org,2002:map", [], flow_style=True)),
)


@attrs.frozen
class Mutation:
    """One fault: what is done, to which node, by its path."""

    kind: str
    path: str
    change: Change = attrs.field(repr=False)

    def of(self, tree: Tree) -> str:
        """The text of an entry with the fault."""
        nodes = tree.nodes()
        self.change(nodes)
        return text_of(nodes)


class Tree:
    """The YAML nodes of a file with nothing but one of its entries; each use has its own.

    Args:
        text: The file's text.
        op: The entry.
    """

    def __init__(self, text: str, op: str) -> None:
        root: Any = yaml.compose(text)
        root.value = [(key, value) for key, value in root.value if key.value == op]
        _forget_places(root)
        self._kept = pickle.dumps(root)

    def nodes(self) -> Any:
        """The nodes, to be changed at will."""
        return pickle.loads(self._kept)


def text_of(nodes: Any) -> str:
    """YAML nodes as text."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.serialize(nodes, Dumper=dumper, width=10**6, allow_unicode=True))


def _forget_places(node: Any) -> None:
    """Where nodes stood holds the whole text, once for each of them."""
    node.start_mark = node.end_mark = None
    parts = node.value if isinstance(node, yaml.CollectionNode) else ()
    for part in parts:
        for inner in part if isinstance(part, tuple) else (part,):
            _forget_places(inner)


def mutations(tree: Tree) -> Iterator[Mutation]:
    """All single faults of an entry, in its order."""
    yield from _inside(tree.nodes(), (), "")


def _inside(node: Any, steps: tuple[Any, ...], path: str) -> Iterator[Mutation]:
    if isinstance(node, yaml.MappingNode):
        for at, (key, value) in enumerate(node.value):
            yield from _of_pair(node, at, steps, f"{path}.{key.value}")
            yield from _inside(value, (*steps, (at, 1)), f"{path}.{key.value}")
    elif isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            yield from _of_item(node, at, steps, f"{path}[{at}]")
            yield from _inside(item, (*steps, at), f"{path}[{at}]")
    elif isinstance(node, yaml.ScalarNode) and steps:
        yield from _of_scalar(node, steps, path)


def _at(tree: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        tree = tree.value[step[0]][step[1]] if isinstance(step, tuple) else tree.value[step]
    return tree


def _put(tree: Any, steps: tuple[Any, ...], node: Any) -> None:
    parent, step = _at(tree, steps[:-1]), steps[-1]
    if isinstance(step, tuple):
        pair = list(parent.value[step[0]])
        pair[step[1]] = node
        parent.value[step[0]] = tuple(pair)
    else:
        parent.value[step] = node


def _of_pair(node: Any, at: int, steps: tuple[Any, ...], path: str) -> Iterator[Mutation]:
    def drop(tree: Any) -> None:
        del _at(tree, steps).value[at]

    def double(tree: Any) -> None:
        here = _at(tree, steps).value
        here.insert(at, copy.deepcopy(here[at]))

    def rename(new: str) -> Change:
        def change(tree: Any) -> None:
            key, _ = _at(tree, steps).value[at]
            key.value = new

        return change

    def swap(tree: Any) -> None:
        here = _at(tree, steps).value
        other = (at + 1) % len(here)
        (key, value), (other_key, other_value) = here[at], here[other]
        here[at], here[other] = (key, other_value), (other_key, value)

    name = node.value[at][0].value
    yield Mutation("drop", path, drop)
    yield Mutation("duplicate", path, double)
    yield Mutation("rename", path, rename(f"{name}x"))
    yield Mutation("rename", path, rename(name[:-1] or "q"))
    if len(node.value) > 1:
        yield Mutation("swap", path, swap)
    for what, make in _OTHER:
        yield Mutation(f"retype to {what}", path, _replacing((*steps, (at, 1)), make))


def _of_item(node: Any, at: int, steps: tuple[Any, ...], path: str) -> Iterator[Mutation]:
    def drop(tree: Any) -> None:
        del _at(tree, steps).value[at]

    def double(tree: Any) -> None:
        here = _at(tree, steps).value
        here.insert(at, copy.deepcopy(here[at]))

    def swap(tree: Any) -> None:
        here = _at(tree, steps).value
        other = (at + 1) % len(here)
        here[at], here[other] = here[other], here[at]

    yield Mutation("drop", path, drop)
    yield Mutation("duplicate", path, double)
    if len(node.value) > 1:
        yield Mutation("swap", path, swap)
    for what, make in _OTHER:
        yield Mutation(f"retype to {what}", path, _replacing((*steps, at), make))


def _of_scalar(node: Any, steps: tuple[Any, ...], path: str) -> Iterator[Mutation]:
    """Misspellings of a word: what a hand slips on."""
    text = node.value
    middle = len(text) // 2
    for kind, new in (
        ("misspell by a letter too many", f"{text}x"),
        ("misspell by a letter too few", text[:middle] + text[middle + 1 :]),
        ("misspell by two letters turned", text[:-2] + text[-1:] + text[-2:-1]),
        ("misspell by another sign", text.replace("*", "+", 1)),
        ("misspell by another bracket", text.replace("]", ")", 1)),
    ):
        if new != text:
            yield Mutation(kind, path, _spelling(steps, new))


def _spelling(steps: tuple[Any, ...], new: str) -> Change:
    def change(tree: Any) -> None:
        _at(tree, steps).value = new

    return change


def _replacing(steps: tuple[Any, ...], make: Callable[[], Any]) -> Change:
    def change(tree: Any) -> None:
        _put(tree, steps, make())

    return change
