"""What mixtures of experts cost: every expert's products with the rows that it got."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from costs import differing, ops_of, rows_of
from operations import Number, operations, steps

OPS = ops_of("moe")


# -- formulas ---------------------------------------------------------------------------------


def silu(x):
    return x / (1 + torch.exp(-x))


def gelu(x):
    half = 0.5 * x
    return half + half * torch.erf(x / math.sqrt(2))


def swiglu(gate, value):
    gate = gate.clamp_max(7)
    return gate / (1 + torch.exp(-1.702 * gate)) * (value.clamp_min(-7).clamp_max(7) + 1)


def activated(both, activation):
    if activation is None:
        return both
    if activation == "swigluoai":
        return swiglu(both[:, ::2], both[:, 1::2])
    gate, value = both.chunk(2, 1)
    return {"silu_and_mul": silu, "gelu_and_mul": gelu}[activation](gate) * value


def linear(x, width, bias):
    result = x @ torch.empty(x.shape[1], width)
    return result + torch.empty(width) if bias else result


def mlp(rows, width, inner, activation, biases):
    first, second = biases
    hidden = activated(linear(torch.empty(rows, width), 2 * inner, first), activation)
    return linear(hidden, width, second)


def routed(routes, width, inner, activation, biases, factor):
    """Each route's row, weighted and added to its token's."""
    result, weights = mlp(routes, width, inner, activation, biases), torch.empty(routes, 1)
    return torch.empty(routes, width) + (weights if factor == 1 else weights * factor) * result


def blocks(rows, columns, contraction):
    """Codes of 128 columns are multiplied and summed, then scaled, then added up."""
    total = torch.empty(rows, columns)
    for _ in range(contraction // 128):
        scale = torch.empty(rows, 1) * torch.empty(columns // 128)
        part = torch.empty(rows, 128) @ torch.empty(128, columns)
        total = total + part * scale.repeat_interleave(128, 1, output_size=columns)


def best(scores):
    """A comparison for each of what there is to choose from."""
    return scores.amax(-1)


def route(tokens, experts, given, biased):
    logits, k, groups = torch.empty(tokens, experts), given["top_k"], given["num_expert_group"]
    if given["scoring_func"] == "softmax":
        shares = torch.exp(logits - logits.amax(-1, keepdim=True))
        scores = shares / shares.sum(-1, keepdim=True)
    else:
        scores = torch.reciprocal(1 + torch.exp(-logits))
    if biased:
        scores = scores + torch.empty(experts)
    if groups > 1:
        grouped = scores.view(tokens, groups, experts // groups)
        best(best(grouped) + best(grouped) if biased else best(grouped))
        scores = grouped[:, : given["topk_group"]].reshape(tokens, -1)
    best(scores)
    weights = torch.empty(tokens, k)
    if given["renormalize"]:
        weights = weights / weights.sum(-1, keepdim=True)
    if given["routed_scaling_factor"] != 1:
        weights = weights * given["routed_scaling_factor"]


# -- who gets which rows ------------------------------------------------------------------------


def held(row):
    """How many rows each expert has."""
    layout, values = row["layout"], row.values("layout_metadata")
    if layout.kind == "masked":
        return [min(max(count, 0), layout.max_m) for count in values]
    if layout.metadata_kind == "per_row":
        return [sum(owner == expert for owner in values) for expert in range(row["E"])]
    starts = [0] + [math.ceil(end / layout.alignment) * layout.alignment for end in values[:-1]]
    return [end - start for start, end in zip(starts, values, strict=True)]


def of_experts(row, formula):
    """Operations of a formula of a number of rows, for each expert's."""
    return sum(n * operations(formula, rows) for rows, n in Counter(held(row)).items())


def per_expert(row, *names):
    """Bytes of each expert's part of some weights."""
    return row.size(*names) // row["E"]


def per_row(row, *names):
    """Bytes of one row of buffers that hold experts' rows."""
    return sum(row.size(name) // math.prod(row.shape(name)[:-1]) for name in names)


def placed(row, experts, alignment=1):
    """A counting sort of routes: where each goes, and where each expert's share ends."""
    ids = row.values(next(n for n in ("topk_ids", "local_expert_ids") if row.record.present(n)))
    counts = [Number(0) for _ in range(experts)]
    for expert in (expert for token in ids for expert in token):
        counts[expert] = counts[expert] + 1
    ends, places = [Number(0)], []
    for count in counts:
        if alignment > 1:
            count = (count + (alignment - 1)) // alignment * alignment
        ends.append(ends[-1] + count)
    free = ends[:-1]
    for expert in (expert for token in ids for expert in token):
        places.append(free[expert].value)
        free[expert] = free[expert] + 1
    return places, [end.value for end in ends]


# -- counts -------------------------------------------------------------------------------------


def shared(row, ranks=1):
    return operations(
        lambda: mlp(row["M"], row["H"], row["F_s"] // ranks, "silu_and_mul", (False, False))
    )


def all_routes(row, k):
    given = row.record.parameters
    biases = row.record.present("b_gate_up"), row.record.present("b_down")
    activation, factor = given.get("activation", "silu_and_mul"), given["routed_scaling_factor"]
    return operations(routed, row["M"] * k, row["H"], row["F"], activation, biases, factor)


def routing(row):
    return operations(
        route, row["M"], row["E"], row.record.parameters, row.record.present("correction_bias")
    )


def alignment(row):
    return row["layout"].alignment


FLOPS = {
    "FusedTopKFwdOp": routing,
    "MoEPermuteAlignFwdOp": lambda row: steps(
        placed, row, row["num_experts"], max(row["block_size"], 2)
    )[0],
    "MoEPrePermuteFwdOp": lambda row: steps(placed, row, row["num_local_experts"], alignment(row))[
        0
    ],
    "MoEGroupedGEMMFwdOp": lambda row: of_experts(
        row,
        lambda rows: activated(
            linear(torch.empty(rows, row["K"]), row.shape("b")[1], row.record.present("bias")),
            row["activation"],
        ),
    ),
    "MoEGroupedGEMMFP8FwdOp": lambda row: of_experts(
        row, lambda rows: blocks(rows, row["N"], row["K"])
    ),
    "MoEPostPermuteFwdOp": lambda row: operations(
        lambda: (
            torch.empty(row["M"] * row["K"], row["H"])
            + torch.empty(row["M"] * row["K"], row["H"])
            * (torch.empty(row["M"] * row["K"], 1) * 2.0 if row["epilogue"] else torch.empty(1))
        )
    ),
    "MoEExpertMLPFwdOp": lambda row: of_experts(
        row,
        lambda rows: mlp(
            rows,
            row["H"],
            row["F"],
            row["activation"],
            (row.record.present("b_gate_up"), row.record.present("b_down")),
        ),
    ),
    "SharedExpertMLPFwdOp": shared,
    "IndexedExpertMLPFwdOp": lambda row: all_routes(row, row["K"]),
    "FusedMoEExpertsFwdOp": lambda row: all_routes(row, row["K"]),
    "FusedMoEFwdOp": lambda row: routing_of_layer(row) + all_routes(row, row["top_k"]),
    "FusedMoESharedExpertFwdOp": lambda row: (
        routing_of_layer(row)
        + all_routes(row, row["top_k"])
        + (shared(row, row["tp_size"]) if row.record.present("shared_w_down") else 0)
    ),
}


def routing_of_layer(row):
    """The router of a layer has no factor: the experts' weights have it."""
    given = {**row.record.parameters, "routed_scaling_factor": 1.0}
    return operations(route, row["M"], row["E"], given, row.record.present("correction_bias"))


@pytest.mark.parametrize("op", OPS)
def test_flops_are_those_of_the_rows_that_experts_got(op):
    assert differing(op, FLOPS[op], "flops") == {}


WEIGHTS = ("w_gate_up", "w_down", "b_gate_up", "b_down")


def grouped(row, weights, rows):
    """Weights of the experts that have rows, and these rows; the metadata."""
    counts = held(row)
    used, filled = sum(count > 0 for count in counts), sum(counts)
    moved = used * per_expert(row, *weights) + filled * per_row(row, *rows)
    return moved + row.size("layout_metadata")


def of_routes(row, *others):
    used = len({expert for token in row.values("topk_ids") for expert in token})
    return used * per_expert(row, *WEIGHTS) + row.size(*others, "output")


def of_layer(row, *outputs):
    """No logits are at hand: as many experts as there are routes, at most all."""
    used = min(row["E"], row["M"] * row["top_k"])
    layer = row.size("hidden_states", "gating_output", "correction_bias", *outputs)
    return used * per_expert(row, *WEIGHTS) + layer


def of_post_permute(row):
    routes = row["M"] * row["K"]
    assert len(set(row.values("inverse_indices"))) == routes
    gathered = routes * per_row(row, "expert_output")
    return gathered + row.size("topk_weights", "inverse_indices", "output")


BYTES = {
    "FusedTopKFwdOp": lambda row: row.size(*row.record.tensors),
    "MoEPermuteAlignFwdOp": lambda row: row.size(*row.record.tensors),
    "MoEPrePermuteFwdOp": lambda row: (
        row["M"] * (row["K"] + 1) * per_row(row, "hidden_states")
        + row.size("local_expert_ids", "layout_metadata", "inverse_indices")
    ),
    "MoEGroupedGEMMFwdOp": lambda row: grouped(row, ("b", "bias"), ("a", "output")),
    "MoEGroupedGEMMFP8FwdOp": lambda row: grouped(
        row, ("b", "b_scale"), ("a", "a_scale", "output")
    ),
    "MoEPostPermuteFwdOp": of_post_permute,
    "MoEExpertMLPFwdOp": lambda row: grouped(row, WEIGHTS, ("expert_input", "output")),
    "SharedExpertMLPFwdOp": lambda row: row.size(*row.record.tensors),
    "IndexedExpertMLPFwdOp": lambda row: of_routes(
        row, "hidden_states", "topk_weights", "topk_ids"
    ),
    "FusedMoEExpertsFwdOp": lambda row: of_routes(row, "hidden_states", "topk_weights", "topk_ids"),
    "FusedMoEFwdOp": lambda row: of_layer(row, "output"),
    "FusedMoESharedExpertFwdOp": lambda row: (
        of_layer(row, "shared_output", "routed_output")
        + row.size("shared_w_gate_up", "shared_w_down") // row["tp_size"]
    ),
}


@pytest.mark.parametrize("op", OPS)
def test_bytes_are_those_of_rows_and_of_weights_that_are_used(op):
    assert differing(op, BYTES[op], "bytes") == {}


def test_routes_of_one_expert_follow_each_other():
    """The counting sort that is counted sorts."""
    for row in rows_of("MoEPermuteAlignFwdOp"):
        _, (places, ends) = steps(placed, row, row["num_experts"], row["block_size"])
        chosen = [expert for token in row.values("topk_ids") for expert in token]
        assert len(set(places)) == len(chosen)
        assert all(ends[e] <= at < ends[e + 1] for e, at in zip(chosen, places, strict=True))
        assert ends[-1] <= row["P"]
