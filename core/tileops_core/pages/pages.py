"""The pages: one per family, and the one that leads to them."""

from __future__ import annotations

from functools import partial

from tileops_core.pages import glossary
from tileops_core.pages.manifest import Entry, Family, Manifest
from tileops_core.pages.markdown import anchor, escaped, table
from tileops_core.pages.prose import first_sentence, paragraphs
from tileops_core.pages.section import op_section, shared_type_section
from tileops_core.spec.shared_types import FILE

INDEX = "README.md"
"""The name of the page that leads to the others."""


def pages(manifest: Manifest) -> dict[str, str]:
    """The text of every page by the name of its file."""
    found = {f"{family.name}.md": family_page(family, manifest) for family in manifest.families}
    return {INDEX: index_page(manifest), **found}


def family_page(family: Family, manifest: Manifest) -> str:
    """All ops of a family, and the types that they share."""
    link = partial(_link, manifest.homes, family.name)
    count = f"{len(family.entries)} ops, {_implemented(family.entries)} of them implemented."
    lines = [
        f"# {family.name}",
        "",
        f"{count} [How to read this page]({INDEX}#reading-an-entry).",
        "",
        *_contents(family, manifest, family.name),
    ]
    for file in family.files:
        lines += ["", f"## {file.name}", ""]
        introduction = paragraphs(file.introduction, link)
        lines += [*introduction, ""] if introduction else []
        for number, entry in enumerate(file.entries):
            lines += ([""] if number else []) + list(op_section(entry, link))
    names = sorted({adt.name for entry in family.entries for adt in entry.signature.adts})
    lines += ["", f"## {FILE}"] if names else []
    for name in names:
        shared = manifest.types.get(name)
        if shared is not None:
            lines += ["", *shared_type_section(shared, manifest.types_comments, link)]
    return _text(lines)


def index_page(manifest: Manifest) -> str:
    """Every family and every op in a line, and how to read an entry."""
    families = manifest.families
    entries = tuple(entry for family in families for entry in family.entries)
    counts = [
        [f"[{f.name}]({f.name}.md)", str(len(f.entries)), str(_implemented(f.entries))]
        for f in families
    ]
    lines = [
        "# The contract",
        "",
        f"What {len(entries)} ops take, return, write and cost: the entries of the manifest, for",
        f"reading; {_implemented(entries)} of them are implemented.",
        "",
        *table(["family", "ops", "implemented"], counts, numbers=2),
        "",
        *_READING.strip().splitlines(),
        "",
        "### Functions of expressions",
        "",
        *glossary.primitives(),
        "",
        "### What metadata must meet",
        "",
        *glossary.predicates(),
        "",
        "### How workloads make metadata",
        "",
        *glossary.generators(),
        "",
        "## Ops",
    ]
    for family in families:
        lines += ["", f"### {family.name}", "", *_contents(family, manifest, None)]
    return _text(lines)


def _contents(family: Family, manifest: Manifest, home: str | None) -> list[str]:
    link = partial(_link, manifest.homes, home)
    rows = ([f"[{e.op}]({link(e.op)})", _summary(e), e.signature.status] for e in family.entries)
    return table(["op", "in short", "status"], rows)


def _summary(entry: Entry) -> str:
    return escaped(first_sentence(entry.mathematics))


def _link(homes: dict[str, str], home: str | None, op: str) -> str | None:
    """Where an op's section is, as seen from a family's page, or from the index."""
    family = homes.get(op)
    if family is None:
        return None
    return f"{'' if family == home else f'{family}.md'}#{anchor(op)}"


def _implemented(entries: tuple[Entry, ...]) -> int:
    return sum(entry.signature.status == "implemented" for entry in entries)


def _text(lines: list[str]) -> str:
    return "\n".join([*lines, ""])


_READING = """
These pages are made from the entries by `python -m tileops_core.pages`; `tileops show OP` prints an
entry with who serves it on this machine, and [the language](../language.md) lists what an entry may
say.

## Reading an entry

Under an op's name stand its status and the function whose results it has. `implemented` means that
there is a class to construct, and a backend of this repository that serves it; of a `spec-only` op
there is the entry. Then come the mathematics, in the author's words, and the type of the op:

```text
GEMMFwdOp : ∀ M, N, K: Dim; T ∈ {float16, bfloat16, float32}.
  (trans_a: bool = False, trans_b: bool = True)
  → (a: Tensor[T, Mat[trans_a, M, K]], b: Tensor[T, Mat[trans_b, K, N]])
  → d: Tensor[T, [M, N]]
  where    Mat[transposed, R, C] = [R, C] if not transposed
                                   [C, R] if transposed
```

- Behind `∀` stand the indices, which a call settles by its tensors. A `Dim` is the length of an
  axis, a `Shape` a list of lengths (`*S` among axes); behind `∈` stand the dtypes that are taken.
- In the first brackets is what the op is constructed with, in the second what a call takes, in the
  last what it returns. An op that is constructed with nothing lacks the first. Behind a `*` all is
  passed by name. What is `| None` may be left out, or is not returned; **Presence** says when.
- `with` names quantities. `where` has the shapes that a type family stands for. What does not meet
  all of `requires` is refused. `stages` are the ops that a composite op is made of. `rows` are
  values that workloads give and calls do not.
- `x.value` is the value of a parameter that may be None, where it is not.
- Without **Effects** an op writes into new memory only.
- **Metadata** are tensors that describe others: offsets, page tables, routes. A call's are read and
  compared with what they must meet under `checks(metadata=True)`; else the caller promises it.
- **Cost** is the least work that the algorithm can do. A sum, a product, a comparison that selects
  and a transcendental function count 1 for each element, a product of matrices 2 · M · N · K. Where
  no `bytes` are stated, every input is read once and every output written once; what is overwritten
  counts twice.
- A workload is a call, named by the model that has its shapes (or `synthetic`), the scenario and
  the dtypes. k, M, G and T stand for powers of 1000, and ″ for what stands above.
"""
