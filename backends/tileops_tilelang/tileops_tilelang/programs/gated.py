"""Gated activations: a function of the first half of a row times the second half."""

import math
from collections.abc import Callable
from typing import Any

import tilelang.language as T

from tileops_tilelang.programs.constants import constant
from tileops_tilelang.programs.program import Program
from tileops_tilelang.programs.schedule import Schedule
from tileops_tilelang.programs.strips import Columns, Strip


def gated(schedule: Schedule, dtype: str, *, function: str) -> Program:
    """``y = function(x[:, :N]) * x[:, N:]``; the function is one of :data:`FUNCTIONS`."""
    element = schedule.element(dtype)
    activation, (first, second) = FUNCTIONS[function]
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)

    @T.prim_func
    def main(
        x: T.Tensor((M, 2 * N), element.storage),
        y: T.Tensor((M, N), element.storage),
        first_constant: T.float32,
        second_constant: T.float32,
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            schedule.each(
                columns,
                [
                    Strip(x, element, (begin + i,)),
                    Strip(x, element, (begin + i,), columns.count),
                ],
                [Strip(y, element, (begin + i,))],
                lambda gate, up: (activation(gate, first_constant, second_constant) * up,),
            )

    return Program(
        main,
        ("x", "y"),
        (("N", "int32"),),
        {"first_constant": first, "second_constant": second},
    )


def _silu(x: Any, *_: Any) -> Any:
    """``x * sigmoid(x)``."""
    return x / (constant(1.0) + T.exp(-x))


def _gelu(x: Any, root_half: Any, _: Any) -> Any:
    """``x * Phi(x)``, Phi the normal distribution (Hendrycks and Gimpel, 2016)."""
    return constant(0.5) * x * (constant(1.0) + T.erf(x * root_half))


def _gelu_tanh(x: Any, root_two_over_pi: Any, cubic: Any) -> Any:
    """Its approximation ``x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x**3)))``."""
    inner = root_two_over_pi * (x + cubic * x * x * x)
    return constant(0.5) * x * (constant(1.0) + T.tanh(inner))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, float]]] = {
    "silu": (_silu, (0.0, 0.0)),
    "gelu": (_gelu, (math.sqrt(0.5), 0.0)),
    "gelu_tanh": (_gelu_tanh, (math.sqrt(2 / math.pi), 0.044715)),
}
"""By the name under which a kernel asks for them, with the constants they take."""
