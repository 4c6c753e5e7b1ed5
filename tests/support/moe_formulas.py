"""Mixtures of experts as the formulas have them: token by token, row by row, in float64.

Results come with a magnitude, the sum of the terms' absolute values, for the tolerances.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

ACTIVATIONS = ("silu_and_mul", "gelu_and_mul", "swigluoai")


def activated(both: Tensor, activation: str | None) -> Tensor:
    """Gates and values of one row, ``[2 * N]``, joined."""
    if activation is None:
        return both
    if activation == "swigluoai":
        gate = torch.minimum(both[0::2], torch.tensor(7.0))
        value = torch.minimum(torch.maximum(both[1::2], torch.tensor(-7.0)), torch.tensor(7.0))
        return gate / (1 + torch.exp(-1.702 * gate)) * (value + 1)
    middle = both.shape[0] // 2
    gate, value = both[:middle], both[middle:]
    if activation == "silu_and_mul":
        return gate / (1 + torch.exp(-gate)) * value
    return gate * 0.5 * (1 + torch.erf(gate / math.sqrt(2))) * value


def bounded(both: Tensor, activation: str | None) -> Tensor:
    """No less than the terms of :func:`activated`, of absolute gates and values."""
    if activation is None:
        return both
    if activation == "swigluoai":
        return both[0::2] * (both[1::2] + 1)
    middle = both.shape[0] // 2
    return both[:middle] * both[middle:]


def product(
    row: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None = None
) -> tuple[Tensor, Tensor]:
    """One row's ``act(row @ weight.T + bias)``."""
    row, weight = row.double(), weight.double()
    total, size = weight @ row, weight.abs() @ row.abs()
    if bias is not None:
        total, size = total + bias.double(), size + bias.double().abs()
    return activated(total, activation), bounded(size, activation)


def mlp(row: Tensor, weights: list[Any], activation: str) -> tuple[Tensor, Tensor]:
    """One row's way through one expert: ``[w_gate_up, w_down, b_gate_up, b_down]`` of it."""
    w_gate_up, w_down, b_gate_up, b_down = weights
    hidden, size = product(row, w_gate_up, b_gate_up, activation)
    result, _ = product(hidden, w_down, b_down)
    size = w_down.double().abs() @ size
    return result, size if b_down is None else size + b_down.double().abs()


def of_expert(weights: list[Any], expert: int) -> list[Any]:
    """What is one expert's of the weights and biases of all; None for one that is not there."""
    return [None if w is None else w[expert] for w in weights]


def routed(
    hidden_states: Tensor,
    weights: list[Any],
    topk_weights: Tensor,
    topk_ids: Tensor,
    factor: float = 1.0,
    activation: str = "silu_and_mul",
) -> tuple[Tensor, Tensor]:
    """Every token's weighted sum over its experts."""
    result = torch.zeros(hidden_states.shape, dtype=torch.float64)
    size = torch.zeros_like(result)
    for t, (chosen, ids) in enumerate(zip(topk_weights.tolist(), topk_ids.tolist(), strict=True)):
        for weight, expert in zip(chosen, ids, strict=True):
            value, of_value = mlp(hidden_states[t], of_expert(weights, expert), activation)
            result[t] += factor * weight * value
            size[t] += factor * abs(weight) * of_value
    return result, size


def chosen(
    logits: list[float],
    bias: list[float] | None = None,
    *,
    top_k: int,
    scoring_func: str = "softmax",
    renormalize: bool = False,
    num_expert_group: int = 1,
    topk_group: int = 1,
    routed_scaling_factor: float = 1.0,
) -> tuple[list[float], list[int]]:
    """One token's router, in plain Python: weights and ids."""
    if scoring_func == "softmax":
        most = max(logits)
        shares = [math.exp(x - most) for x in logits]
        scores = [share / sum(shares) for share in shares]
    else:
        scores = [1 / (1 + math.exp(-x)) for x in logits]
    worth = scores if bias is None else [s + b for s, b in zip(scores, bias, strict=True)]
    size = len(logits) // num_expert_group
    groups = [range(g * size, (g + 1) * size) for g in range(num_expert_group)]
    best_two = [sorted((worth[e] for e in group), reverse=True)[:2] for group in groups]
    of_group = [best[0] if bias is None else sum(best) for best in best_two]
    order = sorted(range(num_expert_group), key=lambda g: (-of_group[g], g))[:topk_group]
    experts = sorted((e for g in order for e in groups[g]), key=lambda e: (-worth[e], e))
    ids = experts[:top_k]
    kept = [scores[e] for e in ids]
    total = sum(kept) if renormalize else 1.0
    return [w / total * routed_scaling_factor for w in kept], ids


def rows_by_expert(layout: Any, metadata: list[int]) -> list[list[int]]:
    """The rows of each expert in a buffer, counted through; of ``per_row``, up to the last one."""
    if layout.kind == "masked":
        return [list(range(e * layout.max_m, e * layout.max_m + n)) for e, n in enumerate(metadata)]
    if layout.metadata_kind == "per_row":
        experts = range(max(metadata, default=-1) + 1)
        return [[row for row, owner in enumerate(metadata) if owner == e] for e in experts]
    found, start = [], 0
    for end in metadata:
        found.append(list(range(start, end)))
        start = math.ceil(end / layout.alignment) * layout.alignment
    return found
