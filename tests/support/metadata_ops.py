"""Entries of ops whose inputs describe others: packed, paged, sparse and routed ones.

Between them they use every generator and every predicate, the way that real ops do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.spec.catalogue import load_spec_from

_FLOATS = "DType[float16 | bfloat16]"
_CASES = [{"T": "float16"}, {"T": "bfloat16"}]


def ints(shape: str, values: str, *requires: str, dtype: str = "int32", **more: Any) -> Any:
    """An input of ints, how a row makes them and what they must meet."""
    return {
        "dtype": dtype,
        "shape": shape,
        "values": values,
        **({"requires": list(requires)} if requires else {}),
        **more,
    }


def floats(shape: str, dtype: str = "T", **more: Any) -> Any:
    """A tensor that describes nothing."""
    return {"dtype": dtype, "shape": shape, **more}


def entry(
    dims: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    rows: list[dict[str, Any]],
    *,
    seqs: str = "",
    shapes: str = "",
    params: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """An entry; ``dims``, ``seqs`` and ``shapes`` are names, and T is a 16-bit float."""
    forall = {
        **dict.fromkeys(dims.split(), "Dim"),
        **dict.fromkeys(shapes.split(), "Shape"),
        **dict.fromkeys(seqs.split(), "Seq[Int]"),
        "T": _FLOATS,
    }
    signature = {"forall": forall, "inputs": inputs, "outputs": outputs, **more}
    if params:
        signature["params"] = dict(params)
    return {
        "family": "probe",
        "status": "spec-only",
        "signature": signature,
        "workloads": [{**row, "dtype_cases": _CASES} for row in rows],
        "roofline": {"flops": "1"},
    }


_INT = {"type": "int"}
_PAGES = {
    "block_table": ints("[B, W]", "paged_block_table(B, W, NP)", "in_range(0, NP)"),
}

_LAYOUT = {
    "Rows": {
        "params": {"layout": "MGroupedLayout", "E": "Dim", "P": "Dim", "K": "Dim"},
        "match": "layout",
        "cases": [
            {"when": {"masked": "_"}, "is": "[E, layout.max_m, K]"},
            {"when": {"contiguous": "_"}, "is": "[P, K]"},
        ],
    },
    "Metadata": {
        "params": {"layout": "MGroupedLayout", "E": "Dim", "P": "Dim"},
        "match": "layout",
        "cases": [
            {"when": {"masked": "_"}, "is": "[E]"},
            {"when": {"contiguous": {"metadata_kind": "physical_psum"}}, "is": "[E]"},
            {"when": {"contiguous": {"metadata_kind": "per_row"}}, "is": "[P]"},
        ],
    },
}


def contiguous(metadata_kind: str, alignment: int = 1) -> dict[str, Any]:
    """A contiguous layout as an entry writes it."""
    packing = "tight" if alignment == 1 else "aligned"
    fields = {"packing": packing, "metadata_kind": metadata_kind, "alignment": alignment}
    return {"contiguous": fields}


SPECS: Mapping[str, dict[str, Any]] = {
    "PackedFwdOp": entry(
        "B T_q T_kv H H_kv D",
        {
            "q": floats("[T_q, H, D]"),
            "k": floats("[T_kv, H_kv, D]"),
            "cu_seqlens_q": ints("[B + 1]", "prefix_sum(q_lens)", "prefix_offsets(T_q)"),
            "cu_seqlens_kv": ints("[B + 1]", "prefix_sum(kv_lens)", "prefix_offsets(T_kv)"),
        },
        {"o": floats("[T_q, H, D]")},
        [
            {
                "label": "llama-mixed", "B": 8, "T_q": 4096, "T_kv": 16384, "H": 32, "H_kv": 8,
                "D": 128, "q_lens": "repeat(512, 8)", "kv_lens": "repeat(2048, 8)",
            },
            {
                "label": "one-empty", "B": 3, "T_q": 5, "T_kv": 9, "H": 2, "H_kv": 1, "D": 4,
                "q_lens": [2, 0, 3], "kv_lens": [3, 1, 5],
            },
        ],
        seqs="q_lens kv_lens",
        shape_rules=["H_kv > 0 and H % H_kv == 0"],
    ),
    "ChunkedFwdOp": entry(
        "N T_q C H SEL D",
        {
            "q": floats("[T_q, H, D]"),
            "k_cmp": floats("[C, H, D]"),
            "block_indices": ints(
                "[T_q, H, SEL]",
                "nsa_block_indices(seq_lens, block_size, SEL, H)",
                "in_range(0, T_q + 1)",
            ),
            "block_counts": ints(
                "[T_q, H]", "nsa_block_counts(T_q, H, SEL)", "in_range(0, SEL + 1)"
            ),
            "cu_seqlens": ints("[N + 1]", "prefix_sum(seq_lens)", "prefix_offsets(T_q)"),
            "offsets": ints(
                "[N + 1]",
                "chunk_offsets(seq_lens, block_size)",
                "prefix_offsets(C)",
                "chunk_offsets_of(cu_seqlens, block_size)",
            ),
            "token_indices": ints(
                "[T_q, 2]", "token_indices(seq_lens)", "indices_within(cu_seqlens)"
            ),
            "positions": ints(
                "[T_q]", "packed_positions(seq_lens)", "in_range(0, T_q)", dtype="int64"
            ),
        },
        {"o": floats("[T_q, H, D]")},
        [
            {
                "label": "nsa-prefill", "N": 3, "T_q": 1700, "C": 28, "H": 4, "SEL": 16, "D": 64,
                "block_size": 64, "seq_lens": [1000, 600, 100],
            }
        ],
        seqs="seq_lens",
        params={"block_size": _INT},
    ),
    "PagedFwdOp": entry(
        "B S_q H D NP PS W K",
        {
            "q": floats("[B, S_q, H, D]"),
            "kv_cache": floats("[NP, PS, D]"),
            **_PAGES,
            "cache_seqlens": ints("[B]", "as_tensor(cache_lens)", "in_range(S_q, W * PS + 1)"),
            "indices": ints(
                "[B, S_q, K]",
                "attn.sparse_topk_positions(cache_lens, S_q, K)",
                "in_range(-1, W * PS)",
            ),
        },
        {"o": floats("[B, S_q, H, D]")},
        [
            {
                "label": "deepseek-decode", "B": 16, "S_q": 2, "H": 128, "D": 576, "NP": 1024,
                "PS": 64, "W": 64, "K": 2048, "cache_lens": "balanced_sizes(60000, 16)",
            }
        ],
        seqs="cache_lens",
        shape_rules=["S_q > 0 and PS > 0"],
    ),
    "GatherFwdOp": entry(
        "B T_q NP PS W",
        {
            "kv_cache": floats("[NP, PS, *E]"),
            **_PAGES,
            "cu_seqlens": ints(
                "[B + 1]", "prefix_sum(seq_lens)", "prefix_offsets(T_q)", "max_segment(W * PS)"
            ),
            "result": floats("[T_q, *E]", mutated=True, write_only=True),
            "seq_starts": ints(
                "[B]",
                "as_tensor(starts)",
                "in_range(0, W * PS)",
                "attn.paged_fits(cu_seqlens, W * PS)",
                optional=True,
            ),
        },
        {"gathered": floats("[T_q, *E]", alias="result")},
        [
            {
                "label": "mla", "B": 4, "T_q": 4096, "NP": 1024, "PS": 64, "W": 64, "E": [576],
                "seq_lens": "repeat(1024, 4)",
            },
            {
                "label": "prefix", "B": 4, "T_q": 4096, "NP": 200, "PS": 64, "W": 64,
                "E": [8, 128], "seq_lens": "repeat(1024, 4)", "starts": [0, 64, 3, 1000],
                "some": ["seq_starts"],
            },
        ],
        seqs="seq_lens starts",
        shapes="E",
    ),
    "SlotsFwdOp": entry(
        "N D NP PS",
        {
            "k": floats("[N, D]"),
            "k_cache": floats("[NP, PS, D]", mutated=True),
            "slots": ints("[N]", "sample_indices(N, NP * PS)", "in_range(-1, NP * PS)"),
        },
        {},
        [{"label": "write", "N": 4096, "D": 128, "NP": 512, "PS": 16}],
    ),
    "IndexerFwdOp": entry(
        "S S_kv H D first",
        {
            "q": floats("[S, H, D]"),
            "k": floats("[S_kv, D]"),
            "starts": ints(
                "[S]", "key_windows(seq_lens, first, S, 'start')", "in_range(0, S_kv + 1)"
            ),
            "ends": ints("[S]", "key_windows(seq_lens, first, S, 'end')", "in_range(0, S_kv + 1)"),
        },
        {"logits": floats("[S, S_kv]", "float32")},
        [
            {
                "label": "second-chunk", "S": 2048, "S_kv": 8192, "H": 64, "D": 128,
                "first": 6144, "seq_lens": [4096, 4096],
            }
        ],
        seqs="seq_lens",
    ),
    "SparseFwdOp": entry(
        "B S S_kv H D K",
        {
            "q": floats("[B, S, H, D]"),
            "kv": floats("[B, S_kv, D]"),
            "indices": ints(
                "[B, S, H, K]",
                "causal_topk_indices(B, S, H, K, S_kv, start, stride)",
                "in_range(0, S_kv + 1)",
            ),
            "ends": ints("[B, S]", "full((B, S), S_kv)", "in_range(0, S_kv + 1)"),
        },
        {"o": floats("[B, S, H, D]")},
        [
            {
                "label": "dsa", "B": 1, "S": 64, "S_kv": 1024, "H": 1, "D": 128, "K": 256,
                "start": 0, "stride": 1,
            }
        ],
        params={"start": _INT, "stride": _INT},
    ),
    "RoutedFwdOp": entry(
        "M K E H N",
        {
            "hidden": floats("[M, H]"),
            "weight": floats("[E, N, H]"),
            "topk_ids": ints("[M, K]", "topk_ids(M, K, E)", "in_range(0, E)"),
            "drafts": ints("[M, N]", "random_ids(M, N, E)", "in_range(0, E)"),
            "places": ints("[M * K]", "sample_indices(M * K, M * K)", "in_range(0, M * K)"),
        },
        {"o": floats("[M, N]")},
        [
            {"label": "qwen3-30b", "M": 512, "K": 8, "E": 128, "H": 256, "N": 96},
        ],
    ),
    "SizesFwdOp": entry(
        "M G K N",
        {
            "a": floats("[M, K]"),
            "b": floats("[G, K, N]"),
            "sizes": ints("[G]", "as_tensor(balanced_sizes(M, G))", "in_range(0, M + 1)",
                          "sums_to(M)"),
            "offsets": ints("[G]", "exclusive_prefix_sum(balanced_sizes(M, G))",
                            "exclusive_prefix_of(sizes)"),
        },
        {"d": floats("[M, N]")},
        [{"label": "mixtral", "M": 4100, "G": 8, "K": 512, "N": 256}],
    ),
    "LayoutFwdOp": entry(
        "P K N E",
        {
            "a": floats("Rows[layout, E, P, K]"),
            "b": floats("[E, N, K]"),
            "layout_metadata": ints(
                "Metadata[layout, E, P]",
                "moe.layout_metadata(layout, R, E)",
                "moe.layout_valid(layout, R, E)",
            ),
        },
        {"o": floats("Rows[layout, E, P, N]")},
        [
            {"label": "ends", "P": 4096, "K": 512, "N": 96, "E": 60,
             "layout": contiguous("physical_psum")},
            {"label": "ends-aligned", "P": 4096, "K": 512, "N": 96, "E": 60,
             "layout": contiguous("physical_psum", 16)},
            {"label": "rows", "P": 4096, "K": 512, "N": 96, "E": 60,
             "layout": contiguous("per_row")},
            {"label": "rows-aligned", "P": 4096, "K": 512, "N": 96, "E": 60,
             "layout": contiguous("per_row", 16)},
            {"label": "masked", "K": 512, "N": 96, "E": 60, "layout": {"masked": {"max_m": 64}}},
        ],
        params={"layout": {"type": "MGroupedLayout"}},
        types=_LAYOUT,
        let={"R": "E * layout.max_m if layout.kind == 'masked' else P"},
    ),
    "MaskedFwdOp": entry(
        "K N E routes",
        {
            "a": floats("[E, max_rows, K]"),
            "b": floats("[E, N, K]"),
            "layout_metadata": ints(
                "[E]",
                "moe.masked_routed_metadata(layout, E, routes)",
                "moe.layout_valid(layout, R, E)",
            ),
        },
        {"o": floats("[E, max_rows, N]")},
        [
            {"label": "decode", "K": 512, "N": 128, "E": 32, "routes": 1000,
             "layout": {"masked": {"max_m": 32}}},
        ],
        params={"layout": {"type": "MGroupedLayout"}},
        let={
            "max_rows": "layout.max_m if layout.kind == 'masked' else 0",
            "R": "E * max_rows",
        },
    ),
    "PooledFwdOp": entry(
        "B S D NS NC",
        {
            "x": floats("[B, S, D]"),
            "cu_seqlens": ints(
                "[NS + 1]", "prefix_sum(seq_lens)", "prefix_offsets(S)", optional=True
            ),
            "chunk_indices": ints(
                "[NC, 2]", "chunk_indices(seq_lens, chunk_size)", optional="present(cu_seqlens)"
            ),
        },
        {"o": floats("[B, D]")},
        [
            {
                "label": "ragged", "B": 1, "S": 4097, "D": 128, "NS": 2, "NC": 65,
                "chunk_size": 64, "seq_lens": [4000, 97], "some": ["cu_seqlens"],
            },
            {"label": "dense", "B": 2, "S": 4096, "D": 128, "chunk_size": 64},
        ],
        seqs="seq_lens",
        params={"chunk_size": _INT},
    ),
}  # fmt: skip
"""Entries by op name."""


def signature_of(op: str, **changes: Any) -> Signature:
    """The signature of one of the entries, with parts of it replaced."""
    entry = {**SPECS[op], **changes}
    return build_signature(load_spec_from(entry, op))
