"""Whether the class of an implemented op is what its entry says."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from tileops_core.op import Op
from tileops_core.op.parameters import default_of
from tileops_core.signature.kinds import AdtKind, OpaqueKind
from tileops_core.signature.model import REQUIRED, Param, Signature
from tileops_core.signature.operators import has_boundary
from tileops_core.signature.problems import Problems
from tileops_core.suggest import listed
from tileops_core.validate.entry_checks import Checked
from tileops_core.validate.plan_checks import check_plan
from tileops_core.validate.report import Counts

_EMPTY = inspect.Parameter.empty


def check_code(
    checked: Checked, *, own: bool, op_class: Any = None, installed: bool, counts: Counts
) -> Problems:
    """Check the code behind an entry.

    Args:
        checked: The entry after its static checks; nothing is said of one that cannot be built.
        own: Whether it is the library's own, whose class a module of ``ops`` exports.
        op_class: The class of one that is not, None where there is none.
        installed: Whether it came with a distribution, whose code may be run.
        counts: Classes looked at are added here.
    """
    problems = Problems()
    signature = checked.signature
    if signature is None or any(problem.code == "unsolved" for problem in checked.problems):
        return problems
    rows_stand = not any(problem.code == "row" for problem in checked.problems)
    rows = checked.rows if rows_stand else ()
    check_plan(signature, problems, rows=rows, installed=installed)
    _check_ref_api(signature, problems)
    _check_shared_types(signature, problems, installed=installed)
    if signature.status != "implemented":
        return problems
    cls = _exported(signature, problems) if own else op_class
    if isinstance(cls, type) and issubclass(cls, Op):
        counts.classes += 1
        _ClassChecker(cls, signature, problems).check()
    return problems


def _exported(signature: Signature, problems: Problems) -> Any:
    """The op's class, from its family's module."""
    name = f"tileops_core.ops.{signature.family}"
    remedy = f"write the class {signature.op}, or say status: spec-only"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        problems.add("code-class", f"there is no module {name}: {error}", signature.span, remedy)
        return None
    cls = getattr(module, signature.op, None)
    if not (isinstance(cls, type) and issubclass(cls, Op)):
        problems.add("code-class", f"{name} has no op {signature.op}", signature.span, remedy)
        return None
    if signature.op not in getattr(module, "__all__", ()):
        problems.add(
            "code-class", f"{name} does not export {signature.op}", signature.span,
            f'add "{signature.op}" to its __all__',
        )  # fmt: skip
    return cls


def _check_ref_api(signature: Signature, problems: Problems) -> None:
    """The reference must exist, if what holds it is imported already.

    Nothing is imported for it: an entry names a function, it does not get to run code.
    """
    parts = (signature.ref_api or "").split(".")
    found: Any = sys.modules.get(parts[0])
    if found is None:
        return
    for number, part in enumerate(parts[1:], start=1):
        if not hasattr(found, part) and ".".join(parts[: number + 1]) in sys.modules:
            found = sys.modules[".".join(parts[: number + 1])]
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            problems.add(
                "ref-api", f"{'.'.join(parts[:number])} has no {part!r}", signature.span,
                "name a public function, or leave ref_api out",
            )  # fmt: skip
            return


def _check_shared_types(signature: Signature, problems: Problems, *, installed: bool) -> None:
    """The classes of sealed sums' forms are there and have the forms' fields."""
    for kind in signature.adts if installed else ():
        forms = kind.constructors if isinstance(kind, AdtKind) else ()
        fields = {form.python: [name for name, _ in form.fields] for form in forms}
        for path in [kind.python] if isinstance(kind, OpaqueKind) else fields:
            module, _, name = path.rpartition(".")
            try:
                cls = getattr(importlib.import_module(module), name)
                has = list(inspect.signature(cls).parameters)
            except (ImportError, AttributeError, TypeError, ValueError) as error:
                message = f"{kind.name}: there is no class {path}: {error}"
                problems.add("code-class", message, signature.span)
                continue
            if path in fields and has != fields[path]:
                problems.add(
                    "code-class",
                    f"{kind.name}: {path} takes {listed_in_order(has)}, its form has "
                    f"{listed_in_order(fields[path])}",
                    signature.span,
                )


class _ClassChecker:
    def __init__(self, cls: type[Op], signature: Signature, problems: Problems) -> None:
        self.cls = cls
        self.signature = signature
        self.problems = problems

    def check(self) -> None:
        """Check constructor, body, parts and operators."""
        self._init()
        self._body()
        self._composition()
        self._operators()

    def _note(self, code: str, message: str, hint: str = "") -> None:
        self.problems.add(code, f"{self.cls.__name__}.{message}", self.signature.span, hint)

    # -- the constructor ------------------------------------------------------------------

    def _init(self) -> None:
        parameters = list(inspect.signature(self.cls.__init__).parameters.values())[1:]
        injected = tuple(self.cls.injected_parameters)
        given = [p for p in parameters if p.name != "target" and p.name not in injected]
        due = [*(p for p in self.signature.params if not p.kw_only),
               *(p for p in self.signature.params if p.kw_only)]  # fmt: skip
        if [p.name for p in given] != [p.name for p in due]:
            self._note(
                "code-init",
                f"__init__ takes {listed_in_order(p.name for p in given)}, "
                f"the entry has {listed_in_order(p.name for p in due)}",
                "leave __init__ out, and it is made from the entry",
            )
        else:
            for parameter, param in zip(given, due, strict=True):
                self._parameter(parameter, param)
        target = next((p for p in parameters if p.name == "target"), None)
        if target is None or target.kind is not target.KEYWORD_ONLY or target.default is not None:
            self._note("code-init", "__init__ has no keyword-only target=None")
        for name in injected:
            if all(p.name != name or p.kind is not p.KEYWORD_ONLY for p in parameters):
                self._note("code-init", f"__init__ has no keyword-only {name}, which it injects")

    def _parameter(self, parameter: inspect.Parameter, param: Param) -> None:
        by_name = parameter.kind is parameter.KEYWORD_ONLY
        if by_name != param.kw_only or parameter.kind is parameter.POSITIONAL_ONLY:
            way = "by name only" if param.kw_only else "by position or name"
            self._note("code-init", f"__init__ must take {param.name} {way}")
        due = _EMPTY if param.default is REQUIRED else default_of(param)
        if type(parameter.default) is not type(due) or parameter.default != due:
            self._note(
                "code-init",
                f"__init__ has {_default(parameter.default)} for {param.name}, the entry "
                f"{_default(due)}",
                "a default has one source, the entry",
            )

    # -- forward or call_spec -------------------------------------------------------------

    def _body(self) -> None:
        for name in ("forward", "call_spec"):
            owner = next((c for c in self.cls.__mro__ if name in c.__dict__), Op)
            if owner is not Op:
                function = inspect.unwrap(getattr(owner, name))
                given = list(inspect.signature(function).parameters.values())[1:]
                self._takes(name, given)
                return

    def _takes(self, name: str, given: list[inspect.Parameter]) -> None:
        positional = [i.name for i in self.signature.inputs if not i.kw_only]
        named = [i.name for i in self.signature.inputs if i.kw_only]
        if name == "forward" and self.signature.out_buffer is not None:
            positional.append("out")
        ordered = [p.name for p in given if p.kind is p.POSITIONAL_OR_KEYWORD]
        by_name = [p.name for p in given]
        if any(p.kind is p.VAR_POSITIONAL for p in given):
            return  # a family's shared body takes whatever its ops take
        if ordered[: len(positional)] != positional:
            self._note(
                "code-forward",
                f"{name} takes {listed_in_order(ordered)}, the entry's inputs are "
                f"{listed_in_order(positional)}",
                "begin with the inputs, in the entry's order and by its names",
            )
        for missing in [n for n in named if n not in by_name]:
            self._note("code-forward", f"{name} has no {missing}, which is taken by name")
        if name == "call_spec" and len(given) > len(positional) + len(named):
            self._note("code-forward", "call_spec takes more than the entry's inputs")

    # -- parts ----------------------------------------------------------------------------

    def _composition(self) -> None:
        stages = dict(_stages(self.signature))
        held = {n: t.__name__ for n, t in getattr(self.cls, "delegate_types", {}).items()}
        if list(stages.items()) != list(held.items()):
            self._note(
                "code-composition",
                f"delegate_types are {held or 'none'}, the entry's stages {stages or 'none'}",
                "state the same stages in the same order",
            )

    def _operators(self) -> None:
        if not hasattr(self.cls, "compile_op_names"):
            return
        due = has_boundary(self.signature)
        if bool(self.cls.compile_op_names) != due:
            self._note(
                "code-operators",
                f"compile_op_names are {listed(self.cls.compile_op_names)}, "
                f"{'some are' if due else 'none is'} due",
            )


def _stages(signature: Signature) -> Iterator[tuple[str, str]]:
    composition = signature.composition
    for stage in composition.stages if composition is not None else ():
        yield stage.name, stage.op


def _default(value: Any) -> str:
    return "no default" if value is _EMPTY else f"the default {value!r}"


def listed_in_order(names: Any) -> str:
    """Names joined for a sentence, in their own order."""
    return ", ".join(names) or "nothing"
