"""Costs of mixtures of experts, against walking through every operation and every element."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout
from tileops_core.record.costs import moe

ACTIVATED = {None: 0, "silu_and_mul": 5, "gelu_and_mul": 6, "swigluoai": 9}
WIDTHS = {"layout_metadata": 4, "topk_ids": 4, "topk_weights": 4, "gating_output": 4}
WIDTHS |= {"correction_bias": 4, "a_scale": 4, "b_scale": 4}


class Record:
    """What a cost function reads of a record; tensors by their shapes."""

    def __init__(self, shapes, indices, parameters, metadata=None, stages=None):
        self.tensors = {name: shape for name, shape in shapes.items() if shape is not None}
        self.indices, self.parameters = indices, parameters
        self.metadata, self.stages = metadata or {}, stages or {}

    def present(self, name):
        return name in self.tensors

    def bytes(self, name):
        return prod(self.tensors[name]) * WIDTHS.get(name, 2) if self.present(name) else 0

    def metadata_values(self, name):
        return self.metadata[name]


class Walk:
    """Counts operations, and which elements of the record's tensors are touched."""

    def __init__(self, record):
        self.record, self.flops, self.touched = record, 0, set()

    def touch(self, name, *place):
        if self.record.present(name):
            assert all(0 <= i < n for i, n in zip(place, self.record.tensors[name], strict=True))
            self.touched.add((name, *place))

    def touch_all(self, *names):
        for name in names:
            for place in product(*map(range, self.record.tensors.get(name, (0,)))):
                self.touch(name, *place)

    def linear(self, row, weight, bias, expert, outs, ins):
        """One row times a weight's rows, and the bias."""
        for out in range(outs):
            for i in range(ins):
                self.touch(row[0], *row[1:], i)
                self.touch(weight, *expert, out, i)
                self.flops += 2
            if self.record.present(bias):
                self.touch(bias, *expert, out)
                self.flops += 1

    @property
    def cost(self):
        return self.flops, sum(WIDTHS.get(name, 2) for name, *_ in self.touched)


# layout, metadata, the expert of every row of the buffer
LAYOUTS = {
    "tight": (ContiguousLayout(), [2, 2, 5], [0, 0, 2, 2, 2]),
    "tight, rows": (
        ContiguousLayout(metadata_kind="per_row"),
        [0, 0, 2, 2, 2],
        [0, 0, 2, 2, 2],
    ),
    "tight, not full": (ContiguousLayout(), [1, 3, 3], [0, 1, 1, -1, -1]),
    "aligned": (
        ContiguousLayout("aligned", "physical_psum", 4),
        [3, 4, 9],
        [0, 0, 0, -1, 2, 2, 2, 2, 2, -1, -1, -1],
    ),
    "aligned, rows": (
        ContiguousLayout("aligned", "per_row", 2),
        [0, -1, 2, 2, 2, -1],
        [0, -1, 2, 2, 2, -1],
    ),
    "masked": (MaskedLayout(3), [0, 3, 1], [-1, -1, -1, 1, 1, 1, 2, -1, -1]),
    "nothing": (MaskedLayout(2), [0, 0, 0], [-1] * 6),
}


def buffer(layout, rows, width, experts=3):
    return (experts, layout.max_m, width) if layout.kind == "masked" else (rows, width)


def row_of(name, layout, row):
    return (name, *(divmod(row, layout.max_m) if layout.kind == "masked" else (row,)))


@pytest.mark.parametrize("activation", ACTIVATED)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("layout", "metadata", "owners"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_grouped_product(layout, metadata, owners, bias, activation):
    rows, columns, contraction = len(owners), 2, 3
    width = columns if activation is None else 2 * columns
    shapes = {
        "a": buffer(layout, rows, contraction),
        "b": (3, width, contraction),
        "layout_metadata": (len(metadata),),
        "bias": (3, width) if bias else None,
        "output": buffer(layout, rows, columns),
    }
    indices = {"E": 3, "K": contraction, "N": columns, "R": rows}
    parameters = {"layout": layout, "activation": activation, "out_dtype": None}
    record = Record(shapes, indices, parameters, {"layout_metadata": metadata})
    walk = Walk(record)
    walk.touch_all("layout_metadata")
    for row, expert in enumerate(owners):
        if expert >= 0:
            walk.linear(row_of("a", layout, row), "b", "bias", (expert,), width, contraction)
            for column in range(columns):
                walk.touch(*row_of("output", layout, row), column)
                walk.flops += ACTIVATED[activation]
    assert moe.grouped_gemm(record) == walk.cost


@pytest.mark.parametrize("activation", ["silu_and_mul", "gelu_and_mul", "swigluoai"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("layout", "metadata", "owners"), LAYOUTS.values(), ids=LAYOUTS)
def test_the_products_of_all_experts(layout, metadata, owners, bias, activation):
    rows = len(owners)
    shapes = experts_weights(bias) | {
        "expert_input": buffer(layout, rows, 3),
        "layout_metadata": (len(metadata),),
        "output": buffer(layout, rows, 3),
    }
    indices = {"E": 3, "H": 3, "F": 2, "R": rows}
    parameters = {"layout": layout, "activation": activation}
    record = Record(shapes, indices, parameters, {"layout_metadata": metadata})
    walk = Walk(record)
    walk.touch_all("layout_metadata")
    for row, expert in enumerate(owners):
        if expert >= 0:
            mlp(walk, row_of("expert_input", layout, row), expert, activation)
            for column in range(3):
                walk.touch(*row_of("output", layout, row), column)
    assert moe.expert_mlp(record) == walk.cost


def experts_weights(bias, experts=3, width=3, inner=2):
    return {
        "w_gate_up": (experts, 2 * inner, width),
        "w_down": (experts, width, inner),
        "b_gate_up": (experts, 2 * inner) if bias else None,
        "b_down": (experts, width) if bias else None,
    }


def mlp(walk, row, expert, activation, width=3, inner=2):
    walk.linear(row, "w_gate_up", "b_gate_up", (expert,), 2 * inner, width)
    walk.flops += inner * ACTIVATED[activation]
    walk.linear(("activated", 0), "w_down", "b_down", (expert,), width, inner)


@pytest.mark.parametrize("counts", [[0, 2, 3], [-1, 9, 0]])
def test_float8_products_clamp_the_counts(counts):
    layout, columns, contraction = MaskedLayout(3), 128, 256
    shapes = {
        "a": (3, 3, contraction),
        "a_scale": (3, 3, 2),
        "b": (3, columns, contraction),
        "b_scale": (3, 1, 2),
        "layout_metadata": (3,),
        "output": (3, 3, columns),
    }
    indices = {"E": 3, "N": columns, "K": contraction, "R": 9}
    record = Record(shapes, indices, {"layout": layout}, {"layout_metadata": counts})
    flops, moved = 0, record.bytes("layout_metadata")
    for count in counts:
        rows = range(3)[: max(count, 0)]
        for _row, _block in product(rows, range(contraction // 128)):
            flops += columns // 128
            flops += sum(2 * 128 + 2 for _column in range(columns))
        moved += len(rows) * (2 * contraction + 4 * 2 + 2 * columns)
        moved += bool(rows) * (2 * columns * contraction + 4 * 2)
    assert moe.grouped_gemm_fp8(record) == (flops, moved)


def routed(ids, *, bias=False, factor=1.0, **parameters):
    """The record of the sum over each token's experts, and how its operations are walked."""
    tokens, k = len(ids), len(ids[0]) if ids else 2
    shapes = experts_weights(bias) | {
        "hidden_states": (tokens, 3),
        "topk_weights": (tokens, k),
        "topk_ids": (tokens, k),
        "output": (tokens, 3),
    }
    parameters = {"routed_scaling_factor": factor} | parameters
    indices = {"M": tokens, "E": 3, "K": k, "H": 3, "F": 2}
    return Record(shapes, indices, parameters, {"topk_ids": ids})


def walk_routes(walk, ids, factor, activation, output="output"):
    for token, experts in enumerate(ids):
        for expert in experts:
            mlp(walk, ("hidden_states", token), expert, activation)
            walk.flops += factor != 1
            for column in range(3):
                walk.touch(output, token, column)
                walk.flops += 2


IDS = {"one": [[1]], "all": [[0, 1], [2, 1]], "some": [[2, 0], [0, 2], [0, 2]]}
IDS |= {"twice the same": [[1, 1]], "no token": []}


@pytest.mark.parametrize("factor", [1.0, 2.5])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_the_sum_over_experts(ids, bias, factor):
    for named in ({}, {"activation": "silu_and_mul"}, {"activation": "swigluoai"}):
        record = routed(ids, bias=bias, factor=factor, **named)
        walk = Walk(record)
        walk.touch_all("topk_weights", "topk_ids")
        walk_routes(walk, ids, factor, named.get("activation", "silu_and_mul"))
        assert moe.routed_experts(record) == walk.cost


ROUTERS = {
    "softmax": {"scoring_func": "softmax"},
    "sigmoid": {"scoring_func": "sigmoid", "renormalize": True},
    "factor": {"scoring_func": "sigmoid", "routed_scaling_factor": 2.5},
    "groups": {"num_expert_group": 4, "topk_group": 2, "top_k": 3},
    "every group": {"num_expert_group": 2, "topk_group": 2, "renormalize": True},
}


def router(experts=8, tokens=3, biased=False, **given):
    defaults = {
        "top_k": 2,
        "scoring_func": "softmax",
        "renormalize": False,
        "num_expert_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 1.0,
    }
    parameters = defaults | given
    shapes = {
        "gating_output": (tokens, experts),
        "correction_bias": (experts,) if biased else None,
        "topk_weights": (tokens, parameters["top_k"]),
        "topk_ids": (tokens, parameters["top_k"]),
    }
    return Record(shapes, {"M": tokens, "E": experts}, parameters)


def choices(experts, tokens, biased, given):
    """Operations of a router, walked token by token, group by group, logit by logit."""
    count = 0
    size = experts // given["num_expert_group"]
    for _token in range(tokens):
        for _logit in range(experts):
            count += 5 if given["scoring_func"] == "softmax" else 4
            count += biased
        if given["num_expert_group"] > 1:
            for _group in range(given["num_expert_group"]):
                count += size + 1  # its best, and itself among the groups
                count += size + 1 if biased else 0  # its second best, and the sum of both
        for _group in range(given["topk_group"]):
            count += size
        for _chosen in range(given["top_k"]):
            count += 2 if given["renormalize"] else 0
            count += given["routed_scaling_factor"] != 1
    return count


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("given", ROUTERS.values(), ids=ROUTERS)
def test_a_router(given, biased):
    record = router(biased=biased, **given)
    flops, moved = moe.top_k(record)
    assert flops == choices(8, 3, biased, record.parameters)
    assert moved == sum(map(record.bytes, record.tensors))


def layer(ids, stages, factor, shared=None, **parameters):
    """A whole layer's record, with a shared expert of an inner width if one is given."""
    record = routed(ids, factor=factor, **parameters)
    given = router(experts=3, tokens=len(ids), routed_scaling_factor=factor)
    shapes = {name: record.tensors[name] for name in record.tensors if "topk" not in name}
    shapes["gating_output"] = given.tensors["gating_output"]
    if shared is not None:
        shapes["routed_output"] = shapes.pop("output")
        shapes |= {"shared_w_gate_up": (2 * shared, 3), "shared_w_down": (3, shared)}
        shapes["shared_output"] = shapes["routed_output"]
    indices = record.indices | {"F_s": shared}
    del indices["K"]
    return Record(shapes, indices, given.parameters | record.parameters, stages=stages)


@pytest.mark.parametrize("factor", [1.0, 2.5])
@pytest.mark.parametrize("ids", [[[0, 2], [2, 0]], [[1, 1], [1, 1]], [[0, 1], [1, 2]]])
def test_a_layer_reads_the_experts_its_router_chose(ids, factor):
    stages = {"routed_experts": [routed(ids)]}
    record = layer(ids, stages, factor, activation="gelu_and_mul")
    walk = Walk(record)
    # The factor is the experts' business: the router of a layer has 1.
    walk.flops = choices(3, len(ids), False, record.parameters | {"routed_scaling_factor": 1.0})
    walk.touch_all("gating_output")
    walk_routes(walk, ids, factor, "gelu_and_mul")
    assert moe.fused_moe(record) == walk.cost


def test_without_a_record_of_the_choice_there_are_as_many_experts_as_routes():
    for chosen, guess in ([[[0, 2]], {}], [[[0, 1], [2, 1]], {}], [[], {}]):
        told = layer(chosen, {"routed_experts": [routed(chosen)]}, 1.0)
        assert moe.fused_moe(layer(chosen, guess, 1.0)) == moe.fused_moe(told)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_rank_reads_its_part_of_the_shared_expert(ranks):
    ids = [[0, 2], [2, 0]]
    stages = {"routed_experts": [routed(ids)]}
    record = layer(ids, stages, 1.0, shared=4, tp_size=ranks, tp_rank=ranks - 1)
    walk = Walk(record)
    walk.flops = choices(3, len(ids), False, record.parameters)
    walk.touch_all("gating_output", "shared_output")
    walk_routes(walk, ids, 1.0, "silu_and_mul", "routed_output")
    mine = range(4)[(ranks - 1) * 4 // ranks :]
    for token, inner in product(range(len(ids)), mine):
        for column in range(3):
            walk.touch("hidden_states", token, column)
            walk.touch("shared_w_gate_up", inner, column)
            walk.touch("shared_w_gate_up", 4 + inner, column)
            walk.touch("shared_w_down", column, inner)
            walk.flops += 6
        walk.flops += ACTIVATED["silu_and_mul"]
    assert moe.fused_moe_shared(record) == walk.cost


def test_without_a_shared_expert_the_layer_is_the_routed_one():
    ids = [[0, 1]]
    record = layer(ids, {}, 1.0, tp_size=2, tp_rank=0)
    assert moe.fused_moe_shared(record) == moe.fused_moe(record)
