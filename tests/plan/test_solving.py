"""In which order a call's tensors settle the indices: by what they need, never by the text."""

from __future__ import annotations

import itertools
import random

import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_support import facts, optional, plan, plan_of, signature, solved, spec, statics

from tileops_core.errors import ManifestError, SignatureError
from tileops_core.plan.build import build_plan
from tileops_core.signature.solving import certain_names, solve
from tileops_core.signature.steps import LetStep
from tileops_core.spans import NOWHERE
from tileops_core.spec.grammar import parse_expression

PROFILE = settings(max_examples=40, derandomize=True, database=None, deadline=None)


def expression(text):
    return parse_expression(text, lambda offset, length: NOWHERE)


# -- order --------------------------------------------------------------------------------

ENTRIES = {
    "linear": ("M N K", {"x": "[M, K]", "w": "[N, K]", "bias": "[N]"}, {}),
    "batched": ("*B K N", {"x": "[*B, K]", "w": "[N, K]", "scale": "[*B]"}, {}),
    "two splices": ("*A *B", {"x": "[*A, *B]", "a": "[*A]", "z": "[*B]"}, {}),
    "offsets": ("M N K", {"a": "[2*M + 1]", "b": "[M + N, K]", "c": "[3*(K + 1) - M]"}, {}),
    "chain": ("A B C D", {"d": "[C + D]", "c": "[B + C]", "b": "[A + B]", "a": "[A]"}, {}),
    "products": ("M N", {"flat": "[M * N]", "m": "[M, 2]", "n": "[2, N]"}, {}),
    "optional": (
        "M N K",
        {
            "x": "[M]",
            "w": optional("[N]"),
            "v": optional("[N, K]"),
            "u": optional("[2*N + M, 3*K]"),
        },
        {},
    ),
    "let": ("M N", {"x": "[M]", "tail": "[L, N]", "n": "[N + L]"}, {"let": {"L": "2 * M + 1"}}),
}


def permuted(name):
    """The entry's plan for every order of its required and of its optional inputs."""
    forall, inputs, more = ENTRIES[name]
    required = [item for item in inputs.items() if isinstance(item[1], str)]
    others = [item for item in inputs.items() if not isinstance(item[1], str)]
    for first in itertools.permutations(required):
        for then in itertools.permutations(others):
            yield plan(forall, dict((*first, *then)), **more)


def told(some_plan, inputs):
    """What a call settles, or that it is refused."""
    try:
        return solved(some_plan, inputs)
    except SignatureError:
        return "refused"


LENGTHS = st.integers(0, 4)


@pytest.mark.parametrize("name", ENTRIES)
def test_the_order_of_inputs_changes_neither_what_is_settled_nor_what_is_refused(name):
    forall, inputs, _ = ENTRIES[name]
    first, *others = permuted(name)
    assert len(others) >= 1
    rng = random.Random(name)
    accepted = 0
    for _ in range(200):
        values = {
            n.lstrip("*"): tuple(rng.choices(range(4), k=rng.randrange(3)))
            if n[0] == "*"
            else rng.randrange(4)
            for n in forall.split()
        }
        if name == "let":
            values["L"] = 2 * values["M"] + 1
        made = {}
        for tensor, text in inputs.items():
            if not isinstance(text, str):
                if rng.random() < 0.3:
                    continue
                text = text["shape"]
            shape = eval(f"({text.strip('[]')},)", values)
            if rng.random() < 0.15:
                shape = (*shape[:-1], shape[-1] + 1) if shape else (1,)
            made[tensor] = spec(*(max(n, 0) for n in shape))
        due = told(first, made)
        accepted += due != "refused"
        for other in others:
            answer = told(other, made)
            assert answer == due, (made, other.source)
    assert 50 < accepted < 200


def test_the_order_of_tensors_of_attention_does_not_matter():
    due = None
    for order in itertools.permutations(("q", "k", "v")):
        entry = plan_of("GQADenseFwdOp").signature
        names = {t.name: t for t in entry.inputs}
        inputs = (*(names[n] for n in order), *entry.inputs[3:])
        moved = build_plan(attrs.evolve(entry, inputs=inputs))
        made = {"q": spec(2, 3, 8, 4), "k": spec(2, 5, 2, 4), "v": spec(2, 5, 2, 4)}
        found = solved(moved, made, is_causal=True)
        due = due or found
        assert found == due
        assert found["pairs"] == 3 + 4 + 5


def test_a_let_is_computed_as_soon_as_what_it_reads_is_there():
    steps = solve(signature("M N", {"x": "[M]", "z": "[L + N]"}, let={"L": "M + 1"})).steps
    names = [s.let.name if isinstance(s, LetStep) else s.tensor.name for s in steps]
    assert names == ["x", "L", "z"]


# -- one axis -----------------------------------------------------------------------------

LINEAR = (
    "M", "2*M", "M*2", "M + 3", "3 + M", "M - 1", "2*M + 1", "2*M - 3", "2*(M + 1)", "3*(2*M - 1)",
    "2*(M + K) - 1", "K + 2*M", "M + K - 2", "M - K // 2", "(M + 1)*2 + K % 2", "M + K*K",
)  # fmt: skip


@pytest.mark.parametrize("form", LINEAR)
@pytest.mark.parametrize("known", [0, 3])
def test_an_axis_that_is_linear_in_one_unknown_gives_it(form, known):
    checks = plan("M K", {"k": "[K]", "x": f"[{form}]"})
    lengths = {eval(form, {"M": m, "K": known}): m for m in range(30)}
    for length in range(20):
        made = {"k": spec(known), "x": spec(length)}
        if length in lengths:
            assert solved(checks, made)["M"] == lengths[length]
        else:
            with pytest.raises(SignatureError, match="no whole, non-negative number solves"):
                solved(checks, made)


NONLINEAR = (
    "M*M", "M*N", "1 - M", "-M", "M // 2", "M*K", "M + M", "max(M, 1)", "M % 2", "0*M + 1", "M**2",
    "K - M", "M + N",
)  # fmt: skip


@pytest.mark.parametrize("form", NONLINEAR)
def test_an_axis_of_any_other_form_settles_nothing(form):
    names = "M K N" if "N" in form else "M K"
    with pytest.raises(ManifestError, match=r"x cannot be solved for .*M"):
        plan(names, {"k": "[K]", "x": f"[{form}]"})


@pytest.mark.parametrize("form", ["M*M", "1 - M", "M // 2", "M*K", "max(M, 1)", "K - M"])
def test_an_axis_of_any_other_form_checks_what_others_settle(form):
    checks = plan("M K", {"k": "[K]", "x": f"[{form}]", "m": "[M]"})
    for m, k in itertools.product(range(4), range(6)):
        length = eval(form, {"M": m, "K": k})
        if length >= 0:
            solved(checks, {"k": spec(k), "x": spec(length), "m": spec(m)})
        with pytest.raises(SignatureError):
            solved(checks, {"k": spec(k), "x": spec(abs(length) + 1), "m": spec(m)})


def test_a_second_solution_is_an_equality():
    checks = plan("M", {"x": "[M, 2*M]"})
    assert solved(checks, {"x": spec(3, 6)}) == {"M": 3}
    with pytest.raises(SignatureError, match=r"\(3, 7\), .* = \(3, 6\) \(axis 1 differs\)"):
        solved(checks, {"x": spec(3, 7)})


# -- splices ------------------------------------------------------------------------------

OPEN = ("[*B]", "[*B, M]", "[M, *B]", "[M, *B, N]", "[M, N, *B]", "[*P, *B]", "[*B, *P, M]",
        "[M, *P, *B, N]", "[*B, 3, M + 1]", "[2*M, *B, *P]")  # fmt: skip
SHAPES = st.lists(LENGTHS, max_size=3).map(tuple)


@pytest.mark.parametrize("shape", OPEN)
@PROFILE
@given(B=SHAPES, P=SHAPES, M=LENGTHS, N=LENGTHS)
def test_one_open_splice_takes_what_the_others_leave(shape, B, P, M, N):
    values = {"B": B, "P": P, "M": M, "N": N}
    names = [n for n in ("*B", "M", "N") if n[-1] in shape]
    checks = plan(" ".join(names), {"x": shape}, params={"P": "list[int] | tuple[int, ...]"})
    lengths = eval(f"({shape.strip('[]')},)", values)
    found = solved(checks, {"x": spec(*lengths)}, P=P)
    assert found == {n[-1]: values[n[-1]] for n in names}


@pytest.mark.parametrize("shape", OPEN)
def test_a_tensor_of_too_few_axes_is_refused(shape):
    names = " ".join(n for n in ("*B", "M", "N") if n[-1] in shape)
    checks = plan(names, {"x": shape}, params={"P": "list[int] | tuple[int, ...]"})
    least = len(eval(f"({shape.strip('[]')},)", {"B": (), "P": (4, 4), "M": 4, "N": 4}))
    for rank in range(least):
        with pytest.raises(SignatureError, match=f"at least {least} ax"):
            solved(checks, {"x": spec(*[4] * rank)}, P=(4, 4))


def test_a_second_splice_is_open_no_more_once_another_tensor_settled_it():
    checks = plan("*A *B", {"x": "[*A, *B]", "a": "[*A]"})
    assert solved(checks, {"x": spec(2, 3, 4), "a": spec(2)}) == {"A": (2,), "B": (3, 4)}
    with pytest.raises(SignatureError, match="x has shape"):
        solved(checks, {"x": spec(2, 3), "a": spec(3)})


def test_two_open_splices_settle_nothing():
    with pytest.raises(ManifestError, match="x cannot be solved for A and B"):
        plan("*A *B", {"x": "[*A, *B]"})


def test_a_splice_of_a_primitive_is_checked():
    checks = plan("*A *B", {"a": "[*A]", "b": "[*B]", "x": "[*broadcast(A, B), 2]"})
    solved(checks, {"a": spec(3, 1), "b": spec(4), "x": spec(3, 4, 2)})
    with pytest.raises(SignatureError, match=r"x has shape \(3, 1, 2\)"):
        solved(checks, {"a": spec(3, 1), "b": spec(4), "x": spec(3, 1, 2)})


# -- what only some branches settle -------------------------------------------------------


def test_an_index_of_optional_tensors_is_settled_by_whichever_comes():
    checks = plan("M N", {"x": "[M]", "w": optional("[N]"), "v": optional("[N, 2]")})
    x = spec(2)
    assert solved(checks, {"x": x}) == {"M": 2, "N": None}
    assert solved(checks, {"x": x, "w": spec(3)}) == {"M": 2, "N": 3}
    assert solved(checks, {"x": x, "v": spec(4, 2)}) == {"M": 2, "N": 4}
    assert solved(checks, {"x": x, "w": spec(5), "v": spec(5, 2)}) == {"M": 2, "N": 5}


def test_optional_tensors_that_disagree_are_told_the_length_due():
    checks = plan("M N", {"x": "[M]", "w": optional("[N]"), "v": optional("[2, 2*N + 1]")})
    with pytest.raises(SignatureError) as caught:
        solved(checks, {"x": spec(2), "w": spec(3), "v": spec(2, 5)})
    assert "v has shape (2, 5), the signature says [2, 2*N + 1] = (2, 7)" in str(caught.value)
    assert (caught.value.axis, caught.value.expected) == (1, (2, 7))


def test_an_optional_splice_is_settled_by_whichever_comes():
    checks = plan("*S M", {"x": "[M]", "w": optional("[*S]"), "v": optional("[*S, M]")})
    assert solved(checks, {"x": spec(2), "v": spec(3, 4, 2)}) == {"M": 2, "S": (3, 4)}
    assert solved(checks, {"x": spec(2), "w": spec(3), "v": spec(3, 2)}) == {"M": 2, "S": (3,)}
    with pytest.raises(SignatureError, match=r"v has shape \(4, 2\), .* = \(3, 2\)"):
        solved(checks, {"x": spec(2), "w": spec(3), "v": spec(4, 2)})


def test_an_optional_dtype_is_settled_by_whichever_comes():
    small = {"dtype": "U", "shape": "[M]", "optional": True}
    forall = {"M": "Dim", "U": "DType[float16 | int8]"}
    checks = plan(forall, {"x": "[M]", "w": small, "v": small})
    eight = spec(2, dtype=torch.int8)
    assert facts(checks, {"x": spec(2), "v": eight})["U"] is torch.int8
    assert facts(checks, {"x": spec(2)})["U"] is None
    with pytest.raises(SignatureError, match="v has dtype int8, the signature says U = float16"):
        facts(checks, {"x": spec(2), "w": spec(2, dtype=torch.float16), "v": eight})


FAMILY = {
    "Mat": {
        "params": {"turned": "Bool", "R": "Dim", "C": "Dim"},
        "match": "turned",
        "cases": [{"when": False, "is": "[R, C]"}, {"when": True, "is": "[C, R]"}],
    },
    "Maybe": {
        "params": {"there": "Bool", "N": "Dim"},
        "match": "there",
        "cases": [{"when": False, "is": "[]"}, {"when": True, "is": "[N]"}],
    },
}


@pytest.mark.parametrize("turned", [False, True])
def test_the_branch_of_a_type_family_says_which_axis_is_which(turned):
    checks = plan("M K", {"x": "Mat[t, M, K]"}, types={"Mat": FAMILY["Mat"]}, params={"t": "bool"})
    found = solved(checks, {"x": spec(2, 3)}, t=turned)
    assert found == ({"M": 3, "K": 2} if turned else {"M": 2, "K": 3})


def test_an_index_of_one_branch_alone_is_settled_there_and_by_others():
    more = {"types": {"Maybe": FAMILY["Maybe"]}, "params": {"t": "bool"}}
    checks = plan("N", {"x": "Maybe[t, N]", "z": "[N]"}, **more)
    assert solved(checks, {"x": spec(3), "z": spec(3)}, t=True) == {"N": 3}
    assert solved(checks, {"x": spec(), "z": spec(4)}, t=False) == {"N": 4}
    with pytest.raises(
        SignatureError, match=r"z has shape \(4,\), the signature says \[N\] = \(3,"
    ):
        solved(checks, {"x": spec(3), "z": spec(4)}, t=True)


def test_a_branch_waits_for_the_index_that_chooses_it():
    checks = plan("M N", {"x": "Maybe[M > 1, N]", "m": "[M]"}, types={"Maybe": FAMILY["Maybe"]})
    assert solved(checks, {"x": spec(3), "m": spec(2)}) == {"M": 2, "N": 3}
    assert solved(checks, {"x": spec(), "m": spec(1)}) == {"M": 1, "N": None}


def test_a_branch_may_hang_on_the_presence_of_a_tensor():
    checks = plan(
        "M N",
        {"x": "Maybe[present(w), N]", "w": optional("[M]")},
        types={"Maybe": FAMILY["Maybe"]},
    )
    assert solved(checks, {"x": spec(3), "w": spec(2)}) == {"M": 2, "N": 3}
    assert solved(checks, {"x": spec()}) == {"M": None, "N": None}


# -- conditional axes ---------------------------------------------------------------------


@pytest.mark.parametrize(("wide", "length"), [(True, 6), (False, 3)])
def test_a_conditional_axis_is_solved_on_each_answer(wide, length):
    checks = plan("N", {"x": "[2 * N if t else N]"}, params={"t": "bool"})
    assert solved(checks, {"x": spec(length)}, t=wide) == {"N": 3}
    if wide:
        with pytest.raises(
            SignatureError, match=r"x has 5 on axis 0, the signature says \[2 \* N\]"
        ):
            solved(checks, {"x": spec(5)}, t=wide)


def test_axes_of_one_condition_are_solved_together():
    checks = plan("M N", {"x": "[2 * N if t else N, M if t else N + 1]"}, params={"t": "bool"})
    assert solved(checks, {"x": spec(4, 7)}, t=True) == {"N": 2, "M": 7}
    assert solved(checks, {"x": spec(4, 5)}, t=False) == {"N": 4, "M": None}
    with pytest.raises(SignatureError, match=r"x has shape \(4, 7\)"):
        solved(checks, {"x": spec(4, 7)}, t=False)


def test_a_conditional_axis_waits_for_the_index_that_its_condition_reads():
    checks = plan("M N", {"x": "[2 * N if M > 1 else N]", "m": "[M]"})
    assert solved(checks, {"x": spec(6), "m": spec(2)}) == {"M": 2, "N": 3}
    assert solved(checks, {"x": spec(6), "m": spec(1)}) == {"M": 1, "N": 6}


# -- an index of several tensors ----------------------------------------------------------

TURNED = {
    "A": {
        "params": {"t": "Bool", "N": "Dim", "K": "Dim"},
        "match": "t",
        "cases": [{"when": False, "is": "[K]"}, {"when": True, "is": "[N]"}],
    }
}


def test_what_one_tensor_settles_on_each_branch_is_settled():
    checks = plan(
        "N K",
        {"a": "A[t, N, K]", "b": "A[not t, N, K]"},
        {"y": "[N, K]"},
        types=TURNED,
        params={"t": "bool"},
        shape_rules=["N > 0"],
        let={"both": "N * K"},
    )
    for turned, expected in ((True, {"N": 2, "K": 3}), (False, {"N": 3, "K": 2})):
        found = solved(checks, {"a": spec(2), "b": spec(3)}, t=turned)
        assert found == expected | {"both": 6}
    with pytest.raises(SignatureError, match="N > 0"):
        solved(checks, {"a": spec(0), "b": spec(3)}, t=True)


def test_what_a_restriction_makes_sure_of_is_settled():
    inputs = {"x": "[M]", "v": optional("[N]"), "w": optional("[N]")}
    rules = ["present(v) or present(w)", "N > 1"]
    checks = plan("M N", inputs, {"y": "[N]"}, shape_rules=rules)
    assert solved(checks, {"x": spec(2), "w": spec(3)}) == {"M": 2, "N": 3}
    error = unsolved("M N", inputs, {"y": "[N]"}, shape_rules=rules[1:])
    assert "output y reads N" in str(error)


# -- tensors given at construction --------------------------------------------------------


def table(shape, **more):
    return {"params": {"table": {"dtype": "T", "shape": shape, **more}}}


def constants(checks, tensor):
    found = statics(checks, table=tensor)
    return dict(zip(checks.static_names, found, strict=True)), found


def test_a_tensor_at_construction_settles_what_it_can():
    checks = plan("M", {"x": "[M]"}, **table("[M, 2 * M]"))
    found, held = constants(checks, torch.zeros(2, 4))
    assert (found["M"], found["T"]) == (2, torch.float32)
    assert checks.check(held, spec(2))
    with pytest.raises(
        SignatureError, match=r"x has shape \(3,\), the signature says \[M\] = \(2,"
    ):
        checks.check(held, spec(3))
    with pytest.raises(SignatureError, match=r"table has shape \(2, 5\)"):
        constants(checks, torch.zeros(2, 5))


def test_what_needs_a_call_is_checked_in_the_call():
    checks = plan("M N", {"x": "[M]"}, **table("[N, M // 2]"))
    found, held = constants(checks, torch.zeros(5, 3))
    assert found["N"] == 5
    assert checks.check(held, spec(6))
    with pytest.raises(SignatureError, match=r"table has shape \(5, 3\), .* = \(5, 4\)"):
        checks.check(held, spec(8))


def test_a_rank_that_needs_a_call_is_checked_in_the_call():
    checks = plan("*S M", {"x": "[*S, M]"}, **table("[*broadcast(S, S)]"))
    _, held = constants(checks, torch.zeros(2, 3))
    assert checks.check(held, spec(2, 3, 4))
    with pytest.raises(SignatureError, match=r"table has shape \(2, 3\)"):
        checks.check(held, spec(2, 4))


def test_an_optional_tensor_at_construction_settles_what_a_call_may_settle_too():
    checks = plan("M", {"x": "[M]"}, {"y": "[M]"}, **table("[M]", optional=True))
    found, held = constants(checks, None)
    assert found == {"table": None, "T": None, "M": None}
    facts = checks.check(held, spec(4))
    assert checks.outputs(held, facts)[0][0] == (4,)
    _, held = constants(checks, torch.zeros(3))
    with pytest.raises(
        SignatureError, match=r"x has shape \(4,\), the signature says \[M\] = \(3,"
    ):
        checks.check(held, spec(4))


def test_a_dtype_that_only_a_call_tells_is_no_dtype_of_a_tensor_at_construction():
    error = unsolved("M", {"x": "[M]"}, params={"table": {"dtype": "promote_int_to_float(T)",
                                                          "shape": "[M]"}})  # fmt: skip
    assert "table has a dtype that only a call tells, and is given before" in str(error)


# -- what no order settles ----------------------------------------------------------------


def unsolved(*args, **more):
    with pytest.raises(ManifestError) as caught:
        plan(*args, **more)
    return caught.value


def test_all_that_is_unsolved_is_told_at_once_with_its_place():
    error = unsolved(
        "M N K",
        {"x": "[M * N]", "w": "[K // 2]", "v": optional("[M]")},
        {"y": "[M]"},
        let={"L": "K + 1"},
    )
    about = [p.message.split(" reads ")[0].split(" cannot ")[0] for p in error.problems]
    assert about == ["x", "w", "output y", "let L"]
    for problem in error.problems:
        assert problem.span.line > 0
        assert problem.code == "unsolved"
        assert f"{problem.message}  [{problem.span.short}, " in str(error)
        assert problem.span.text in str(error)
    assert [p.span.text.strip() for p in error.problems] == [
        "shape: [M * N]", "shape: [K // 2]", "shape: [M]", "L: K + 1",
    ]  # fmt: skip
    assert str(error).count("^") >= 4


def test_an_output_may_not_read_what_only_optional_tensors_settle():
    error = unsolved("M N", {"x": "[M]", "w": optional("[N]")}, {"y": "[N]"})
    assert "output y reads N" in str(error)
    assert error.problems[0].span.text.strip() == "shape: [N]"


def test_an_output_may_not_have_a_dtype_that_only_optional_tensors_settle():
    inputs = {"x": {"dtype": "bool", "shape": "[M]"}, "w": optional("[M]")}
    error = unsolved("M", inputs, {"y": "[M]"})
    assert "output y reads T" in str(error)
    assert error.problems[0].span.text.strip() == "dtype: T"


@pytest.mark.parametrize(
    ("part", "more"),
    [
        ("let L", {"let": {"L": "N + 1"}}),
        ("the refinement N > 2", {"shape_rules": ["N > 2"]}),
        ("the roofline", {"roofline": {"flops": "M * N"}}),
        ("the roofline", {"roofline": {"flops": "1", "bytes": "M * N"}}),
    ],
)
def test_what_reads_an_index_of_optional_tensors_has_to_ask_for_them(part, more):
    error = unsolved("M N", {"x": "[M]", "w": optional("[N]")}, **more)
    assert f"{part} reads N, which the inputs do not settle on every branch" in str(error)


def test_what_asks_for_them_first_may_read_it():
    checks = plan(
        "M N",
        {"x": "[M]", "w": optional("[N]")},
        let={"L": "N if present(w) else M"},
        shape_rules=["not present(w) or N > 2", "L > 0"],
        roofline={"flops": "M * (N if present(w) else 1)"},
    )
    assert solved(checks, {"x": spec(3)}) == {"M": 3, "N": None, "L": 3}
    assert solved(checks, {"x": spec(3), "w": spec(4)}) == {"M": 3, "N": 4, "L": 4}
    with pytest.raises(SignatureError, match="not present"):
        solved(checks, {"x": spec(3), "w": spec(2)})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a + b", "ab"),
        ("a if b else c", "b"),
        ("a or b or c", "a"),
        ("a < b < c", "abc"),
        ("f(a, b)", "ab"),
        ("sum(x + a for x in (b, c))", "bc"),
        ("(a if b else c) + d", "bd"),
    ],
)
def test_the_names_read_whatever_holds(text, names):
    assert set(certain_names(expression(text))) == set(names)
