"""Write what type checkers and lazy imports need: ``python -m tileops_core.ops._generate``.

From the manifest follow ``_index.py`` (which op is in which family's module, so that importing
this package parses no manifest), ``_operators.json`` (the schemas of the custom operators that
stand for the ops in traced graphs), ``__init__.pyi``, and one stub per family with each op's
constructor and call. The class docstrings come from the modules' text; no op is imported.
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tileops_core.signature.build import build_signature
from tileops_core.signature.kinds import (
    AdtKind,
    AxesKind,
    BoolKind,
    DeviceKind,
    DTypeKind,
    EnumKind,
    IntKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    OpaqueKind,
    ScalarKind,
    ShapeKind,
    WordOrKind,
)
from tileops_core.signature.model import REQUIRED, Input, Param, Signature
from tileops_core.signature.operators import NAMESPACE, is_random, operators
from tileops_core.spec.catalogue import known_ops, load_spec, status_of
from tileops_core.spec.entries import AdtValue

_HEADER = "Generated from the manifest by tileops_core.ops._generate; do not edit."
_USES_TORCH = re.compile(r"(: |-> |\| )torch\.")
_WIDTH = 100


def generated() -> dict[str, str]:
    """The generated files of this package: name -> text.

    Raises:
        ManifestError: An entry of an implemented op is wrong.
    """
    families: dict[str, list[Signature]] = {}
    for op in sorted(op for op in known_ops() if status_of(op) == "implemented"):
        signature = build_signature(load_spec(op))
        families.setdefault(signature.family, []).append(signature)
    files = {
        "_index.py": _index(families),
        "_operators.json": _operators(families),
        "__init__.pyi": _package_stub(families),
    }
    for family, signatures in sorted(families.items()):
        files[f"{family}.pyi"] = _family_stub(family, signatures)
    return files


def _index(families: dict[str, list[Signature]]) -> str:
    rows = sorted((s.op, family) for family, signatures in families.items() for s in signatures)
    return "\n".join(
        [
            f'"""{_HEADER}"""',
            "",
            "from __future__ import annotations",
            "",
            "FAMILIES = (",
            *(f'    "{family}",' for family in sorted(families)),
            ")",
            "",
            "OPS = {",
            *(f'    "{op}": "{family}",' for op, family in rows),
            "}",
            "",
        ]
    )


def _operators(families: dict[str, list[Signature]]) -> str:
    signatures = sorted((s for found in families.values() for s in found), key=lambda s: s.op)
    schemas = {s.op: [operator.schema for operator in operators(s)] for s in signatures}
    random = [s.op for s in signatures if is_random(s)]
    data = {"namespace": NAMESPACE, "random": random, "schemas": schemas}
    return json.dumps(data, indent=1) + "\n"


def _package_stub(families: dict[str, list[Signature]]) -> str:
    lines = [f"# {_HEADER}", ""]
    for family in sorted(families):
        lines.append(f"from tileops_core.ops import {family} as {family}")
    for family, signatures in sorted(families.items()):
        lines += [f"from tileops_core.ops.{family} import {s.op} as {s.op}" for s in signatures]
    return "\n".join([*lines, ""])


def _family_stub(family: str, signatures: list[Signature]) -> str:
    written = _written(family)
    blocks = [_class(signature, written) for signature in signatures]
    body = "\n\n".join(blocks)
    standard = [
        line
        for mark, line in (
            ("Sequence[", "from collections.abc import Sequence"),
            ("Literal[", "from typing import Literal"),
        )
        if mark in body
    ]
    imports = [*standard, ""] if standard else []
    imports += ["import torch"] if _USES_TORCH.search(body) else []
    imports += [
        "from torch import Tensor",
        "",
        "from tileops_core.backend.targets import Builtin",
        *sorted([*_class_imports(signatures), *written.imports]),
        "from tileops_core.op import Op",
    ]
    names = ", ".join(f'"{s.op}"' for s in signatures)
    exported = f"__all__ = [{names}]"
    if len(exported) > _WIDTH:
        exported = "\n".join(["__all__ = [", *(f'    "{s.op}",' for s in signatures), "]"])
    return "\n".join([f"# {_HEADER}", "", *imports, "", exported, "", body, ""])


def _class_imports(signatures: list[Signature]) -> list[str]:
    """The imports of the classes that parameters of the types that entries share have."""
    names: dict[str, set[str]] = {}
    for kind in (kind for signature in signatures for kind in signature.adts):
        forms = kind.constructors if isinstance(kind, AdtKind) else (kind,)
        for module, _, name in (form.python.rpartition(".") for form in forms):
            names.setdefault(module, set()).add(name)
    return [f"from {m} import {', '.join(sorted(found))}" for m, found in sorted(names.items())]


class _Written(NamedTuple):
    """What a family's module says of its classes.

    ``docstrings`` by class. ``injected``: by class, names and annotations of what a constructor
    takes besides the entry's parameters. ``imports``: of the classes in these annotations.
    """

    docstrings: dict[str, str]
    injected: dict[str, list[tuple[str, str]]]
    imports: list[str]


def _written(family: str) -> _Written:
    """Read a family's module without importing it."""
    path = Path(__file__).with_name(f"{family}.py")
    if not path.exists():
        return _Written({}, {}, [])
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    injected = {node.name: list(_injected(node)) for node in classes}
    words = {
        word
        for found in injected.values()
        for _, annotation in found
        for word in re.findall(r"\w+", annotation)
    }
    imports = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if alias.name in words]
            imports += [f"from {node.module} import {', '.join(names)}"] if names else []
    return _Written({c.name: ast.get_docstring(c) or "" for c in classes}, injected, imports)


def _injected(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The names in ``injected_parameters``, with their annotations in ``__init__``."""
    names: tuple[str, ...] = ()
    for item in node.body:
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "injected_parameters":
            names = ast.literal_eval(item.value)
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            given = {argument.arg: argument.annotation for argument in item.args.kwonlyargs}
            for name in names:
                annotation = given.get(name)
                yield name, "object" if annotation is None else ast.unparse(annotation)


def _class(signature: Signature, written: _Written) -> str:
    injected = written.injected.get(signature.op, [])
    lines = [f"class {signature.op}(Op):"]
    lines += _docstring(written.docstrings.get(signature.op, "").splitlines())
    lines.append("")
    for param in signature.params:
        kept = param.annotation if param.tensor else _kept(param.kind)
        lines += ["@property", f"def {param.name}(self) -> {kept}: ..."]
    for name, annotation in injected:
        lines += ["@property", f"def {name}(self) -> {annotation}: ..."]
    arguments = [*_init_arguments(signature.params), *(f"{n}: {a} = None" for n, a in injected)]
    lines += _function("__init__", arguments, "None", _init_text(signature, injected))
    lines += _function("__call__", _call_arguments(signature), _result(signature), _text(signature))
    return "\n".join([lines[0], *(_indent(line) for line in lines[1:])])


def _function(name: str, arguments: Iterable[str], result: str, text: list[str]) -> list[str]:
    return [
        f"def {name}(",
        "    self,",
        *(f"    {argument}," for argument in arguments),
        f") -> {result}:",
        *(_indent(line) for line in _docstring(text)),
    ]


def _docstring(lines: list[str]) -> list[str]:
    if not lines:
        return ["..."]
    if len(lines) == 1:
        return [f'"""{lines[0]}"""']
    return [f'"""{lines[0]}', *lines[1:], '"""']


def _indent(line: str) -> str:
    return f"    {line}" if line else ""


# -- the constructor ----------------------------------------------------------------------


def _init_arguments(params: tuple[Param, ...]) -> Iterator[str]:
    yield from (_argument(p) for p in params if not p.kw_only)
    yield "*"
    yield from (_argument(p) for p in params if p.kw_only)
    yield "target: str | Builtin | None = None"


def _argument(param: Param) -> str:
    text = f"{param.name}: {param.annotation if param.tensor else _taken(param.kind)}"
    return text if param.default is REQUIRED else f"{text} = {_default(param)}"


def _default(param: Param) -> str:
    """A default as Python: text in the quotes that formatters prefer."""
    if isinstance(param.default, str):
        return _plain(param.default)
    if isinstance(param.default, list):
        return repr(tuple(param.default))
    if isinstance(param.default, float) and math.isinf(param.default):
        return f'float("{param.default}")'
    if isinstance(param.default, AdtValue):
        kind = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
        assert isinstance(kind, AdtKind)
        form = next(f for f in kind.constructors if f.name == param.default.kind)
        given = ", ".join(f"{name}={_plain(value)}" for name, value in param.default.fields)
        return f"{_class_name(form.python)}({given})"
    return repr(param.default)


def _plain(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _taken(kind: Kind) -> str:
    """The annotation of what a constructor takes for a parameter."""
    match kind:
        case MaybeKind(of=inner):
            return f"{_taken(inner)} | None"
        case ShapeKind():
            return "int | Sequence[int]"
        case AxesKind(optional=optional):
            return "int | Sequence[int]" + (" | None" if optional else "")
        case IntTupleKind(holes=holes):
            return f"int | Sequence[int{' | None' if holes else ''}]"
        case WordOrKind(words=words, of=inner):
            return f"{_taken(inner)} | {_taken(EnumKind(words))}"
        case DTypeKind():
            return "torch.dtype | str"
        case DeviceKind():
            return "torch.device | str | None"
    return _kept(kind)


def _kept(kind: Kind) -> str:
    """The annotation of what an op keeps of a parameter."""
    match kind:
        case MaybeKind(of=inner):
            return f"{_kept(inner)} | None"
        case BoolKind():
            return "bool"
        case IntKind():
            return "int"
        case EnumKind(words=words):
            return f"Literal[{', '.join(_quoted(word) for word in words)}]"
        case DTypeKind():
            return "torch.dtype"
        case ShapeKind():
            return "tuple[int, ...]"
        case AxesKind(optional=optional):
            return "int | tuple[int, ...]" + (" | None" if optional else "")
        case IntTupleKind(length=length, holes=holes):
            return f"tuple[{', '.join(['int | None' if holes else 'int'] * length)}]"
        case WordOrKind(words=words, of=inner):
            return f"{_kept(inner)} | {_kept(EnumKind(words))}"
        case AdtKind(constructors=forms):
            return " | ".join(_class_name(form.python) for form in forms)
        case OpaqueKind(python=python):
            return _class_name(python)
        case DeviceKind():
            return "torch.device | None"
        case ScalarKind(types=types):
            return " | ".join(types)
    raise TypeError(f"no annotation is known for a parameter of kind {kind}")


def _class_name(path: str) -> str:
    return path.rpartition(".")[2]


def _quoted(word: Any) -> str:
    return f'"{word}"'


def _init_text(signature: Signature, injected: list[tuple[str, str]]) -> list[str]:
    arguments = [f"{p.name}: {p.help}." for p in signature.params]
    arguments.append("target: who computes: a target's or backend's name, BUILTIN, or None.")
    arguments += [f"{name}: an object of the caller's; see the class." for name, _ in injected]
    return ["Construct once, call many times.", "", *_section("Args:", arguments)]


# -- the call -----------------------------------------------------------------------------


def _call_arguments(signature: Signature) -> Iterator[str]:
    yield from (_tensor(t) for t in signature.inputs if not t.kw_only)
    named = [_tensor(t) for t in signature.inputs if t.kw_only]
    if named:
        yield "*"
        yield from named
    if signature.out_buffer is not None:
        yield "out: Tensor | None = None"


def _tensor(tensor: Input) -> str:
    if tensor.optional is False:
        return f"{tensor.name}: Tensor"
    return f"{tensor.name}: Tensor | None = None"


def _result(signature: Signature) -> str:
    if not signature.outputs:
        return "None"
    types = ["Tensor" if o.nullable is None else "Tensor | None" for o in signature.outputs]
    return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"


def _text(signature: Signature) -> list[str]:
    arguments = []
    for tensor in signature.inputs:
        notes = [f"{tensor.dtype_text} {tensor.shape_text}"]
        notes += ["optional"] if tensor.optional is not False else []
        notes += ["may be written"] if tensor.mutated is not False else []
        arguments.append(f"{tensor.name}: {', '.join(notes)}.")
    if signature.out_buffer is not None:
        arguments.append(
            f"out: what {signature.out_buffer.name} is written to, if not to new memory."
        )
    results = [f"{o.name}: {o.dtype_text} {o.shape_text}." for o in signature.outputs]
    lines = ["Run the op.", ""]
    for index in signature.indices:
        if isinstance(index.kind, DTypeKind) and index.kind.members:
            lines += [f"{index.name} is {' | '.join(index.kind.members)}.", ""]
    if arguments:
        lines += [*_section("Args:", arguments), ""]
    return [*lines, *_section("Returns:", results)] if results else lines[:-1]


def _section(title: str, lines: list[str]) -> list[str]:
    """A part of a docstring; lines break where two levels of indentation leave room."""
    wrapped = [
        textwrap.wrap(line, _WIDTH - 12, subsequent_indent="    ", break_long_words=False)
        for line in lines
    ]
    return [title, *(f"    {line}" for lines in wrapped for line in lines)]


def main() -> None:
    """Write the files next to this module."""
    for name, text in generated().items():
        path = Path(__file__).with_name(name)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
