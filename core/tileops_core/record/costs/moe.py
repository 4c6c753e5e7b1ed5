"""Work of mixtures of experts: of the rows that are routed, by the experts that have any.

An expert without rows reads no weights; rows of padding, or behind an expert's last, are neither
read nor written. Indices are those of the entries: M tokens, H their width, F an expert's inner
width and F_s a shared expert's, E experts; of a grouped product N columns and the contraction K.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall

# Operations per gate and value. silu: negate, exp, add, divide. gelu: scale, erf, half, a product
# and a sum to join them. swigluoai: the gate's minimum, scale, exp, add, divide, two comparisons
# and a sum for the value. Then the product with the value.
_ACTIVATION = {None: 0, "silu_and_mul": 5, "gelu_and_mul": 6, "swigluoai": 9}
_BLOCK = 128


def top_k(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a router: :func:`_routing`, and a product per weight for the factor."""
    given = record.parameters
    scaled = record.indices["M"] * given["top_k"] if given["routed_scaling_factor"] != 1 else 0
    return _routing(record) + scaled, _moved(record)


def grouped_gemm(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a grouped product with bias and activation.

    Per row ``2 K W``, W the rows of an expert's ``b``, W for the bias, and N activated values.
    """
    held, columns, contraction = _held(record), record.indices["N"], record.indices["K"]
    activation = record.parameters["activation"]
    width = columns if activation is None else 2 * columns
    row = 2 * contraction * width + _ACTIVATION[activation] * columns
    row += width if record.present("bias") else 0
    return sum(held) * row, _moved_by(record, held, ("b", "bias"), ("a", "output"))


def grouped_gemm_fp8(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a grouped product of float8 codes with scaled blocks.

    Per row ``2 K N``; for each block of K the products of the row's scale with those of all blocks
    of N, and for each column the product of the partial sum with that, and its addition.
    """
    columns, contraction = record.indices["N"], record.indices["K"]
    most = record.parameters["layout"].max_m
    held = [min(max(rows, 0), most) for rows in record.metadata_values("layout_metadata")]
    row = 2 * contraction * columns
    row += contraction // _BLOCK * (columns // _BLOCK + 2 * columns)
    return sum(held) * row, _moved_by(record, held, ("b", "b_scale"), ("a", "a_scale", "output"))


def expert_mlp(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of every expert's two products with its rows."""
    held = _held(record)
    weights, rows = ("w_gate_up", "w_down", "b_gate_up", "b_down"), ("expert_input", "output")
    return sum(held) * _mlp(record), _moved_by(record, held, weights, rows)


def routed_experts(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of the weighted sum over each token's experts."""
    used = {expert for token in record.metadata_values("topk_ids") for expert in token}
    return _routed(record, record.indices["K"]), _moved(record, _weights(record, len(used)))


def fused_moe(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a router and its experts.

    The logits decide which experts are used, and no record reads those. The record of the stage
    that was given the router's choice tells; without one, as many are used as there are routes.
    """
    k = record.parameters["top_k"]
    shares = _weights(record, _chosen(record, k))
    return _routing(record) + _routed(record, k), _moved(record, shares)


def fused_moe_shared(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a router, its experts, and this rank's part of a shared expert.

    Per token ``6 H F_s + 5 F_s``, and all of the shared expert's weights, over ``tp_size``.
    """
    k, ranks = record.parameters["top_k"], record.parameters["tp_size"]
    flops = _routing(record) + _routed(record, k)
    shares = _weights(record, _chosen(record, k))
    if record.present("shared_w_gate_up"):
        inner = record.indices["F_s"] // ranks
        per_value = 6 * record.indices["H"] + _ACTIVATION["silu_and_mul"]
        flops += record.indices["M"] * inner * per_value
        shares |= dict.fromkeys(("shared_w_gate_up", "shared_w_down"), (1, ranks))
    return flops, _moved(record, shares)


def _routing(record: SignatureCall) -> int:
    """Scores of all logits, and the choice among them.

    Per logit of a softmax compare, subtract, exp, add, divide; of a sigmoid negate, exp, add,
    divide; its bias, and a comparison in its group. Per group a comparison, with a bias (which
    takes the two best of a group) another one per logit and a sum. Then a comparison per logit of
    the groups chosen. Per chosen expert a sum and a quotient to renormalize.
    """
    tokens, experts, given = record.indices["M"], record.indices["E"], record.parameters
    groups, biased = given["num_expert_group"], record.present("correction_bias")
    per_token = experts * (5 if given["scoring_func"] == "softmax" else 4)
    per_token += experts if biased else 0
    if groups > 1:
        per_token += (experts + groups) * (2 if biased else 1)
    per_token += given["topk_group"] * (experts // groups)
    per_token += 2 * given["top_k"] if given["renormalize"] else 0
    return int(tokens * per_token)


def _mlp(record: SignatureCall) -> int:
    """Operations of one row: ``6 H F``, F activated values, the biases."""
    width, inner = record.indices["H"], record.indices["F"]
    # an op without the parameter has silu
    activation = record.parameters.get("activation", "silu_and_mul")
    count = 6 * width * inner + _ACTIVATION[activation] * inner
    count += 2 * inner if record.present("b_gate_up") else 0
    return int(count + (width if record.present("b_down") else 0))


def _routed(record: SignatureCall, k: int) -> int:
    """Operations of all routes: an expert's, then a product and a sum per column.

    A factor of the sum is a product with each weight.
    """
    row = _mlp(record) + 2 * record.indices["H"]
    row += 1 if record.parameters["routed_scaling_factor"] != 1 else 0
    return int(record.indices["M"] * k * row)


def _chosen(record: SignatureCall, k: int) -> int:
    """How many experts a router chose; as many as there are routes where that is not known."""
    for stage in getattr(record, "stages", {}).get("routed_experts", ()):
        ids = stage.metadata_values("topk_ids")
        return len({expert for token in ids for expert in token})
    return int(min(record.indices["E"], record.indices["M"] * k))


def _held(record: SignatureCall) -> list[int]:
    """How many rows each expert has, from the layout's metadata."""
    layout, values = record.parameters["layout"], record.metadata_values("layout_metadata")
    if layout.kind == "masked":
        return list(values)
    if layout.metadata_kind == "per_row":
        owners = Counter(values)
        return [owners[expert] for expert in range(record.indices["E"])]
    held, start = [], 0
    for end in values:
        held.append(end - start)
        start = -(-end // layout.alignment) * layout.alignment
    return held


def _weights(record: SignatureCall, used: int) -> dict[str, tuple[int, int]]:
    """What part of all experts' weights and biases those of ``used`` experts are."""
    share = used, record.indices["E"]
    return dict.fromkeys(("w_gate_up", "w_down", "b_gate_up", "b_down"), share)


def _moved_by(
    record: SignatureCall, held: list[int], weights: tuple[str, ...], rows: tuple[str, ...]
) -> int:
    """Bytes when experts hold ``held`` rows: of the weights theirs, of ``rows`` the filled ones."""
    used = sum(count > 0 for count in held), record.indices["E"]
    filled = sum(held), record.indices["R"]
    return _moved(record, dict.fromkeys(weights, used) | dict.fromkeys(rows, filled))


def _moved(record: SignatureCall, shares: Mapping[str, tuple[Any, Any]] | None = None) -> int:
    """Bytes of all tensors, of those in ``shares`` only that part: a numerator, a denominator."""
    total = 0
    for name in record.tensors:
        part, whole = (shares or {}).get(name, (1, 1))
        total += record.bytes(name) * part // max(whole, 1)
    return total
