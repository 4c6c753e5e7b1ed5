"""The call that a command is about: a case of the entry's, or one that its options describe."""

from __future__ import annotations

import ast
import math
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
from tileops_core.errors import SignatureError
from tileops_core.op import Op
from tileops_core.op.definition import living_classes
from tileops_core.plan.cases import call_of
from tileops_core.record.metadata import Metadata
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.signature.model import Input, Signature
from tileops_core.signature.workload import WorkloadCase, cases
from tileops_core.tensor_spec import TensorSpec

_MOST_ELEMENTS = 2**60
"""More have no number of bytes that torch could count."""

_MOST_HELD = 2**28
"""A tensor given at construction has values, and so memory."""

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
        shapes: ``NAME=DTYPE[LENGTH,...]`` each; without names, in the order of the inputs. A
            tensor that the constructor takes is one of ones, and always named.
        params: ``NAME=VALUE`` each.
        target: what the op's ``target=`` is to be.
        device: where the tensors are.

    Raises:
        click.UsageError: an option that cannot be read, or names nothing.
    """
    cls = class_of(seen, op)
    signature = cls._plan.signature
    given = _tensors(signature, shapes, device)
    held = _held(signature, given)
    values = _values(signature, params)
    for name in held:
        if name in values:
            raise click.UsageError(f"{name} was given by --shape and by --param; give it once")
    try:
        made = cls(**values, **held, target=target_named(target))
    except TypeError as error:  # a parameter that is missing
        raise click.UsageError(f"cannot construct: {error}; give --param NAME=VALUE") from None
    specs = tuple(given.get(item.name) for item in signature.inputs)
    label = ", ".join([*shapes, *params])
    return Call(made, specs, label, None)


def check_nothing_missing(call: Call, refused: SignatureError) -> None:
    """Tell a tensor that no option gives from one that does not fit.

    Args:
        call: the call that was refused.
        refused: why.

    Raises:
        click.UsageError: tensors are missing; what to add.
    """
    pairs = list(zip(call.op._plan.signature.inputs, call.specs, strict=True))
    missing = [item for item, spec in pairs if spec is None and item.optional is False]
    # Whether the others are due depends on the call, and the refusal says it of the first.
    missing = missing or [i for i, spec in pairs if spec is None and i.name == refused.tensor]
    if missing:
        names = ", ".join(item.name for item in missing)
        options = " ".join(f"--shape {item.name}=DTYPE{_axes(item)}" for item in missing)
        raise click.UsageError(
            f"{call.op._plan.op} takes {names} in this call, and no option says so: add {options}, "
            "with numbers for the lengths",
            click.get_current_context(),
        )


def _axes(item: Input) -> str:
    """The lengths of a tensor as its entry writes them, where it writes them in one way."""
    return item.shape_text if len(item.shape) == 1 else "[LENGTH,...]"


def _tensors(signature: Signature, texts: Sequence[str], device: str) -> Mapping[str, TensorSpec]:
    inputs = {item.name: item for item in signature.inputs}
    known = inputs | {item.name: item for item in signature.construction_tensors}
    found: dict[str, TensorSpec] = {}
    for number, text in enumerate(texts):
        match = _TENSOR.fullmatch(text.strip())
        if match is None:
            raise click.UsageError(
                f"--shape {text!r} is not of the form NAME=DTYPE[LENGTH,...], for example "
                "x=float16[8,4096]"
            )
        if match[1] is None and number >= len(inputs):
            raise click.UsageError(
                f"--shape {text!r} is one too many: the op takes {', '.join(inputs) or 'none'}"
            )
        name = match[1] or list(inputs)[number]
        one_of("tensor", name, list(known))
        if name in found:
            raise click.UsageError(f"--shape {text!r}: {name} was given before; give each once")
        lengths = tuple(int(part) for part in match[3].split(",") if part.strip())
        if math.prod(lengths) > _MOST_ELEMENTS:
            raise click.UsageError(f"--shape {text!r}: no tensor has so many elements")
        dtype = getattr(torch, match[2], None)
        if not isinstance(dtype, torch.dtype):
            raise click.UsageError(f"--shape {text!r}: {match[2]!r} is no dtype")
        place = "cpu" if known[name].on_cpu else device
        found[name] = TensorSpec(place, dtype, lengths)
    return found


def _held(signature: Signature, given: Mapping[str, TensorSpec]) -> dict[str, torch.Tensor]:
    """The tensors that the constructor takes: of ones, on the CPU, as nothing runs."""
    found: dict[str, torch.Tensor] = {}
    for item in signature.construction_tensors:
        if item.name not in given:
            if item.optional is False:
                raise click.UsageError(
                    f"the constructor takes {item.name}, and no option says so: add "
                    f"--shape {item.name}=DTYPE{_axes(item)}, with numbers for the lengths"
                )
            continue
        spec = given[item.name]
        if math.prod(spec.shape) > _MOST_HELD:
            raise click.UsageError(
                f"--shape {item.name}: a tensor given at construction is made here, with at most "
                f"{_MOST_HELD} elements"
            )
        try:
            found[item.name] = torch.ones(spec.shape, dtype=spec.dtype)
        except RuntimeError as error:
            raise click.UsageError(
                f"--shape {item.name}: no ones of {spec.dtype}: {str(error).splitlines()[0]}"
            ) from None
    return found


def _values(signature: Signature, texts: Sequence[str]) -> dict[str, Any]:
    names = [param.name for param in signature.params]
    tensors = [item.name for item in signature.construction_tensors]
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--param {text!r} is not of the form NAME=VALUE")
        one_of("parameter", name, names)
        if name in found:
            raise click.UsageError(f"--param {text!r}: {name} was given before; give each once")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value  # a word, as an enum's or a dtype's name
        if name in tensors and found[name] is not None:
            raise click.UsageError(
                f"--param {text!r}: {name} is a tensor; give --shape {name}=DTYPE[LENGTH,...]"
            )
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
