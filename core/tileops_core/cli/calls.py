"""The call that a command is about: a case of the entry's, or one that its options describe."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click
import torch

from tileops_core.backend.registry import REGISTRY
from tileops_core.backend.targets import BUILTIN, Builtin
from tileops_core.cli.group import one_of
from tileops_core.cli.survey import Survey
from tileops_core.op import Op
from tileops_core.op.definition import living_classes
from tileops_core.plan.cases import call_of
from tileops_core.record.metadata import Metadata
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.signature.model import Signature
from tileops_core.signature.workload import WorkloadCase, cases
from tileops_core.tensor_spec import TensorSpec

_TENSOR = re.compile(r"(?:(\w+)=)?(\w+)\[([\d,\s]*)\]")


@attrs.frozen
class Call:
    """An op, and what one call of it gets.

    Attributes:
        op: an instance.
        specs: a spec per input in order, None for an absent one.
        label: the case's id, or what was asked for.
        case: the case, if it is one.
    """

    op: Op
    specs: tuple[TensorSpec | None, ...]
    label: str
    case: WorkloadCase | None

    @property
    def record(self) -> SignatureCall:
        """What the call would leave, with the metadata that the case's row makes."""
        plan, statics = self.op._plan, self.op._construction.statics
        metadata: Metadata | None = self.case.metadata() if self.case is not None else None
        return SignatureCall(plan, statics, self.specs, False, Served(None), metadata=metadata)


def find_class(seen: Survey, op: str) -> type[Op] | None:
    """The class of an op, None where it has none here."""
    return seen.op_class(op) or living_classes().get(op)


def class_of(seen: Survey, op: str) -> type[Op]:
    """The class of an op.

    Raises:
        click.UsageError: it has none here.
    """
    cls = find_class(seen, op)
    if cls is None:
        raise click.UsageError(
            f"{op} has an entry and no class here, so it cannot be called; `tileops show {op}` "
            "shows what it is to be",
            click.get_current_context(),
        )
    return cls


def case_of(signature: Signature, case_id: str) -> WorkloadCase:
    """A case of an entry.

    Raises:
        click.UsageError: there is none of this id.
    """
    found = {case.case_id: case for case in cases(signature, requires=False)}
    one_of("case", case_id, list(found))
    return found[case_id]


def target_named(name: str | None) -> str | Builtin | None:
    """A target as an op takes it; ``builtin`` stands for in-tree dispatch.

    Raises:
        click.UsageError: nobody registered it.
    """
    if name is None:
        return None
    if name.casefold() == "builtin":
        return BUILTIN
    one_of("target", name, list(REGISTRY.target_names()))
    return name


def call_of_case(
    seen: Survey,
    op: str,
    case: WorkloadCase,
    target: str | None,
    device: str,
    given: Mapping[str, Any] | None = None,
) -> Call:
    """The call of a case.

    Args:
        seen: what is installed.
        op: the op.
        case: one of its cases.
        target: what the op's ``target=`` is to be.
        device: where the tensors are.
        given: the parameters of an op that is to run: those that are tensors have data there, and
            none else.
    """
    cls = class_of(seen, op)
    statics, specs = call_of(cls._plan, case, device)
    names = [param.name for param in cls._plan.signature.params]
    params = dict(zip(names, statics, strict=False)) | dict(given or {})
    return Call(cls(**params, target=target_named(target)), specs, case.case_id, case)


def call_of_options(
    seen: Survey,
    op: str,
    shapes: Sequence[str],
    params: Sequence[str],
    target: str | None,
    device: str,
) -> Call:
    """The call that ``--shape`` and ``--param`` describe.

    Args:
        seen: what is installed.
        op: the op.
        shapes: ``NAME=DTYPE[LENGTH,...]`` each; without names, in the order of the inputs.
        params: ``NAME=VALUE`` each.
        target: what the op's ``target=`` is to be.
        device: where the tensors are.

    Raises:
        click.UsageError: an option that cannot be read, or names nothing.
    """
    cls = class_of(seen, op)
    signature = cls._plan.signature
    given = _tensors(signature, shapes, device)
    values = _values(signature, params)
    try:
        made = cls(**values, target=target_named(target))
    except TypeError as error:  # a parameter that is missing
        raise click.UsageError(f"cannot construct: {error}; give --param NAME=VALUE") from None
    specs = tuple(given.get(item.name) for item in signature.inputs)
    label = ", ".join([*shapes, *params])
    return Call(made, specs, label, None)


def _tensors(signature: Signature, texts: Sequence[str], device: str) -> Mapping[str, TensorSpec]:
    inputs = {item.name: item for item in signature.inputs}
    found: dict[str, TensorSpec] = {}
    for number, text in enumerate(texts):
        match = _TENSOR.fullmatch(text.strip())
        if match is None:
            raise click.UsageError(
                f"--shape {text!r} is not of the form NAME=DTYPE[LENGTH,...], for example "
                "x=float16[8,4096]"
            )
        name = match[1] or (list(inputs)[number] if number < len(inputs) else "")
        one_of("input", name, list(inputs))
        lengths = tuple(int(part) for part in match[3].split(",") if part.strip())
        dtype = getattr(torch, match[2], None)
        if not isinstance(dtype, torch.dtype):
            raise click.UsageError(f"--shape {text!r}: {match[2]!r} is no dtype")
        place = "cpu" if inputs[name].on_cpu else device
        found[name] = TensorSpec(place, dtype, lengths)
    return found


def _values(signature: Signature, texts: Sequence[str]) -> dict[str, Any]:
    names = [param.name for param in signature.params]
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--param {text!r} is not of the form NAME=VALUE")
        one_of("parameter", name, names)
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value  # a word, as an enum's or a dtype's name
    return found


def device_named(name: str) -> torch.device:
    """A device by its name.

    Raises:
        click.UsageError: torch knows no such device.
    """
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise click.UsageError(
            f"there is no device {name!r}: {str(error).splitlines()[0]}"
        ) from None
