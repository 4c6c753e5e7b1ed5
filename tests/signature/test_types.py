from __future__ import annotations

import pytest

from tileops_core.signature.kinds import (
    ANY_DTYPE,
    BOOL,
    DIM,
    INT,
    SHAPE,
    AdtKind,
    AxesKind,
    Constructor,
    DeviceKind,
    DTypeKind,
    EnumKind,
    IntTupleKind,
    MaybeKind,
    OpaqueKind,
    ScalarKind,
    WordOrKind,
)
from tileops_core.signature.types import (
    RepeatedError,
    TypeTextError,
    describe,
    family_param_kind,
    field_kind,
    index_kind,
    misfit,
    param_kind,
)
from tileops_core.spec.entries import AdtValue

KINDS = [
    ("bool", BOOL),
    ("int", INT),
    ("int | None", MaybeKind(INT)),
    ("float", ScalarKind(("float",))),
    ("float | None", MaybeKind(ScalarKind(("float",)))),
    ("int | float", ScalarKind(("int", "float"))),
    ("Number", ScalarKind(("int", "float", "bool"))),
    ("Number | None", MaybeKind(ScalarKind(("int", "float", "bool")))),
    ("str", ScalarKind(("str",))),
    ("'none' | 'tanh'", EnumKind(("none", "tanh"))),
    ('"a|b" | "c"', EnumKind(("a|b", "c"))),
    ("'silu' | None", MaybeKind(EnumKind(("silu",)))),
    ("float16 | bfloat16", DTypeKind(("float16", "bfloat16"))),
    ("float32 | None", MaybeKind(DTypeKind(("float32",)))),
    ("torch.dtype", ANY_DTYPE),
    ("list[int] | tuple[int, ...]", SHAPE),
    ("int | list[int] | tuple[int, ...]", AxesKind(optional=False)),
    ("int | list[int] | tuple[int, ...] | None", AxesKind(optional=True)),
    ("int | tuple[int, int]", IntTupleKind(2)),
    ("int | tuple[int] | None", MaybeKind(IntTupleKind(1))),
    ("int | tuple[int] | 'valid' | 'same'", WordOrKind(("valid", "same"), IntTupleKind(1))),
    (
        "int | None | tuple[int | None, int | None] | list[int | None]",
        MaybeKind(IntTupleKind(2, holes=True)),
    ),
    ("torch.device | str | None", DeviceKind()),
]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_a_parameters_type_gives_its_kind(text, kind):
    assert param_kind(text) == kind
    assert describe(kind)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "|",
            "int |",
            "int | int",
            "complicated",
            "list[int]",
            "dict",
            "'open",
            "''",
            "'a' | b",
        ),
        *("int | tuple[int", "float16 | int", "None", "bool | 'a'", "Tensor", "float16 | 'a'"),
    ],
)
def test_a_type_that_the_manifest_does_not_know_is_refused(text):
    with pytest.raises(TypeTextError):
        param_kind(text)


def test_an_index_is_a_length_a_shape_or_a_dtype():
    assert index_kind("Dim") == DIM
    assert index_kind("Shape") == SHAPE
    assert index_kind("DType[float16 | bool]") == DTypeKind(("float16", "bool"))


@pytest.mark.parametrize(
    "text", ["dim", "Int", "DType", "DType[]", "DType[half]", "DType[bool | bool]", "Shape[2]"]
)
def test_other_kinds_of_index_are_refused(text):
    with pytest.raises(TypeTextError):
        index_kind(text)


def test_a_type_familys_parameter_is_a_length_a_shape_or_finite():
    assert family_param_kind("Bool") == BOOL
    assert family_param_kind("Dim") == DIM
    assert family_param_kind("'1d' | '2d'") == EnumKind(("1d", "2d"))
    with pytest.raises(TypeTextError):
        family_param_kind("float")


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("bool", [True, False], [0, 1, "true", None]),
        ("int", [0, -3], [True, 1.0, "1", None]),
        ("float", [0.5], [1, True, "0.5", None]),
        ("int | float", [1, 0.5], [True, "1"]),
        ("float | None", [None, 1.0], [1, False]),
        ("'a' | 'b'", ["a"], ["c", None, 1]),
        ("float16 | None", ["float16", None], ["float32", "half", 1]),
        ("torch.dtype", ["int64"], ["int63"]),
        ("list[int] | tuple[int, ...]", [(), (1, 2)], [1, (-1,), (1.0,), (True,), None]),
        ("int | list[int] | tuple[int, ...] | None", [1, (-1, 0), None], [1.0, (None,), True]),
        ("int | list[int] | tuple[int, ...]", [1, (-1, 0)], [None]),
        ("int | tuple[int, int]", [1, (1, 2)], [(1,), (1, 2, 3), None]),
        ("torch.device | str | None", [None, "cpu"], [1]),
        ("int | tuple[int, int] | 'same'", [1, (1, 2), "same"], ["valid", (1,), None, 1.0]),
        (
            "int | None | tuple[int | None, int | None] | list[int | None]",
            [None, 1, (None, 7), (1, None)],
            [(1,), (None, None, None), "same", 1.0, (None, True)],
        ),
    ],
)
def test_a_value_of_another_type_is_refused_however_alike(text, good, bad):
    """MAN-08."""
    kind = param_kind(text)
    assert [misfit(value, kind) for value in good] == [None] * len(good)
    assert all(misfit(value, kind) for value in bad)


def test_a_type_that_entries_share_is_looked_up_by_its_name():
    found = OpaqueKind("Spec", "a.Spec")
    shared = {"Spec": found}.get
    assert param_kind("Spec", shared) == found
    assert param_kind("Spec | None", shared) == MaybeKind(found)
    for text in ("Spec", "Other | None", "Spec | int"):
        with pytest.raises(TypeTextError):
            param_kind(text, {"Other": None}.get)


def test_a_sealed_sum_may_be_a_type_familys_parameter_and_an_opaque_type_may_not():
    form = Constructor("rows", "a.Rows", (("n", INT),))
    shared = {"Sum": AdtKind("Sum", (form,)), "Spec": OpaqueKind("Spec", "a.Spec")}.get
    assert family_param_kind("Sum", shared) == AdtKind("Sum", (form,))
    with pytest.raises(TypeTextError):
        family_param_kind("Spec", shared)


def test_a_written_value_of_a_sealed_sum_has_the_fields_of_its_form():
    kind = AdtKind("Sum", (Constructor("rows", "a.Rows", (("n", INT),)),))
    assert misfit(AdtValue("rows", (("n", 2),)), kind) is None
    assert misfit(AdtValue("rows", ()), kind) == "{rows: {}} lacks n"
    assert misfit(AdtValue("rows", (("n", "2"),)), kind) == "{rows: {n: 2}}: n is not an int"
    assert (
        misfit(AdtValue("rows", (("n", 2), ("m", 1))), kind)
        == "{rows: {n: 2, m: 1}}: rows has no field 'm'"
    )
    for value in (AdtValue("columns", ()), "rows", None):
        assert misfit(value, kind).endswith("is no Sum, write one of {rows: {...}}")


def test_an_entry_writes_no_opaque_value():
    kind = MaybeKind(OpaqueKind("Spec", "a.Spec"))
    assert misfit(None, kind) is None
    assert misfit("x", kind) == "an entry cannot write a Spec, only null"


def test_an_int_for_a_float_is_told_the_float():
    assert misfit(1, param_kind("float | None")) == "1 is an int, write 1.0"


@pytest.mark.parametrize(
    ("read", "text", "member"),
    [
        (index_kind, "DType[float16 | float32 | float16]", "float16"),
        (param_kind, "int | float | int", "int"),
        (param_kind, "'a' | \"a\"", "'a'"),
        (family_param_kind, "'a' | 'b' | 'a'", "'a'"),
        (field_kind, "'a' | 'a'", "'a'"),
    ],
)
def test_a_member_that_stands_twice_is_named(read, text, member):
    with pytest.raises(RepeatedError, match=f"^{member} stands twice in ") as caught:
        read(text)
    assert caught.value.told("no type")[0] == str(caught.value)


def test_a_family_with_none_among_its_words_is_told_what_to_write():
    with pytest.raises(TypeTextError, match=r"v\.value if present\(v\) else 'none'"):
        family_param_kind("'a' | 'b' | None")
    with pytest.raises(TypeTextError, match="the kinds here are"):
        family_param_kind("int | None")
