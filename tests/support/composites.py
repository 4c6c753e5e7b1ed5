"""Ops made of ops: ``TwiceFwdOp`` of two ``ProbeFwdOp``, ``NestFwdOp`` of a ``TwiceFwdOp`` and one.

Each class of a set is new, so that tests share no instance and no registry's answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import faulty
import torch
from call_support import op_class

from tileops_core import Op


def composite_spec(**stages: str) -> dict[str, Any]:
    """The entry of an op with one input and one output of its type, made of these ops."""
    listed = [{"name": name, "op": op} for name, op in stages.items()]
    composition = {"kind": "composite", "stages": listed}
    return {**faulty.SPECS["ProbeFwdOp"], "composition": composition}


TWICE = composite_spec(first="ProbeFwdOp", second="ProbeFwdOp")
NEST = composite_spec(inner="TwiceFwdOp", last="ProbeFwdOp")


class Does:
    """What the kernels of a set do at the moment, and who was called.

    Attributes:
        kernel: does a ``ProbeFwdOp``'s work.
        between: is called in a ``TwiceFwdOp``'s body, between the two sub-ops.
        after: is called at the end of a ``TwiceFwdOp``'s body.
        builds: how many entries were built.
    """

    def __init__(self) -> None:
        self.kernel: Callable[[torch.Tensor], torch.Tensor] = lambda x: x * 2
        self.between: Callable[[Any, torch.Tensor], torch.Tensor] = lambda op, x: x
        self.after: Callable[[Any, torch.Tensor], torch.Tensor] = lambda op, x: x
        self.build: Callable[[], None] = lambda: None
        self.builds = 0


@attrs.define
class Ops:
    """One set of classes, and the switch of their kernels."""

    probe: type[Op]
    twice: type[Op]
    nest: type[Op]
    does: Does


def ops(**more: Any) -> Ops:
    """A set of ops whose leaves run in-tree; ``more`` goes into the body of ``TwiceFwdOp``."""
    does = Does()

    def factory() -> Any:
        does.builds += 1
        does.build()
        return kernel_type()

    interfaces, kernel_type = faulty.in_tree(lambda x: does.kernel(x), factory=factory)
    request = interfaces["probe"].request
    probe = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        call_spec=lambda self, x: request(x.device, x.dtype, x.shape),
    )

    def twice(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = self.delegate_for("first", ())(x)
        y = does.between(self, y)
        return does.after(self, self.delegate_for("second", ())(y))

    def nest(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.delegate_for("last", ())(self.delegate_for("inner", ())(x))

    body = {"delegate_types": {"first": probe, "second": probe}, "forward": twice, **more}
    twice_class = op_class("TwiceFwdOp", spec=TWICE, **body)
    nest_class = op_class(
        "NestFwdOp",
        spec=NEST,
        delegate_types={"inner": twice_class, "last": probe},
        forward=nest,
    )
    return Ops(probe, twice_class, nest_class, does)
