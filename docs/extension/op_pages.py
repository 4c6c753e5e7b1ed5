"""Pages of the site that the manifest and the registry make: one per op, and their index.

They are written below `ops/` before Sphinx looks for pages, and are no part of the repository.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from tileops_core.backend.registry import REGISTRY
from tileops_core.cli.survey import Survey
from tileops_core.kernels import CallSpec
from tileops_core.pages.manifest import Entry, Manifest, read_manifest
from tileops_core.pages.markdown import block, code, escaped, table
from tileops_core.pages.prose import first_sentence
from tileops_core.pages.section import op_section
from tileops_core.signature.branches import Branches
from tileops_core.signature.model import REQUIRED, Signature
from tileops_core.signature.notation import as_python, remarks
from tileops_core.spec.reader import SPEC_ONLY

FOLDER = "ops"
INDEX = "index.md"

_FOR_KERNELS = (
    "The kernel interface {}, in {}. A [kernel type](../tutorials/add-a-kernel.md) inherits it and "
    "is asked with the call spec above it. Unless it says otherwise, tensors are contiguous and on "
    "the call's device, no input is written, and the result is new."
)
_ABOUT = (
    "A page for each op, made from its entry while this site is built. "
    "[How to read an entry](../contract/README.md#reading-an-entry) explains the notation; "
    "[the contract](../contract/README.md) has the same entries by family, and what their "
    "functions mean."
)
_BUILDS = (
    "What a [builder](../tutorials/write-a-backend.md) of this op is called with, and how what it "
    "returns is called:"
)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / FOLDER))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write(folder: Path) -> None:
    """Write every page; one that says the same stays as it is, one that is no page any more goes.

    Args:
        folder: Where to.
    """
    made = pages()
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The text of every page by the name of its file."""
    manifest = read_manifest(Path(str(files("tileops_manifest"))) / "spec")
    seen = Survey()
    entries = [entry for family in manifest.families for entry in family.entries]
    found = {f"{entry.op}.md": _text(op_page(entry, manifest, seen)) for entry in entries}
    return {INDEX: _text(_index(manifest)), **found}


def _text(lines: Iterator[str]) -> str:
    return "\n".join([*lines, ""])


def _index(manifest: Manifest) -> Iterator[str]:
    yield from (
        "# Ops",
        "",
        _ABOUT,
    )
    for family in manifest.families:
        yield from ("", f"## {family.name}", "")
        rows = (
            [f"[{e.op}]({e.op}.md)", escaped(first_sentence(e.mathematics)), e.signature.status]
            for e in family.entries
        )
        yield from table(["op", "in short", "status"], rows)


def op_page(entry: Entry, manifest: Manifest, seen: Survey) -> Iterator[str]:
    """All that there is to say of an op.

    Args:
        entry: The op's entry.
        manifest: All entries, to link to.
        seen: Who is installed.
    """
    homes = manifest.homes
    first, *contract = op_section(entry, lambda op: f"{op}.md" if op in homes else None)
    signature = entry.signature
    yield from (first.removeprefix("##"), *contract)
    yield from ("", "## In Python", "")
    yield from ("```python", *_import(signature), *as_python(signature).splitlines(), "```", "")
    yield from _parameters(signature)
    yield from _tensors(signature)
    yield from _branches(signature)
    yield from _served(signature, seen)
    yield from _builder(signature)
    yield from _interfaces(signature)


def _import(signature: Signature) -> Iterator[str]:
    if signature.status != SPEC_ONLY:
        yield from (f"from tileops_core.ops.{signature.family} import {signature.op}", "")


def _parameters(signature: Signature) -> Iterator[str]:
    if signature.params:
        rows = (
            [
                code(param.name),
                code(param.help),
                "required" if param.default is REQUIRED else code(_shown(param.default)),
                "by name only" if param.kw_only else "",
            ]
            for param in signature.params
        )
        yield from ("## Parameters", "", *_table(["name", "type", "default", ""], rows), "")


def _table(columns: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A table without its last column, which has remarks, if there are none."""
    cells = list(rows)
    if not any(row[-1] for row in cells):
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    return table(columns, cells)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float | tuple | None) else str(value)


def _tensors(signature: Signature) -> Iterator[str]:
    for title, tensors in (("Inputs", signature.inputs), ("Outputs", signature.outputs)):
        if tensors:
            rows = (
                [code(t.name), code(t.dtype_text), code(t.shape_text), escaped(said(t))]
                for t in tensors
            )
            yield from (f"## {title}", "", *_table(["name", "dtype", "shape", ""], rows), "")


def said(tensor: Any) -> str:
    """What holds of a tensor besides its type."""
    return ", ".join(remarks(tensor))


def _branches(signature: Signature) -> Iterator[str]:
    """What calls of the op differ by, of which the conformance suite tries every value."""
    values = Branches(signature).values
    if values:
        rows = ([code(str(n)), ", ".join(code(_shown(v)) for v in vs)] for n, vs in values.items())
        yield from ("## Branches", "", *table(["decided by", "values"], rows), "")


def _served(signature: Signature, seen: Survey) -> Iterator[str]:
    yield from ("## Who serves it", "")
    rows = [
        [
            code(candidate.key),
            code(candidate.backend or "the op's own"),
            "any"
            if candidate.kernel_type.devices is None
            else ", ".join(map(code, sorted(candidate.kernel_type.devices))),
            "general: serves what no other does" if candidate.kernel_type.general else "",
        ]
        for candidate in seen.kernel_types(signature.op)
    ]
    if signature.composition is not None:
        yield "The ops that it is made of, each by whoever serves it."
    elif rows:
        yield "Of the distributions of this repository:"
        yield from ("", *_table(["kernel type", "backend", "devices", ""], rows))
    elif signature.status == SPEC_ONLY:
        yield "Nobody yet: this is a contract, and no class takes it."
    else:
        yield "Nobody of this repository."
    yield ""


def _builder(signature: Signature) -> Iterator[str]:
    """How a target builds the op, as Python."""
    inputs = [
        f"{item.name}: TensorSpec{'' if item.optional is False else ' | None'}"
        for item in signature.inputs
    ]
    named = [param.name for param in signature.params]
    build = ", ".join([*inputs, *(["*", *named] if named else [])])
    held = [f"{t.name}={t.name}" for t in signature.construction_tensors]
    call = [item.name for item in signature.inputs if not item.kw_only]
    call += [f"{item.name}={item.name}" for item in signature.inputs if item.kw_only] + held
    call += ["[out=out]"] if signature.out_buffer is not None else []
    outputs = ", ".join(output.name for output in signature.outputs) or "None"
    yield from (
        "## For a target",
        "",
        _BUILDS,
        "",
        *block(f"build_kernel({build}) -> kernel\nkernel({', '.join(call)}) -> {outputs}"),
        "",
    )


def _interfaces(signature: Signature) -> Iterator[str]:
    """The call specs and kernel interfaces, which kernel types implement."""
    for name, registered in REGISTRY.interfaces(signature.op).items():
        interface = registered.resolve()
        request: type[CallSpec] = interface.request
        yield from (
            "## For a kernel type",
            "",
            _FOR_KERNELS.format(code(name), code(interface.__module__)),
            "",
            "```python",
            *inspect.getsource(request).splitlines(),
            "",
            "",
            *inspect.getsource(interface).splitlines(),
            "```",
            "",
        )
