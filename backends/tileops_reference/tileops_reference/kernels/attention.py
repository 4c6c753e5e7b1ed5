"""Attention."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from tileops_core.interfaces.attention import GQADenseCall, GQADenseFwdInterface
from tileops_reference.functions.attention import gqa_dense
from tileops_reference.kernels.general import GeneralKernel


class GQADenseReference(GeneralKernel, GQADenseFwdInterface):
    """Grouped-query attention on dense tensors, with the parameters of its function."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.parameters = dict(parameters)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Attend."""
        return gqa_dense(
            q, k, v, q_scale, k_scale, v_scale, rope_cos, rope_sin, sinks, **self.parameters
        )

    @classmethod
    def entry_for(cls, call: GQADenseCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per set of parameters; sizes and optional tensors are seen at the call."""
        parameters = {
            "window_size_left": call.window_left,
            "window_size_right": call.window_right,
            "sm_scale": call.scale,
            "softcap": call.softcap,
            "out_dtype": call.out_dtype,
        }
        if call.rope != "none":
            parameters["pos_encoding_mode"] = "rope"
            parameters["rotary_dim"] = call.rotary_dim
            parameters["rope_layout"] = call.rope
        return tuple(parameters.items()), partial(cls, parameters)
