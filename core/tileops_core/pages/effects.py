"""What an entry says of its tensors besides their types, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tileops_core.pages.markdown import code
from tileops_core.signature.model import Input, Output, Signature
from tileops_core.signature.notation import text_of
from tileops_core.spec.expressions import Expr


def sentences(signature: Signature) -> Iterator[str]:
    """A line for each sort of thing that there is to say, as Markdown.

    Tensors of which the same holds are told together.
    """
    sorts = {
        "Presence": _presence(signature),
        "Construction": _construction(signature),
        "Effects": _effects(signature),
        "Memory": _memory(signature),
    }
    for name, said in sorts.items():
        told = list(said)
        if told:
            yield f"- **{name}**: {'; '.join(told)}."
    yield from _metadata(signature)


def _presence(signature: Signature) -> Iterator[str]:
    tensors = (*signature.construction_tensors, *signature.inputs)
    free = [tensor.name for tensor in tensors if tensor.optional is True]
    if free:
        yield f"{_listed(free)} may be left out"
    for condition, names in _by_condition((t.optional, t.name) for t in tensors):
        yield f"{_listed(names)} {_are(names)} passed exactly if {code(condition)}"
    for condition, names in _by_condition((o.nullable, o.name) for o in signature.outputs):
        yield f"{_listed(names)} {_are(names)} None if {code(condition)}"


def _construction(signature: Signature) -> Iterator[str]:
    names = [tensor.name for tensor in signature.construction_tensors]
    if names:
        what = "is a tensor" if len(names) == 1 else "are tensors"
        yield f"{_listed(names)} {what}, given once, when the op is constructed"


def _effects(signature: Signature) -> Iterator[str]:
    for write_only, how in ((False, "overwritten"), (True, "written, and never read,")):
        written = [item for item in signature.inputs if item.write_only is write_only]
        always = [item.name for item in written if item.mutated is True]
        if always:
            yield f"{_listed(always)} {_are(always)} {how.rstrip(',')}"
        for condition, names in _by_condition((item.mutated, item.name) for item in written):
            yield f"{_listed(names)} {_are(names)} {how} if {code(condition)}"
    for output in signature.outputs:
        yield from _storage(output, signature)


def _storage(output: Output, signature: Signature) -> Iterator[str]:
    if output.alias is not None:
        written = next(item.mutated for item in signature.inputs if item.name == output.alias)
        then = " then" if isinstance(written, Expr) else ""
        yield f"{code(output.name)} is{then} {code(output.alias)} itself"
    if output.buffer:
        dense = ", which must be contiguous" if output.contiguous else ""
        yield f"{code(output.name)} goes into {code('out=')} if that is passed{dense}"


def _memory(signature: Signature) -> Iterator[str]:
    dense = [item.name for item in signature.inputs if item.contiguous]
    if dense:
        yield f"{_listed(dense)} must be contiguous"
    host = [item.name for item in signature.inputs if item.on_cpu]
    if host:
        yield f"{_listed(host)} {_are(host)} on the CPU"


def _metadata(signature: Signature) -> Iterator[str]:
    described = [i for i in signature.inputs if i.values is not None or i.requires]
    for number, item in enumerate(described):
        if number == 0:
            yield "- **Metadata**:"
        yield f"  - {code(item.name)} {'; '.join(_values(item))}"


def _values(item: Input) -> Iterator[str]:
    if item.requires:
        yield f"meets {' and '.join(code(requirement.text) for requirement in item.requires)}"
    if item.values is not None:
        yield f"{'in workloads it ' if item.requires else ''}is {code(text_of(item.values))}" + (
            "" if item.requires else " in workloads"
        )


def _by_condition(
    conditions: Iterable[tuple[bool | Expr | None, str]],
) -> Iterator[tuple[str, list[str]]]:
    """The names that each condition holds for, in the order of the entry."""
    found: dict[str, list[str]] = {}
    for condition, name in conditions:
        if isinstance(condition, Expr):
            found.setdefault(text_of(condition), []).append(name)
    yield from found.items()


def _listed(names: list[str]) -> str:
    *others, last = map(code, names)
    return f"{', '.join(others)} and {last}" if others else last


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
