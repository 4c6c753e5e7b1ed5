"""For each code that text can provoke, an entry's part that has the fault, and one that has not.

Each part stands in the same small entry, so that a test can prove all of them.
"""

from __future__ import annotations

import textwrap

import attrs

_PARTS = {
    "family": "probe",
    "status": "spec-only",
    "signature.forall": '{M: Dim, N: Dim, S: Shape, T: "DType[float16 | float32]"}',
    "signature.params": """
        flag: {type: bool, default: false}
        mode: {type: "'a' | 'b'", default: a}
        cap: {type: int | None, default: null}
        stride: {type: "int | tuple[int, int]", default: 1}
        dim: {type: "int | list[int] | tuple[int, ...]", default: 0}
    """,
    "signature.inputs": """
        x: {dtype: T, shape: "[M, N, *S]"}
        w: {dtype: T, shape: "[N]", optional: true}
    """,
    "signature.outputs": 'y: {dtype: T, shape: "[M, N, *S]"}',
    "workloads": "- {label: tiny, M: 2, N: 3, S: [4], dtype_cases: [{T: float16}]}",
}
"""The entry that the examples change: its parts by their place, in order."""

OP = "ProbeFwdOp"


@attrs.frozen
class Example:
    """A part of an entry: where it stands, with the fault, and without.

    ``at`` is the part's place, as ``signature.let``, or ``""`` for lines of the entry itself.
    ``also`` are other parts of the entry that the example needs, and shows.
    """

    at: str
    wrong: str
    right: str
    also: tuple[tuple[str, str], ...] = ()

    def text(self, part: str) -> str:
        """The part as it stands in an entry."""
        lines = [_under(place.rpartition(".")[2], text) for place, text in self.also]
        key = self.at.rpartition(".")[2]
        return "\n".join([*lines, _under(key, part) if key else part])

    def entry(self, part: str) -> str:
        """The whole entry with the part in it."""
        changes = {**dict(self.also), **({self.at: part} if self.at else {})}
        text = entry_text(changes)
        return text if self.at else f"{text}{textwrap.indent(part, '  ')}\n"


def entry_text(changes: dict[str, str] | None = None) -> str:
    """The small entry, with parts replaced or added; a part of None is left out."""
    parts = {**_PARTS, **(changes or {})}
    lines = [f"{OP}:"]
    inside = {k.rpartition(".")[2]: v for k, v in parts.items() if k.startswith("signature.")}
    for key in ("family", "status", "ref_api"):
        if key in parts:
            lines.append(textwrap.indent(_under(key, parts[key]), "  "))
    if "signature" in parts:
        lines.append(textwrap.indent(_under("signature", parts["signature"]), "  "))
    else:
        lines.append("  signature:")
        lines += [textwrap.indent(_under(k, v), "    ") for k, v in inside.items()]
    for key in ("workloads", "roofline", "composition"):
        if key in parts:
            lines.append(textwrap.indent(_under(key, parts[key]), "  "))
    return "\n".join([*lines, ""])


def _under(key: str, text: str) -> str:
    """``key: text``, or the key with lines of text below it."""
    block = textwrap.dedent(text).strip("\n").rstrip()
    if "\n" not in block and not block.startswith("- ") and ": " not in _outside(block):
        return f"{key}: {block}"
    return f"{key}:\n{textwrap.indent(block, '  ')}"


def _outside(text: str) -> str:
    """The text, if it is not in brackets or quotes as a whole."""
    return "" if text[:1] in "{[\"'" else text


_RULES = "signature.shape_rules"
_LET = "signature.let"
_TYPES = "signature.types"
_INPUTS = "signature.inputs"
_OUTPUTS = "signature.outputs"
_PARAMS = "signature.params"
_FORALL = "signature.forall"
_MAT = """
    Mat:
      params: {t: Bool, A: Dim, B: Dim}
      match: t
      cases:
        - {when: false, is: "[A, B]"}
        - {when: true, is: "[B, A]"}
"""
_TURNED = 'x: {dtype: T, shape: "Mat[flag, M, N]"}'
_FLAT = "- {label: tiny, M: 2, N: 3, dtype_cases: [{T: float16}]}"
_TWO = '{M: Dim, N: Dim, T: "DType[float16 | float32]"}'
_PLAIN = 'y: {dtype: T, shape: "[M, N]"}'
_FAMILY_AROUND = (
    (_FORALL, _TWO), (_INPUTS, _TURNED), (_OUTPUTS, _PLAIN), ("workloads", _FLAT),
)  # fmt: skip


def _rule(wrong: str, right: str) -> Example:
    return Example(_RULES, f"- {wrong}", f"- {right}")


EXAMPLES: dict[str, Example] = {
    "yaml-trap": Example(
        _PARAMS, "eps: {type: float, default: 1e-5}", "eps: {type: float, default: 1.0e-5}"
    ),
    "yaml-tag": Example(_LET, "L: !!str M", "L: M"),
    "duplicate-key": Example(_LET, "L: M\nL: N", "L: M\nK: N"),
    "unknown-key": Example(
        _INPUTS,
        'x: {dtype: T, shape: "[M, N, *S]", optinal: true}',
        'x: {dtype: T, shape: "[M, N, *S]", contiguous: true}',
    ),
    "missing-key": Example(_OUTPUTS, "y: {dtype: T}", 'y: {dtype: T, shape: "[M, N, *S]"}'),
    "wrong-value": Example(
        _OUTPUTS, "y: {dtype: T, shape: [M, N]}", 'y: {dtype: T, shape: "[M, N]"}'
    ),
    "bad-name": Example(_LET, "float16: M", "half: M"),
    "expression-syntax": _rule("M >", "M > 0"),
    "expression-size": _rule("M < 99999999999999999999", "M < 9999999999"),
    "not-in-language": _rule("M // [1, 2][0] > 0", "M > 0"),
    "use-present": _rule("cap is None or cap.value > 0", "not present(cap) or cap.value > 0"),
    "use-per-axis": _rule(
        "(stride if isinstance(stride, int) else 1) > 0", "per_axis(stride, 0, 2) > 0"
    ),
    "use-unique-axes": _rule('"len({M, N}) == 2"', "unique_axes(S, dim)"),
    "power": _rule("M ** N > 0", "M ** 2 > 0"),
    "unknown-type": Example(
        _PARAMS, "size: {type: integer, default: 1}", "size: {type: int, default: 1}"
    ),
    "bad-default": Example(
        _PARAMS, "eps: {type: float, default: 1}", "eps: {type: float, default: 1.0}"
    ),
    "param-order": Example(
        _PARAMS,
        "flag: {type: bool, default: false, kw_only: true}\nsize: {type: bool, default: true}",
        "size: {type: bool, default: true}\nflag: {type: bool, default: false, kw_only: true}",
    ),
    "name-taken": Example(_LET, "M: N + 1", "L: N + 1"),
    "unknown-name": _rule("Q > 0", "N > 0"),
    "unknown-primitive": _rule("size(S) > 0", "len(S) > 0"),
    "arguments": Example(_LET, "L: ceil_div(M)", "L: ceil_div(M, 2)"),
    "kind": _rule("M + mode > 0", "M > 0 and mode == 'a'"),
    "maybe-none": _rule("cap > 0", "not present(cap) or cap.value > 0"),
    "never-equal": _rule("mode != 'c'", "mode != 'b'"),
    "tensor-read": _rule("x.shape == w.shape", "N > 0"),
    "rule-defines-name": _rule("L == M * N", "M * N > 0"),
    "unsourced-index": Example(
        _FORALL,
        '{M: Dim, N: Dim, K: Dim, S: Shape, T: "DType[float16 | float32]"}',
        '{M: Dim, N: Dim, S: Shape, T: "DType[float16 | float32]"}',
    ),
    "unsolved": Example(
        _INPUTS, 'x: {dtype: T, shape: "[M * N, *S]"}', 'x: {dtype: T, shape: "[M, N, *S]"}'
    ),
    "unused": Example(
        _INPUTS,
        'x: {dtype: T, shape: "[M, N]"}',
        _TURNED,
        also=((_FORALL, _TWO), (_TYPES, _MAT), (_OUTPUTS, _PLAIN), ("workloads", _FLAT)),
    ),
    "let-cycle": Example(_LET, "L: K + 1\nK: L - 1", "L: K + 1\nK: M - 1"),
    "too-large": _rule(
        "(M * N) ** 8 * (M * N) ** 8 * (M * N) ** 8 * (M * N) ** 8 * (M * N) ** 8 > 0",
        "(M * N) ** 2 > 0",
    ),
    "unknown-family": Example(
        _INPUTS, 'x: {dtype: T, shape: "Mat[flag, M, N]"}', 'x: {dtype: T, shape: "[M, N, *S]"}'
    ),
    "family-match": Example(
        _TYPES,
        _MAT.replace("match: t", "match: A"),
        _MAT,
        also=_FAMILY_AROUND,
    ),
    "family-gap": Example(
        _TYPES,
        _MAT.replace('        - {when: true, is: "[B, A]"}\n', ""),
        _MAT,
        also=_FAMILY_AROUND,
    ),
    "family-overlap": Example(
        _TYPES,
        _MAT + '        - {when: true, is: "[A, B]"}\n',
        _MAT,
        also=_FAMILY_AROUND,
    ),
    "family-cycle": Example(
        _TYPES,
        _MAT.replace('is: "[B, A]"', 'is: "Mat[t, B, A]"'),
        _MAT,
        also=_FAMILY_AROUND,
    ),
    "input-order": Example(
        _INPUTS,
        'w: {dtype: T, shape: "[N]", optional: true}\nx: {dtype: T, shape: "[M, N, *S]"}',
        'x: {dtype: T, shape: "[M, N, *S]"}\nw: {dtype: T, shape: "[N]", optional: true}',
    ),
    "presence": Example(
        _INPUTS,
        'x: {dtype: T, shape: "[M, N, *S]"}\nw: {dtype: T, shape: "[N]", optional: M > 1}',
        'x: {dtype: T, shape: "[M, N, *S]"}\nw: {dtype: T, shape: "[N]", optional: flag}',
    ),
    "effects": Example(
        _OUTPUTS,
        'y: {dtype: T, shape: "[M, N, *S]", alias: x}',
        'y: {dtype: T, shape: "[M, N, *S]", buffer: out}',
    ),
    "dtype-combos": Example(
        "signature.dtype_combos",
        "- {T: float16, K: bfloat16}\n- {T: float32, K: float32}",
        "- {T: float16, K: float16}\n- {T: float32, K: float32}",
        also=(
            (_FORALL, '{M: Dim, T: "DType[float16 | float32]", K: "DType[float16 | float32]"}'),
            (_INPUTS, 'x: {dtype: T, shape: "[M]"}\nw: {dtype: K, shape: "[M]"}'),
            (_OUTPUTS, 'y: {dtype: T, shape: "[M]"}'),
            ("workloads", "- {label: tiny, M: 2, dtype_cases: [{T: float16, K: float16}]}"),
        ),
    ),
    "metadata": Example(
        _INPUTS,
        'x: {dtype: T, shape: "[M, N, *S]"}\n'
        'ids: {dtype: int32, shape: "[M]", requires: ["in_rnge(0, N)"]}',
        'x: {dtype: T, shape: "[M, N, *S]"}\n'
        'ids: {dtype: int32, shape: "[M]", values: "sample_indices(M, N)", '
        'requires: ["in_range(0, N)"]}',
    ),
    "composition": Example(
        "composition",
        "{kind: composite, stages: [{name: one, op: SoftmaxFwdOp}, {name: one, op: SumFwdOp}]}",
        "{kind: composite, stages: [{name: one, op: SoftmaxFwdOp}, {name: two, op: SumFwdOp}]}",
    ),
    "row": Example(
        "workloads",
        "- {label: tiny, M: -2, N: 3, S: [4], dtype_cases: [{T: float16}]}",
        "- {label: tiny, M: 2, N: 3, S: [4], dtype_cases: [{T: float16}]}",
    ),
    "no-branch": Example(
        _RULES,
        "- flag == (mode == 'a')\n- flag != (mode == 'a')",
        "- flag == (mode == 'b')",
    ),
    "not-in-branch": Example(
        _RULES,
        "- layout.max_m > 0",
        "- layout.kind != 'masked' or layout.max_m > 0",
        also=(
            (_PARAMS, "layout: {type: MGroupedLayout}"),
            (
                "workloads",
                """
                - label: tiny
                  layout: {masked: {max_m: 8}}
                  M: 2
                  N: 3
                  S: [4]
                  dtype_cases: [{T: float16}]
                """,
            ),
        ),
    ),
    "yaml-syntax": Example(_LET, "L: [M", "L: M"),
    "branch-unsettled": Example(
        _LET,
        "L: K if flag else 0",
        "L: K if present(w) else 0",
        also=(
            (_FORALL, '{M: Dim, N: Dim, K: Dim, S: Shape, T: "DType[float16 | float32]"}'),
            (
                _INPUTS,
                'x: {dtype: T, shape: "[M, N, *S]"}\nw: {dtype: T, shape: "[K]", optional: true}',
            ),
        ),
    ),
    "effect-branch": Example(
        _OUTPUTS,
        'y: {dtype: T, shape: "[M, N, *S]", alias: x}\n'
        'z: {dtype: T, shape: "[M, N, *S]", alias: x}',
        'y: {dtype: T, shape: "[M, N, *S]", alias: x}\nz: {dtype: T, shape: "[M, N, *S]"}',
        also=((_INPUTS, 'x: {dtype: T, shape: "[M, N, *S]", mutated: true}'),),
    ),
    "no-value": Example(
        "signature.shape_rules", "- not flag or M // 0 > 0", "- not flag or M // 2 > 0"
    ),
    "roofline": Example("roofline", "{flops: M // 5 - 1}", "{flops: M * N}"),
}
"""What provokes each code, and the rewrite. A code without one is of files, of code or of sizes."""
