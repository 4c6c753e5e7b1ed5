"""Take constructor parameters by value, once, in the one form the rest relies on."""

from __future__ import annotations

import importlib
import numbers
import operator
from functools import cache
from typing import Any, NoReturn

import torch

from tileops_core.errors import SignatureError
from tileops_core.plan.forms import check_form
from tileops_core.plan.sites import dtype_text, value_text
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.kinds import (
    AdtKind,
    AxesKind,
    BoolKind,
    DeviceKind,
    DimKind,
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
from tileops_core.signature.model import Param
from tileops_core.spec.entries import AdtValue
from tileops_core.suggest import did_you_mean


class _Refused(Exception):
    """The value is not of the kind; the argument says what is due."""


def normalize(op: str, param: Param, value: Any) -> Any:
    """The parameter's value in its one form: ints are ints, sequences tuples, dtypes dtypes.

    A tensor is copied, so that nobody else can write it.

    Raises:
        SignatureError: the value is not of the parameter's kind, or a tensor is not dense.
    """
    try:
        if param.tensor is not None:
            if isinstance(value, torch.Tensor):
                check_form(op, param.name, value, param.span)
            return _tensor(value, optional=param.tensor.optional is not False)
        return _as(param.kind, value)
    except _Refused as refused:
        _refuse(op, param, value, str(refused))


def _refuse(op: str, param: Param, value: Any, due: str) -> NoReturn:
    hint = ""
    if isinstance(param.kind, EnumKind | WordOrKind) and isinstance(value, str):
        hint = did_you_mean(value, param.kind.words)
    raise SignatureError(
        f"{op}: {param.name} must be {due}, got {value_text(value)} ({type(value).__name__}){hint}"
        f"  [{param.span.short}]",
        op=op,
        tensor=param.name,
        expected=due,
        actual=value,
        span=param.span,
    )


def _as(kind: Kind, value: Any) -> Any:
    match kind:
        case MaybeKind(of=inner):
            if value is None:
                return None
            try:
                return _as(inner, value)
            except _Refused as refused:
                raise _Refused(f"{refused} or None") from None
        case BoolKind():
            return _bool(value)
        case DimKind():
            number = _int(value)
            if number < 0:
                raise _Refused("a non-negative int")
            return number
        case IntKind():
            return _int(value)
        case EnumKind(words=words):
            if not isinstance(value, str) or value not in words:
                raise _Refused(f"one of {', '.join(map(repr, words))}")
            # The word itself: a member of an enumeration of strings prints its own name.
            return words[words.index(value)]
        case DTypeKind(members=members):
            return _dtype(value, members)
        case ShapeKind():
            return _shape(value)
        case AxesKind(optional=optional):
            return _axes(value, optional)
        case IntTupleKind(length=length, holes=holes):
            return _int_tuple(value, length, holes)
        case WordOrKind(words=words, of=inner):
            if isinstance(value, str) and value in words:
                return words[words.index(value)]
            try:
                return _as(inner, value)
            except _Refused as refused:
                raise _Refused(f"{refused} or {' or '.join(map(repr, words))}") from None
        case AdtKind():
            return sum_value(kind, value)
        case OpaqueKind(name=name, python=python):
            made_by = python_class(python)
            if isinstance(value, AdtValue) and value.kind == name:
                return _made(made_by, value)
            if not isinstance(value, made_by):
                raise _Refused(f"a {name}")
            return value
        case ScalarKind(types=types):
            return _scalar(value, types)
        case DeviceKind():
            return _device(value)
    raise AssertionError(f"no parameter has kind {kind}")


def _made(made_by: type, value: AdtValue) -> object:
    """The object that a row writes by the fields of its class."""
    try:
        return made_by(**dict(value.fields))
    except (TypeError, ValueError) as error:
        raise _Refused(f"what {value.kind} takes ({error})") from None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _bool(value: Any) -> bool:
    if not _is_bool(value):
        raise _Refused("True or False")
    return bool(value)


def _int(value: Any) -> int:
    """An int, or what is one (numpy's); never a bool, a tensor or a symbol without a value."""
    if isinstance(value, torch.SymInt):
        raise _Refused("an int with a value (construct ops outside of traced code)")
    if _is_bool(value) or isinstance(value, torch.Tensor):
        raise _Refused("an int")
    try:
        return operator.index(value)
    except TypeError:
        raise _Refused("an int") from None


def _ints(value: Any, due: str) -> tuple[int, ...]:
    if isinstance(value, str | bytes | dict | set | frozenset | torch.Tensor):
        raise _Refused(due)
    try:
        items = tuple(value)
    except TypeError:
        raise _Refused(due) from None
    try:
        return tuple(_int(item) for item in items)
    except _Refused:
        raise _Refused(due) from None


def _single(value: Any) -> int | None:
    """The value as one int, or None if it is not one."""
    try:
        return _int(value)
    except _Refused:
        return None


def _shape(value: Any) -> tuple[int, ...]:
    due = "a sequence of non-negative ints"
    one = _single(value)
    shape = _ints(value, due) if one is None else (one,)
    if any(n < 0 for n in shape):
        raise _Refused(due)
    return shape


def _axes(value: Any, optional: bool) -> int | tuple[int, ...] | None:
    due = "an int or a sequence of ints" + (", or None" if optional else "")
    if value is None:
        if optional:
            return None
        raise _Refused(due)
    one = _single(value)
    return _ints(value, due) if one is None else one


def _int_tuple(value: Any, length: int, holes: bool) -> tuple[int | None, ...]:
    due = f"an int or {length} of them" + (", each maybe None," if holes else "")
    one = _single(value)
    if one is not None:
        return (one,) * length
    if holes and isinstance(value, tuple | list):
        items = tuple(None if item is None else _ints((item,), due)[0] for item in value)
    else:
        items = _ints(value, due)
    if len(items) != length:
        raise _Refused(due)
    return items


def _tensor(value: Any, *, optional: bool) -> torch.Tensor | None:
    """A copy of a parameter that is a tensor, without its history and with memory of its own."""
    due = "a torch.Tensor" + (" or None" if optional else "")
    if value is None and optional:
        return None
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise _Refused(due)
    with torch.inference_mode(False), torch.no_grad():
        copy: torch.Tensor = value.detach().clone(memory_format=torch.contiguous_format)
    return copy


def sum_value(kind: AdtKind, value: Any) -> Any:
    """A sealed sum's value as an object of its form's class; one written in an entry becomes one.

    Raises:
        _Refused: the value is of no form, a field is not of its kind, or an invariant fails.
    """
    for form in kind.constructors:
        made_by = python_class(form.python)
        if type(value) is made_by or (isinstance(value, AdtValue) and value.kind == form.name):
            break
    else:
        names = " or ".join(form.python.rpartition(".")[2] for form in kind.constructors)
        raise _Refused(f"a {kind.name} ({names})")
    fields = {}
    for name, of in form.fields:
        try:
            fields[name] = _as(of, getattr(value, name))
        except _Refused as refused:
            raise _Refused(f"a {kind.name} whose {name} is {refused}") from None
    for text, invariant in form.invariant:
        if not evaluate(invariant, fields):
            raise _Refused(f"a {kind.name} with {text}")
    return made_by(**fields)


@cache
def python_class(path: str) -> type:
    """The class that ``types.yaml`` names, imported when its first value comes."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, type), path
    return found


def _dtype(value: Any, members: tuple[str, ...] | None) -> torch.dtype:
    due = "a torch dtype" if members is None else f"one of {', '.join(members)}"
    if isinstance(value, str):
        value = getattr(torch, value.removeprefix("torch."), None)
    if not isinstance(value, torch.dtype):
        raise _Refused(due)
    if members is not None and dtype_text(value) not in members:
        raise _Refused(due)
    return value


def _device(value: Any) -> torch.device | None:
    if value is None or isinstance(value, torch.device):
        return value
    try:
        if isinstance(value, str):
            return torch.device(value)
    except RuntimeError:
        pass
    raise _Refused("a torch device, its name or None")


def _scalar(value: Any, types: tuple[str, ...]) -> Any:
    due = " or ".join({"str": "a string", "int": "an int"}.get(t, f"a {t}") for t in types)
    if isinstance(value, str):
        if "str" not in types:
            raise _Refused(due)
        return str.__str__(value)
    if isinstance(value, torch.Tensor):
        raise _Refused(due)
    if _is_bool(value):
        if "bool" not in types:
            raise _Refused(due)
        return bool(value)
    one = _single(value)
    if one is not None and "int" in types:
        return one
    # numpy's float64 is a float and its complex128 a complex; of the others, the numeric tower
    # alone tells the real ones.
    real = isinstance(value, numbers.Real) or not isinstance(value, numbers.Complex)
    try:
        if "float" in types and real and hasattr(value, "__float__"):
            return float(value)
        if "complex" in types and isinstance(value, numbers.Complex):
            return complex(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _Refused(f"{due} ({error})") from None
    raise _Refused(due)
