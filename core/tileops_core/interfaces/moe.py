"""Mixtures of experts: how rows are grouped, and the kernels' contracts.

The layouts are the Python side of ``MGroupedLayout`` in the manifest's ``types.yaml``; an op takes
one of them and checks it against its declaration there. They are dataclasses, which torch can trace
the construction of.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from tileops_core.kernels import CallSpec, KernelInterface


@dataclass(frozen=True)
class ContiguousLayout:
    """Groups of rows one after the other in one matrix.

    Args:
        packing: ``"tight"``: no row between groups. ``"aligned"``: each group begins at a multiple
            of ``alignment``; rows between groups hold nothing.
        metadata_kind: What the metadata tensor has: ``"physical_psum"``: the row behind the end of
            each group. ``"per_row"``: the group of each row.
        alignment: 1 exactly where the packing is tight.
    """

    kind: ClassVar[Literal["contiguous"]] = "contiguous"
    packing: Literal["tight", "aligned"] = "tight"
    metadata_kind: Literal["physical_psum", "per_row"] = "physical_psum"
    alignment: int = 1


@dataclass(frozen=True)
class MaskedLayout:
    """A matrix of ``max_m`` rows for each group, which fills the first of them.

    The metadata tensor has the number of rows of each group.
    """

    kind: ClassVar[Literal["masked"]] = "masked"
    max_m: int


MGroupedLayout: TypeAlias = ContiguousLayout | MaskedLayout
"""How the rows of several groups lie in memory."""


@dataclass(frozen=True)
class RoutingEpilogueSpec:
    """What happens to the sum over a token's experts.

    Args:
        routed_scaling_factor: A factor of the sum.
    """

    routed_scaling_factor: float = 1.0


# -- routing and permutation ------------------------------------------------------------------


class FusedTopKCall(CallSpec):
    """The choice of ``top_k`` of ``experts`` for each of ``tokens``.

    ``num_expert_group`` divides ``experts``; experts come from ``topk_group`` of the groups, which
    have ``top_k`` at least.
    """

    dtype: torch.dtype
    tokens: int
    experts: int
    top_k: int
    scoring_func: str
    renormalize: bool
    num_expert_group: int
    topk_group: int
    routed_scaling_factor: float
    has_bias: bool


class FusedTopKFwdInterface(KernelInterface):
    """Scores, the softmax or the sigmoid of logits, and the experts with the best of them.

    Chosen are the ``top_k`` with the greatest score plus bias, of the groups of neighbors that are
    worth most: a group its best score or, with a bias, the sum of its two best biased ones. The
    best comes first, among equals the lower index. Computed in float32.
    """

    request = FusedTopKCall

    @abstractmethod
    def forward(
        self, gating_output: Tensor, correction_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Choose.

        Args:
            gating_output: ``[tokens, experts]``, ``call.dtype``: logits.
            correction_bias: ``[experts]`` float32; None unless ``call.has_bias``.

        Returns:
            ``(topk_weights, topk_ids)``, ``[tokens, top_k]`` float32 and int32: the scores without
            the bias, over their sum with ``call.renormalize``, times
            ``call.routed_scaling_factor``; and whose they are.
        """


class MoEPermuteAlignCall(CallSpec):
    """``tokens * top_k`` routes by expert, in blocks of ``block_size``."""

    tokens: int
    top_k: int
    num_experts: int
    block_size: int


class MoEPermuteAlignFwdInterface(KernelInterface):
    """A counting sort of routes whose every bucket is filled up to a multiple of a block."""

    request = MoEPermuteAlignCall

    @abstractmethod
    def forward(self, topk_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sort.

        Args:
            topk_ids: ``[tokens, top_k]`` int32, in ``[0, num_experts)``; a token may list an
                expert twice.

        Returns:
            ``(sorted_token_ids, expert_ids, num_tokens_post_pad)``, int32. ``[P]`` with
            ``P = tokens * top_k + (num_experts + 1) * (block_size - 1)``: the routes
            ``t * top_k + k`` of each expert in any order, ``tokens * top_k`` for what is no route.
            ``[ceil(P / block_size)]``: each block's expert, and behind the last block that has one
            anything outside of ``[0, num_experts)``. ``[1]``: the rows of all experts' blocks.
        """


class MoEPrePermuteCall(CallSpec):
    """``tokens`` rows of ``width``, each copied to its ``top_k`` experts' part of ``rows`` rows."""

    dtype: torch.dtype
    tokens: int
    width: int
    top_k: int
    num_local_experts: int
    rows: int
    layout: ContiguousLayout


class MoEPrePermuteFwdInterface(KernelInterface):
    """``expert_input[inverse_indices[t * top_k + k]] = hidden_states[t]``, by expert."""

    request = MoEPrePermuteCall

    @abstractmethod
    def forward(
        self, hidden_states: Tensor, local_expert_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Copy.

        Args:
            hidden_states: ``[tokens, width]``, ``call.dtype``.
            local_expert_ids: ``[tokens, top_k]`` int32, in ``[0, num_local_experts)``. ``tokens``
                may be 0, and the metadata is due then too.

        Returns:
            ``(expert_input, layout_metadata, inverse_indices)``: ``[rows, width]`` in
            ``call.dtype``, an expert's rows in any order, anything in rows of padding; int32, as
            ``call.layout`` says, an expert without rows ending where it begins;
            ``[tokens * top_k]`` int32.
        """


class MoEPostPermuteCall(CallSpec):
    """Weighted sums of ``top_k`` out of ``rows`` rows for each of ``tokens``.

    ``rows`` counts those of a masked layout through, all groups' ``max_m``.
    """

    dtype: torch.dtype
    out_dtype: torch.dtype
    tokens: int
    width: int
    top_k: int
    rows: int
    layout: MGroupedLayout
    routed_scaling_factor: float


class MoEPostPermuteFwdInterface(KernelInterface):
    """``s * sum_k topk_weights[t, k] * rows[inverse_indices[t * top_k + k]]``.

    s is ``call.routed_scaling_factor``. Summed in float32 or wider, rounded once.
    """

    request = MoEPostPermuteCall

    @abstractmethod
    def forward(
        self,
        expert_output: Tensor,
        topk_weights: Tensor,
        inverse_indices: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Sum.

        Args:
            expert_output: ``[rows, width]``, or ``[groups, max_m, width]`` in a masked layout;
                ``call.dtype``. Rows that no index names may hold anything.
            topk_weights: ``[tokens, top_k]`` float32.
            inverse_indices: ``[tokens * top_k]`` int32, in ``[0, rows)``.
            out: the result's memory, or None for new memory.

        Returns:
            ``[tokens, width]``, ``call.out_dtype``; zeros where ``top_k`` is 0.
        """


# -- products ---------------------------------------------------------------------------------


class MoEGroupedGEMMCall(CallSpec):
    """Every expert's product ``[., k] x [k, n]`` with its part of ``rows`` rows.

    ``activation`` is ``"silu_and_mul"``, ``"gelu_and_mul"``, ``"swigluoai"`` or None.
    """

    dtype: torch.dtype
    out_dtype: torch.dtype
    rows: int
    n: int
    k: int
    experts: int
    layout: MGroupedLayout
    activation: str | None
    has_bias: bool


class MoEGroupedGEMMFwdInterface(KernelInterface):
    """``output[rows of e] = act(a[rows of e] b[e]^T + bias[e])``.

    With an activation the product has 2 n columns, gates g and values u: the first n and the last
    for ``silu(g) u`` and ``gelu(g) u`` (the exact GELU); even and odd ones for swigluoai,
    ``g' sigmoid(1.702 g') (u' + 1)`` with g' at most 7 and u' within -7 and 7. Summed in float32
    or wider, rounded once, at the end.
    """

    request = MoEGroupedGEMMCall

    @abstractmethod
    def forward(
        self,
        a: Tensor,
        b: Tensor,
        layout_metadata: Tensor,
        *,
        bias: Tensor | None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Multiply.

        Args:
            a: ``[rows, k]``, or ``[experts, max_m, k]`` in a masked layout; ``call.dtype``. Rows
                that belong to no expert may hold anything.
            b: ``[experts, n or 2 n, k]``, ``call.dtype``.
            layout_metadata: int32, as ``call.layout`` says.
            bias: ``[experts, n or 2 n]``, ``call.dtype``; None unless ``call.has_bias``.
            out: the result's memory, or None for new memory.

        Returns:
            ``[rows, n]`` or ``[experts, max_m, n]``, ``call.out_dtype``; anything in rows that
            belong to no expert.
        """


class MoEGroupedGEMMFP8Call(CallSpec):
    """Every expert's product of scaled float8 codes; ``n`` and ``k`` are multiples of 128."""

    experts: int
    n: int
    k: int
    layout: MaskedLayout


class MoEGroupedGEMMFP8FwdInterface(KernelInterface):
    """``output[e, m] = sum over blocks of (a b^T of 128 columns) a_scale b_scale``.

    The codes of a block are multiplied and summed as they are, then scaled, then added up, all in
    float32 or wider.
    """

    request = MoEGroupedGEMMFP8Call

    @abstractmethod
    def forward(
        self,
        a: Tensor,
        a_scale: Tensor,
        b: Tensor,
        b_scale: Tensor,
        layout_metadata: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Multiply.

        Args:
            a: ``[experts, max_m, k]`` float8_e4m3fn. Rows behind an expert's last may hold
                anything, and so may their scales.
            a_scale: ``[experts, max_m, k / 128]`` float32.
            b: ``[experts, n, k]`` float8_e4m3fn.
            b_scale: ``[experts, n / 128, k / 128]`` float32.
            layout_metadata: ``[experts]`` int32: how many rows an expert has; a count below 0 is
                0, one above ``max_m`` is ``max_m``.
            out: the result's memory, or None for new memory.

        Returns:
            ``[experts, max_m, n]`` bfloat16; anything in rows behind an expert's last.
        """


class SharedExpertMLPCall(CallSpec):
    """One expert of inner width ``inner`` for all of ``tokens`` rows of ``width``."""

    dtype: torch.dtype
    tokens: int
    width: int
    inner: int


class SharedExpertMLPFwdInterface(KernelInterface):
    """``(silu(h gate^T) * (h up^T)) w_down^T``, the product rounded before ``w_down``.

    Sums in float32 or wider.
    """

    request = SharedExpertMLPCall

    @abstractmethod
    def forward(self, hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
        """Compute the expert.

        Args:
            hidden_states: ``[tokens, width]``, ``call.dtype``.
            w_gate_up: ``[2 * inner, width]``, ``call.dtype``; gate is the first half.
            w_down: ``[width, inner]``, ``call.dtype``.

        Returns:
            ``[tokens, width]``, ``call.dtype``.
        """


class IndexedExpertMLPCall(CallSpec):
    """``top_k`` of ``experts`` for each of few ``tokens`` of ``width``."""

    dtype: torch.dtype
    tokens: int
    width: int
    inner: int
    experts: int
    top_k: int
    routed_scaling_factor: float


class IndexedExpertMLPFwdInterface(KernelInterface):
    """``s * sum_k topk_weights[t, k] mlp(e, hidden_states[t])`` with ``e = topk_ids[t, k]``.

    ``mlp(e, h) = (silu(h gate[e]^T) * (h up[e]^T)) w_down[e]^T``, the product rounded before
    ``w_down``, and s is ``call.routed_scaling_factor``. Sums in float32 or wider.
    """

    request = IndexedExpertMLPCall

    @abstractmethod
    def forward(
        self,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Compute the routed experts.

        Args:
            hidden_states: ``[tokens, width]``, ``call.dtype``.
            w_gate_up: ``[experts, 2 * inner, width]``, ``call.dtype``; gates are the first half.
            w_down: ``[experts, width, inner]``, ``call.dtype``.
            topk_weights: ``[tokens, top_k]`` float32.
            topk_ids: ``[tokens, top_k]`` int32, in ``[0, experts)``; an expert that a token lists
                twice counts twice.
            out: the result's memory, or None for new memory.

        Returns:
            ``[tokens, width]``, ``call.dtype``.
        """
