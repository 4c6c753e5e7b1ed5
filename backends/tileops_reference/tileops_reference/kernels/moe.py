"""Mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tileops_core.interfaces.moe import (
    ContiguousLayout,
    FusedTopKCall,
    FusedTopKFwdInterface,
    IndexedExpertMLPCall,
    IndexedExpertMLPFwdInterface,
    MaskedLayout,
    MGroupedLayout,
    MoEGroupedGEMMCall,
    MoEGroupedGEMMFP8Call,
    MoEGroupedGEMMFP8FwdInterface,
    MoEGroupedGEMMFwdInterface,
    MoEPermuteAlignCall,
    MoEPermuteAlignFwdInterface,
    MoEPostPermuteCall,
    MoEPostPermuteFwdInterface,
    MoEPrePermuteCall,
    MoEPrePermuteFwdInterface,
    SharedExpertMLPFwdInterface,
)
from tileops_reference.functions import moe, moe_fused
from tileops_reference.kernels.general import GeneralKernel, torch_function


class FusedTopKReference(GeneralKernel, FusedTopKFwdInterface):
    """The router, with the parameters of its function."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.parameters = dict(parameters)

    def forward(
        self, gating_output: Tensor, correction_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Choose."""
        return moe.fused_top_k(gating_output, correction_bias, **self.parameters)

    @classmethod
    def entry_for(cls, call: FusedTopKCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per set of parameters."""
        parameters = {
            "top_k": call.top_k,
            "scoring_func": call.scoring_func,
            "renormalize": call.renormalize,
            "num_expert_group": call.num_expert_group,
            "topk_group": call.topk_group,
            "routed_scaling_factor": call.routed_scaling_factor,
        }
        return tuple(parameters.items()), partial(cls, parameters)


class MoEPermuteAlignReference(GeneralKernel, MoEPermuteAlignFwdInterface):
    """Routes by expert in whole blocks."""

    def __init__(self, num_experts: int, block_size: int) -> None:
        self.num_experts, self.block_size = num_experts, block_size

    def forward(self, topk_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sort."""
        return moe.permute_align(topk_ids, num_experts=self.num_experts, block_size=self.block_size)

    @classmethod
    def entry_for(cls, call: MoEPermuteAlignCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per number of experts and block."""
        facts = (call.num_experts, call.block_size)
        return facts, partial(cls, *facts)


class MoEPrePermuteReference(GeneralKernel, MoEPrePermuteFwdInterface):
    """Tokens copied to their experts."""

    def __init__(self, layout: ContiguousLayout, num_local_experts: int) -> None:
        self.layout, self.num_local_experts = layout, num_local_experts

    def forward(
        self, hidden_states: Tensor, local_expert_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Copy."""
        return moe.pre_permute(
            hidden_states,
            local_expert_ids,
            layout=self.layout,
            num_local_experts=self.num_local_experts,
        )

    @classmethod
    def entry_for(cls, call: MoEPrePermuteCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per layout and number of experts."""
        facts = (call.layout, call.num_local_experts)
        return facts, partial(cls, *facts)


class MoEPostPermuteReference(GeneralKernel, MoEPostPermuteFwdInterface):
    """Weighted sums of experts' rows."""

    def __init__(self, factor: float, out_dtype: torch.dtype) -> None:
        self.factor, self.out_dtype = factor, out_dtype

    def forward(
        self,
        expert_output: Tensor,
        topk_weights: Tensor,
        inverse_indices: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Sum."""
        total = moe.weighted_sum(expert_output, topk_weights, inverse_indices, self.factor)
        return total.to(self.out_dtype) if out is None else out.copy_(total)

    @classmethod
    def entry_for(cls, call: MoEPostPermuteCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per factor and result's dtype; rows are counted alike in every layout."""
        facts = (call.routed_scaling_factor, call.out_dtype)
        return facts, partial(cls, *facts)


class MoEGroupedGEMMReference(GeneralKernel, MoEGroupedGEMMFwdInterface):
    """A product per run of rows with one expert."""

    def __init__(
        self, layout: MGroupedLayout, activation: str | None, out_dtype: torch.dtype
    ) -> None:
        self.layout, self.activation, self.out_dtype = layout, activation, out_dtype

    def forward(
        self,
        a: Tensor,
        b: Tensor,
        layout_metadata: Tensor,
        *,
        bias: Tensor | None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Multiply."""
        if out is not None:
            return moe.fill_grouped(out, a, b, layout_metadata, bias, self.layout, self.activation)
        return moe.grouped_gemm(
            a,
            b,
            layout_metadata,
            bias,
            layout=self.layout,
            activation=self.activation,
            out_dtype=self.out_dtype,
        )

    @classmethod
    def entry_for(cls, call: MoEGroupedGEMMCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per layout, activation and result's dtype."""
        facts = (call.layout, call.activation, call.out_dtype)
        return facts, partial(cls, *facts)


class MoEGroupedGEMMFP8Reference(GeneralKernel, MoEGroupedGEMMFP8FwdInterface):
    """A product per expert, scaled block by block."""

    def __init__(self, layout: MaskedLayout) -> None:
        self.layout = layout

    def forward(
        self,
        a: Tensor,
        a_scale: Tensor,
        b: Tensor,
        b_scale: Tensor,
        layout_metadata: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Multiply."""
        tensors = (a, a_scale, b, b_scale, layout_metadata)
        if out is not None:
            return moe.fill_grouped_fp8(out, *tensors, self.layout)
        return moe.grouped_gemm_fp8(*tensors, layout=self.layout)

    @classmethod
    def entry_for(cls, call: MoEGroupedGEMMFP8Call) -> tuple[Hashable, Callable[[], object]]:
        """One entry per layout."""
        return call.layout, partial(cls, call.layout)


class SharedExpertMLPReference(GeneralKernel, SharedExpertMLPFwdInterface):
    """An expert that all tokens share."""

    forward = torch_function(moe_fused.shared_expert_mlp)


class IndexedExpertMLPReference(GeneralKernel, IndexedExpertMLPFwdInterface):
    """Routed experts of few tokens."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def forward(
        self,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Compute the routed experts."""
        total = moe_fused.routed_sum(
            hidden_states, w_gate_up, w_down, topk_weights, topk_ids, factor=self.factor
        )
        return total.to(hidden_states.dtype) if out is None else out.copy_(total)

    @classmethod
    def entry_for(cls, call: IndexedExpertMLPCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per factor."""
        return call.routed_scaling_factor, partial(cls, call.routed_scaling_factor)
