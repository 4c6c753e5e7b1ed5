"""How the results of each op are compared, which is a fact about the op.

An op that is not listed is of the plain kind: floating results are close to those of float64, ints
and bools are exact, and inputs of the oracle are widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import attrs

CLOSE, EXACT, ONE_CODE, SETS, TIES, DISTRIBUTION = (
    "close", "exact", "one-code", "sets", "ties", "distribution",
)  # fmt: skip
"""The comparators of :mod:`tileops_core.conformance.compare`, but for the masked one."""


@attrs.frozen
class Kind:
    """What about an op decides how its results are compared.

    Attributes:
        ops: a pattern of ops' names.
        why: the reason.
        outputs: comparators by output or written input; others by their dtype.
        scores: for ``ties``, the input whose elements are chosen among.
        widened: whether the oracle gets float64 copies. Not where a rounding is part of the
            contract.
        casts: inputs that are cast before anything else, to the dtype that a parameter names.
        cancels: inputs whose size, and not the result's, bounds the rounding errors.
        rounds: whether factors of 16 bits may be rounded to the inputs' dtype on the way.
        spreads: whether a NaN in one place may appear in results that do not depend on it.
        random: whether two calls may differ.
    """

    ops: str
    why: str
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    scores: str | None = None
    widened: bool = True
    casts: Mapping[str, str] = attrs.field(factory=dict)
    cancels: tuple[str, ...] = ()
    rounds: bool = False
    spreads: bool = False
    random: bool = False


PLAIN = Kind("*", "float64 decides")

_CAST = "the input is cast to `dtype` before anything is computed"
_CODES = "a quotient beside the middle of two codes may be rounded to either"
_WEIGHTS = (
    "matrix units multiply 16-bit weights with the values, and a hidden key's weight of 0 times "
    "NaN is NaN within a tile"
)
_MOVED = "numbers are moved and not computed"
_EXPERTS = "activated values are rounded before they are multiplied again"
_ROUTES = "scores are those of float32, where small ones are 0, and of equal ones the first counts"

KINDS: tuple[Kind, ...] = (
    Kind("SoftmaxFwdOp", _CAST, casts={"x": "dtype"}),
    Kind("LogSoftmaxFwdOp", _CAST, casts={"input": "dtype"}),
    Kind("SumFwdOp", _CAST, casts={"input": "dtype"}),
    Kind("MeanFwdOp", _CAST, casts={"input": "dtype"}),
    Kind("ProdFwdOp", _CAST, casts={"input": "dtype"}),
    Kind("CumsumFwdOp", _CAST, casts={"input": "dtype"}),
    Kind("CumprodFwdOp", _CAST, casts={"input": "dtype"}),
    Kind("VectorNormFwdOp", _CAST, casts={"x": "dtype", "input": "dtype"}),
    Kind("GELU*FwdOp", "1 + erf(x) and 1 + tanh(x) cancel for negative x", cancels=("input",)),
    Kind("MishFwdOp", "tanh(softplus(x)) is small for negative x", cancels=("input",)),
    Kind("TopKSelectFwdOp", "of equal scores any may be chosen", {"indices": TIES}, "logits"),
    Kind("NSATopKVarlenFwdOp", "blocks come in any order", {"block_indices": SETS}),
    Kind("FusedTopKFwdOp", _ROUTES, widened=False),
    Kind(
        "MoEPermuteAlignFwdOp",
        "routes of one expert come in any order",
        {"sorted_token_ids": SETS},
    ),
    Kind("*ExpertMLPFwdOp", _EXPERTS, widened=False, rounds=True),
    Kind("FusedMoE*FwdOp", _EXPERTS, widened=False, rounds=True),
    Kind("SamplingFromProbsFwdOp", "a draw", {"samples": DISTRIBUTION}, random=True),
    Kind("ChainSpeculativeSamplingFwdOp", "draws decide", widened=False),
    Kind("DropoutFwdOp", "draws decide which elements are dropped", widened=False),
    Kind("FusedAddRMSNormPerTokenQuantFwdOp", _CODES, {"q": ONE_CODE}),
    Kind("INT4QuantPerGroupFwdOp", "two codes share a byte", widened=False),
    Kind("*Quant*FwdOp", _CODES, {"q": ONE_CODE}, widened=False),
    Kind("FP8LightningIndexerFwdOp", "keys are rounded to fp8 on the way", widened=False),
    Kind("*KVCacheWriteFwdOp", _MOVED, widened=False),
    Kind("*KVCacheGatherFwdOp", _MOVED, widened=False),
    Kind("FloorDivideFwdOp", "the quotient is rounded before its floor", widened=False),
    Kind("RemainderFwdOp", "as torch has it, in the inputs' dtype", widened=False),
    Kind("GQA*", _WEIGHTS, rounds=True, spreads=True),
    Kind("MHA*", _WEIGHTS, rounds=True, spreads=True),
    Kind("MLA*", _WEIGHTS, rounds=True, spreads=True),
    Kind("NSA*", _WEIGHTS, rounds=True, spreads=True),
    Kind("DSA*", _WEIGHTS, rounds=True, spreads=True),
)
"""The first that fits counts."""


def kind_of(op: str) -> Kind:
    """How an op's results are compared."""
    return next((kind for kind in KINDS if fnmatchcase(op, kind.ops)), PLAIN)
