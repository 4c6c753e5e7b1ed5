"""Mixtures of experts, step by step: routing, permutation, grouped products.

M tokens of width H have K of E experts each, M * K routes in all.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tileops_core.interfaces.moe import ContiguousLayout, MGroupedLayout, RoutingEpilogueSpec
from tileops_reference.functions.rope import wide

_SCALED_BLOCK = 128
"""Columns of the contraction, and rows of a weight, that share a scale in float8 products."""

_LIMIT, _SLOPE = 7.0, 1.702
"""Of gpt-oss's SwiGLU (arXiv 2508.10925)."""


# -- routing ----------------------------------------------------------------------------------


def fused_top_k(
    gating_output: Tensor,
    correction_bias: Tensor | None = None,
    *,
    top_k: int,
    scoring_func: str = "softmax",
    renormalize: bool = False,
    num_expert_group: int = 1,
    topk_group: int = 1,
    routed_scaling_factor: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The best experts of each token, and their scores (DeepSeek-V2 and V3).

    Args:
        gating_output: ``[M, E]``, floating: logits.
        correction_bias: ``[E]``: added to the scores to choose by, and to nothing else.
        top_k: how many experts; the best comes first, among equals the lower index.
        scoring_func: ``"softmax"`` or ``"sigmoid"`` makes scores of logits.
        renormalize: divide the weights by their sum.
        num_expert_group: how many groups of neighbors the experts form.
        topk_group: how many groups to choose from: the ones with the best expert or, with a bias,
            with the greatest sum of two experts' biased scores.
        routed_scaling_factor: what the weights are multiplied by, at last.

    Returns:
        ``(topk_weights, topk_ids)``, ``[M, top_k]``: float32 or wider, and int32.
    """
    logits = gating_output.to(wide(gating_output.dtype))
    scores = logits.softmax(-1) if scoring_func == "softmax" else logits.sigmoid()
    worth = scores if correction_bias is None else scores + correction_bias
    if num_expert_group == 1:
        ids = _best(worth, top_k)
    else:
        grouped = worth.unflatten(1, (num_expert_group, -1))
        if correction_bias is None:
            of_groups = grouped.amax(-1)
        else:
            of_groups = grouped.topk(2).values.sum(-1)
        size = grouped.shape[-1]
        # In ascending order, so that among equals the lower index still comes first. Experts of
        # other groups are left out, not marked: a bias may be -inf too.
        groups = _best(of_groups, topk_group).sort().values
        inside = torch.arange(size, device=groups.device)
        experts = (groups.unsqueeze(-1) * size + inside).flatten(1)
        ids = experts.gather(1, _best(worth.gather(1, experts), top_k))
    weights = scores.gather(1, ids)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if routed_scaling_factor != 1:
        weights = weights * routed_scaling_factor
    return weights, ids.to(torch.int32).contiguous()


def _best(values: Tensor, count: int) -> Tensor:
    """Indices of a row's greatest values, among equals the lower one first."""
    return values.sort(dim=-1, descending=True, stable=True).indices[:, :count]


# -- permutation ------------------------------------------------------------------------------


class _Sorted(NamedTuple):
    """Routes by expert, each expert's share beginning at a multiple of an alignment.

    ``routes`` and ``experts``: every route, and its expert. ``rows``: the row that it gets.
    ``ends``: where each expert's last row ends; ``spans``: where the next expert may begin.
    """

    routes: Tensor
    experts: Tensor
    rows: Tensor
    ends: Tensor
    spans: Tensor


def _by_expert(ids: Tensor, experts: int, alignment: int) -> _Sorted:
    """Sort ``[M * K]`` expert ids. Nothing is asked of the device."""
    owners, routes = ids.sort(stable=True)
    tight_ends = torch.searchsorted(
        owners, torch.arange(experts, dtype=owners.dtype, device=owners.device), right=True
    )
    counts = tight_ends.diff(prepend=tight_ends.new_zeros(1))
    spans = ((counts + alignment - 1) // alignment * alignment).cumsum(0)
    starts = torch.cat((spans.new_zeros(1), spans[:-1]))
    moved = starts - (tight_ends - counts)
    rows = torch.arange(routes.numel(), device=ids.device) + moved[owners.long()]
    return _Sorted(routes, owners, rows, starts + counts, spans)


def permute_align(
    topk_ids: Tensor, *, num_experts: int, block_size: int = 64
) -> tuple[Tensor, Tensor, Tensor]:
    """Routes by expert in whole blocks, as ``vllm._custom_ops.moe_align_block_size``.

    Args:
        topk_ids: ``[M, K]`` int32, in ``[0, num_experts)``.
        num_experts: how many experts there are.
        block_size: what each expert's share is filled up to a multiple of.

    Returns:
        ``(sorted_token_ids, expert_ids, num_tokens_post_pad)``, int32: ``[P]`` for the greatest
        number of rows that routes can need, M * K where there is no route; each block's expert,
        ``num_experts`` behind the last one; ``[1]``, how many rows these routes need.
    """
    routes = topk_ids.numel()
    capacity = routes + (num_experts + 1) * (block_size - 1)
    found = _by_expert(topk_ids.flatten(), num_experts, block_size)
    sorted_ids = topk_ids.new_full((capacity,), routes)
    sorted_ids[found.rows] = found.routes.to(torch.int32)
    first_rows = torch.arange(0, capacity, block_size, device=topk_ids.device)
    expert_ids = torch.searchsorted(found.spans, first_rows, right=True, out_int32=True)
    return sorted_ids, expert_ids, found.spans[-1:].to(torch.int32)


def pre_permute(
    hidden_states: Tensor,
    local_expert_ids: Tensor,
    *,
    layout: ContiguousLayout,
    num_local_experts: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Copy each token's row to its experts' parts of one matrix.

    Args:
        hidden_states: ``[M, H]``, floating.
        local_expert_ids: ``[M, K]`` int32, in ``[0, num_local_experts)``.
        layout: how the parts follow each other, and what is told of them.
        num_local_experts: how many parts there are.

    Returns:
        ``(expert_input, layout_metadata, inverse_indices)``: ``[P, H]``, zeros in rows of padding;
        the layout's, int32; ``[M * K]`` int32, the row that each route got.
    """
    ids, top_k = local_expert_ids.flatten(), local_expert_ids.shape[1]
    found = _by_expert(ids, num_local_experts, layout.alignment)
    rows = _capacity(ids.numel(), num_local_experts, layout.alignment)
    expert_input = hidden_states.index_select(0, found.routes // top_k)
    if layout.packing == "aligned":
        padded = hidden_states.new_zeros((rows, hidden_states.shape[1]))
        expert_input = padded.index_copy_(0, found.rows, expert_input)
    if layout.metadata_kind == "per_row":
        metadata = ids.new_full((rows,), -1)
        metadata[found.rows] = found.experts
    else:
        metadata = found.ends.to(torch.int32)
    inverse = torch.empty_like(ids)
    inverse[found.routes] = found.rows.to(torch.int32)
    return expert_input, metadata, inverse


def _capacity(routes: int, experts: int, alignment: int) -> int:
    """Rows that hold any distribution: most are lost where experts have one above a multiple."""
    return (routes + min(routes, experts) * (alignment - 1)) // alignment * alignment


def post_permute(
    expert_output: Tensor,
    topk_weights: Tensor,
    inverse_indices: Tensor,
    *,
    layout: MGroupedLayout,
    epilogue: RoutingEpilogueSpec | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """``s * sum_k topk_weights[t, k] * expert_output[inverse_indices[t * K + k]]``.

    Args:
        expert_output: ``[R, H]``, or ``[E, max_m, H]`` with R rows in all; floating.
        topk_weights: ``[M, K]``.
        inverse_indices: ``[M * K]`` int32, in ``[0, R)``.
        layout: which of the two shapes it is.
        epilogue: has the factor s; None is 1.
        out_dtype: the result's dtype; None is that of ``expert_output``.

    Returns:
        ``[M, H]``, summed in float32 or wider and rounded once.
    """
    factor = 1.0 if epilogue is None else epilogue.routed_scaling_factor
    total = weighted_sum(expert_output, topk_weights, inverse_indices, factor)
    return total.to(out_dtype or expert_output.dtype)


def weighted_sum(
    expert_output: Tensor, topk_weights: Tensor, inverse_indices: Tensor, factor: float
) -> Tensor:
    """What :func:`post_permute` rounds: ``[M, H]`` in float32, or in float64 of such."""
    dtype = wide(expert_output.dtype)
    rows, weights = expert_output.flatten(0, -2), topk_weights.to(dtype)
    if factor != 1:
        weights = weights * factor
    at = inverse_indices.reshape(topk_weights.shape)
    total = rows.new_zeros((at.shape[0], rows.shape[1]), dtype=dtype)
    for k in range(at.shape[1]):
        total.addcmul_(rows.index_select(0, at[:, k]).to(dtype), weights[:, k : k + 1])
    return total


# -- products ---------------------------------------------------------------------------------


def grouped_gemm(
    a: Tensor,
    b: Tensor,
    layout_metadata: Tensor,
    bias: Tensor | None = None,
    *,
    layout: MGroupedLayout,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """``output[rows of e] = act(a[rows of e] @ b[e].T + bias[e])``.

    Args:
        a: ``[P, K]``, or ``[E, max_m, K]``; floating.
        b: ``[E, N, K]``, of ``a``'s dtype; ``[E, 2 * N, K]`` with an activation.
        layout_metadata: int32: where the rows of each expert lie, by ``layout``.
        bias: ``[E, N]`` or ``[E, 2 * N]``, of ``a``'s dtype.
        layout: how the rows lie.
        activation: None, or a word that :func:`activated` knows.
        out_dtype: the result's dtype; None is ``a``'s.

    Returns:
        ``[P, N]`` or ``[E, max_m, N]``, summed in float32 or wider and rounded once; zeros in rows
        that belong to no expert.
    """
    columns = b.shape[1] if activation is None else b.shape[1] // 2
    out = a.new_empty((*a.shape[:-1], columns), dtype=out_dtype or a.dtype)
    return fill_grouped(out, a, b, layout_metadata, bias, layout, activation)


def fill_grouped(
    out: Tensor,
    a: Tensor,
    b: Tensor,
    layout_metadata: Tensor,
    bias: Tensor | None,
    layout: MGroupedLayout,
    activation: str | None,
) -> Tensor:
    """:func:`grouped_gemm` into ``out``, contiguous and of the result's shape and dtype."""
    rows, results = a.flatten(0, -2), out.flatten(0, -2)
    filled = 0
    for expert, start, stop in runs_of(layout_metadata, layout):
        if filled < start:
            results[filled:start] = 0
        of_expert = None if bias is None else bias[expert]
        results[start:stop] = linear(rows[start:stop], b[expert], of_expert, activation, out.dtype)
        filled = stop
    results[filled:] = 0
    return out


def grouped_gemm_fp8(
    a: Tensor,
    a_scale: Tensor,
    b: Tensor,
    b_scale: Tensor,
    layout_metadata: Tensor,
    *,
    layout: MGroupedLayout,
) -> Tensor:
    """``output[e, m] = sum over blocks of 128 columns of (a[e, m] @ b[e].T) * a_scale * b_scale``.

    Args:
        a: ``[E, max_m, K]`` of float8 codes; K and N are multiples of 128.
        a_scale: ``[E, max_m, K / 128]`` float32.
        b: ``[E, N, K]`` of float8 codes.
        b_scale: ``[E, N / 128, K / 128]`` float32.
        layout_metadata: ``[E]`` int32: how many rows an expert has, from 0 to ``max_m``; others
            are taken for the nearest of these.
        layout: the masked layout.

    Returns:
        ``[E, max_m, N]`` bfloat16, or float64 of float64 codes; zeros in other rows.
    """
    dtype = torch.float64 if a.dtype is torch.float64 else torch.bfloat16
    out = a.new_empty((*a.shape[:-1], b.shape[1]), dtype=dtype)
    return fill_grouped_fp8(out, a, a_scale, b, b_scale, layout_metadata, layout)


def fill_grouped_fp8(
    out: Tensor,
    a: Tensor,
    a_scale: Tensor,
    b: Tensor,
    b_scale: Tensor,
    layout_metadata: Tensor,
    layout: MGroupedLayout,
) -> Tensor:
    """:func:`grouped_gemm_fp8` into ``out``, contiguous and of the result's shape."""
    rows, scales, results = (x.flatten(0, 1) for x in (a, a_scale, out))
    filled = 0
    for expert, start, stop in runs_of(layout_metadata, layout):
        if filled < start:
            results[filled:start] = 0
        results[start:stop] = _scaled_product(
            rows[start:stop], scales[start:stop], b[expert], b_scale[expert]
        )
        filled = stop
    results[filled:] = 0
    return out


def _scaled_product(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    """One expert's ``[m, N]``, in float32 or wider."""
    dtype = wide(a.dtype)
    a, b, a_scale, b_scale = (x.to(dtype) for x in (a, b, a_scale, b_scale))
    total = a.new_zeros((a.shape[0], b.shape[0]))
    for block, start in enumerate(range(0, a.shape[1], _SCALED_BLOCK)):
        columns = slice(start, start + _SCALED_BLOCK)
        scale = torch.outer(a_scale[:, block], b_scale[:, block])
        part = torch.mm(a[:, columns], b[:, columns].t())
        total.addcmul_(part, scale.repeat_interleave(_SCALED_BLOCK, 1))
    return total


def runs_of(layout_metadata: Tensor, layout: MGroupedLayout) -> list[tuple[int, int, int]]:
    """The runs of rows that belong to an expert, ``(expert, first row, row behind the last)``.

    They ascend; an expert may have none, or several. Waits for the device that the metadata is on.
    """
    runs, start = [], 0
    if layout.kind == "masked":
        for expert, count in enumerate(layout_metadata.tolist()):
            if count > 0:
                start = expert * layout.max_m
                runs.append((expert, start, start + min(count, layout.max_m)))
        return runs
    if layout.metadata_kind == "per_row":
        owners, lengths = torch.unique_consecutive(layout_metadata, return_counts=True)
        for owner, length in zip(owners.tolist(), lengths.tolist(), strict=True):
            if owner >= 0:
                runs.append((owner, start, start + length))
            start += length
        return runs
    for expert, stop in enumerate(layout_metadata.tolist()):
        if start < stop:
            runs.append((expert, start, stop))
        start = -(-stop // layout.alignment) * layout.alignment
    return runs


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None, dtype: torch.dtype
) -> Tensor:
    """``act(x @ weight.T + bias)`` of matrices, summed in float32 or wider, rounded once."""
    inner = wide(x.dtype)
    narrow_is_slow = x.dtype is torch.float16 and x.device.type == "cpu"
    if bias is None and activation is None and dtype is x.dtype and not narrow_is_slow:
        return torch.mm(x, weight.t())
    total = torch.mm(x.to(inner), weight.to(inner).t())
    if bias is not None:
        total += bias
    return activated(total, activation).to(dtype)


def activated(x: Tensor, activation: str | None) -> Tensor:
    """Gates applied to values.

    Args:
        x: ``[., 2 * N]``, in the dtype to compute in; may be written.
        activation: ``"silu_and_mul"`` and ``"gelu_and_mul"`` (the exact GELU), gates in the first
            N columns; ``"swigluoai"``, gates in the even ones, limited (gpt-oss); None: ``x``.

    Returns:
        ``[., N]``.
    """
    if activation is None:
        return x
    if activation == "swigluoai":
        gate, value = x[:, ::2].clamp(max=_LIMIT), x[:, 1::2].clamp(-_LIMIT, _LIMIT)
        return (gate * _SLOPE).sigmoid_().mul_(gate).mul_(value.add_(1))
    gate, value = x.chunk(2, -1)
    gated = functional.silu(gate) if activation == "silu_and_mul" else functional.gelu(gate)
    return gated.mul_(value)
