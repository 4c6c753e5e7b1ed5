"""Mixtures of experts in one call: experts' products with their tokens, a layer from its logits on.

M tokens of width H have K of E experts each, whose inner width is F.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tileops_core.interfaces.moe import ContiguousLayout, MGroupedLayout
from tileops_reference.functions.moe import (
    fused_top_k,
    grouped_gemm,
    linear,
    pre_permute,
    weighted_sum,
)

_TIGHT = ContiguousLayout()
"""No row of padding: what the whole calls permute tokens to."""


def expert_mlp(
    expert_input: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    layout_metadata: Tensor,
    b_gate_up: Tensor | None = None,
    b_down: Tensor | None = None,
    *,
    layout: MGroupedLayout,
    activation: str = "silu_and_mul",
) -> Tensor:
    """``act(x @ w_gate_up[e].T + b_gate_up[e]) @ w_down[e].T + b_down[e]`` of every expert's rows.

    Args:
        expert_input: ``[P, H]``, or ``[E, max_m, H]``; floating.
        w_gate_up: ``[E, 2 * F, H]``, as all that follow of the same dtype.
        w_down: ``[E, H, F]``.
        layout_metadata: int32: where the rows of each expert lie, by ``layout``.
        b_gate_up: ``[E, 2 * F]``.
        b_down: ``[E, H]``.
        layout: how the rows lie.
        activation: as in :func:`tileops_reference.functions.moe.activated`.

    Returns:
        The shape and dtype of ``expert_input``; zeros in rows that belong to no expert. Activated
        values are rounded to the dtype.
    """
    hidden = grouped_gemm(
        expert_input, w_gate_up, layout_metadata, b_gate_up, layout=layout, activation=activation
    )
    return grouped_gemm(hidden, w_down, layout_metadata, b_down, layout=layout)


def shared_expert_mlp(hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
    """``(silu(h @ gate.T) * (h @ up.T)) @ w_down.T``, the product rounded before ``w_down``.

    Args:
        hidden_states: ``[M, H]``, floating.
        w_gate_up: ``[2 * F_s, H]``: gate, then up.
        w_down: ``[H, F_s]``.
    """
    dtype = hidden_states.dtype
    hidden = linear(hidden_states, w_gate_up, None, "silu_and_mul", dtype)
    return linear(hidden, w_down, None, None, dtype)


def indexed_expert_mlp(
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    *,
    routed_scaling_factor: float = 1.0,
) -> Tensor:
    """:func:`fused_moe_experts` with ``silu_and_mul`` and no biases."""
    return fused_moe_experts(
        hidden_states,
        w_gate_up,
        w_down,
        topk_weights,
        topk_ids,
        routed_scaling_factor=routed_scaling_factor,
    )


def fused_moe_experts(
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    b_gate_up: Tensor | None = None,
    b_down: Tensor | None = None,
    *,
    routed_scaling_factor: float = 1.0,
    activation: str = "silu_and_mul",
) -> Tensor:
    """``routed_scaling_factor * sum_k topk_weights[t, k] * mlp(topk_ids[t, k], hidden_states[t])``.

    ``mlp(e, h)`` is what :func:`expert_mlp` computes of a row, rounded to the dtype as there.

    Args:
        hidden_states: ``[M, H]``, floating; M may be 0.
        w_gate_up: ``[E, 2 * F, H]``.
        w_down: ``[E, H, F]``.
        topk_weights: ``[M, K]``.
        topk_ids: ``[M, K]`` int32, in ``[0, E)``.
        b_gate_up: ``[E, 2 * F]``.
        b_down: ``[E, H]``; weighted too.
        routed_scaling_factor: a factor of the sum.
        activation: as in :func:`expert_mlp`.

    Returns:
        ``[M, H]``, summed over experts in float32 or wider and rounded once.
    """
    total = routed_sum(
        hidden_states,
        w_gate_up,
        w_down,
        topk_weights,
        topk_ids,
        b_gate_up,
        b_down,
        routed_scaling_factor,
        activation,
    )
    return total.to(hidden_states.dtype)


def routed_sum(
    hidden_states: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    b_gate_up: Tensor | None = None,
    b_down: Tensor | None = None,
    factor: float = 1.0,
    activation: str = "silu_and_mul",
) -> Tensor:
    """What :func:`fused_moe_experts` rounds: ``[M, H]`` in float32, or in float64 of such."""
    rows, ends, inverse = pre_permute(
        hidden_states, topk_ids, layout=_TIGHT, num_local_experts=w_down.shape[0]
    )
    output = expert_mlp(
        rows, w_gate_up, w_down, ends, b_gate_up, b_down, layout=_TIGHT, activation=activation
    )
    return weighted_sum(output, topk_weights, inverse, factor)


def fused_moe(
    hidden_states: Tensor,
    gating_output: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    correction_bias: Tensor | None = None,
    b_gate_up: Tensor | None = None,
    b_down: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: str = "softmax",
    renormalize: bool = False,
    routed_scaling_factor: float = 1.0,
    num_expert_group: int = 1,
    topk_group: int = 1,
    activation: str = "silu_and_mul",
) -> Tensor:
    """A layer from its logits on: the router, then the experts, where the factor is applied.

    Args:
        hidden_states: ``[M, H]``, floating.
        gating_output: ``[M, E]``: logits.
        w_gate_up: as in :func:`fused_moe_experts`.
        w_down: the same.
        correction_bias: ``[E]``, for the router.
        b_gate_up: as in :func:`fused_moe_experts`.
        b_down: the same.
        top_k: as in :func:`tileops_reference.functions.moe.fused_top_k`.
        scoring_func: the same.
        renormalize: the same.
        routed_scaling_factor: as in :func:`fused_moe_experts`.
        num_expert_group: as in :func:`tileops_reference.functions.moe.fused_top_k`.
        topk_group: the same.
        activation: as in :func:`expert_mlp`.

    Returns:
        ``[M, H]`` in the dtype of ``hidden_states``.
    """
    weights, ids = fused_top_k(
        gating_output,
        correction_bias,
        top_k=top_k,
        scoring_func=scoring_func,
        renormalize=renormalize,
        num_expert_group=num_expert_group,
        topk_group=topk_group,
    )
    return fused_moe_experts(
        hidden_states,
        w_gate_up,
        w_down,
        weights,
        ids,
        b_gate_up,
        b_down,
        routed_scaling_factor=routed_scaling_factor,
        activation=activation,
    )


def fused_moe_shared_expert(
    hidden_states: Tensor,
    gating_output: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    correction_bias: Tensor | None = None,
    shared_w_gate_up: Tensor | None = None,
    shared_w_down: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: str = "softmax",
    renormalize: bool = False,
    routed_scaling_factor: float = 1.0,
    num_expert_group: int = 1,
    topk_group: int = 1,
    tp_size: int = 1,
    tp_rank: int = 0,
    activation: str = "silu_and_mul",
) -> tuple[Tensor | None, Tensor]:
    """:func:`fused_moe` without biases, and next to it a rank's part of a shared expert.

    Args:
        hidden_states: as in :func:`fused_moe`, like all that is not told here.
        gating_output: the same.
        w_gate_up: the same.
        w_down: the same.
        correction_bias: the same.
        shared_w_gate_up: ``[2 * F_s, H]`` of all ranks, or None for no shared expert.
        shared_w_down: ``[H, F_s]``, there with the other one.
        top_k: the same.
        scoring_func: the same.
        renormalize: the same.
        routed_scaling_factor: the same.
        num_expert_group: the same.
        topk_group: the same.
        tp_size: how many ranks split the shared expert's inner columns, in equal runs.
        tp_rank: which of them this one is.
        activation: the same; of the routed experts.

    Returns:
        ``(shared_output, routed_output)``, ``[M, H]`` each: this rank's part of the shared
        expert's, None without one; all of the routed experts'.
    """
    routed = fused_moe(
        hidden_states,
        gating_output,
        w_gate_up,
        w_down,
        correction_bias,
        top_k=top_k,
        scoring_func=scoring_func,
        renormalize=renormalize,
        routed_scaling_factor=routed_scaling_factor,
        num_expert_group=num_expert_group,
        topk_group=topk_group,
        activation=activation,
    )
    if shared_w_gate_up is None or shared_w_down is None:
        return None, routed
    inner = shared_w_down.shape[1] // tp_size
    mine = slice(tp_rank * inner, (tp_rank + 1) * inner)
    gate, up = shared_w_gate_up.chunk(2)
    gate_up, down = torch.cat((gate[mine], up[mine])), shared_w_down[:, mine].contiguous()
    return shared_expert_mlp(hidden_states, gate_up, down), routed
