from __future__ import annotations

import copy
import gc
import inspect
import linecache
import pickle
import traceback
from typing import ClassVar

import pytest
import torch

from tileops_core.kernels import CallSpec, KernelInterface, call_spec
from tileops_core.kernels.call_spec import check_request, normal_device

CPU = torch.device("cpu")


class RowsCall(CallSpec):
    dtype: torch.dtype
    rows: int
    scale: float | None = None


class SameFields(CallSpec):
    dtype: torch.dtype
    rows: int
    scale: float | None = None


class WiderCall(RowsCall):
    """Inherits fields."""

    kinds: ClassVar[tuple[str, ...]] = ("a", "b")
    causal: bool = False

    @property
    def doubled(self) -> int:
        return self.rows * 2


class FillCall(CallSpec):
    value: int | float | bool


class DimsCall(CallSpec):
    dims: tuple[int, ...]


class RowsKernel(KernelInterface):
    request = RowsCall


def test_a_field_shows_its_type_to_help_and_to_sphinx():
    assert inspect.signature(RowsCall.rows.fget).return_annotation == "int"
    assert inspect.signature(RowsCall.device.fget).return_annotation == "torch.device"


def test_a_field_has_a_docstring_of_its_own():
    assert inspect.getdoc(RowsCall.rows) == "A field of RowsCall."
    assert inspect.getdoc(WiderCall.causal) == (
        "A field of WiderCall; ``False`` where the call spec is made without it."
    )


def test_fields_are_taken_by_position_and_by_name():
    by_position = RowsCall(CPU, torch.float16, 3, 0.5)
    by_name = RowsCall(scale=0.5, rows=3, dtype=torch.float16, device=CPU)
    assert by_position == by_name
    assert hash(by_position) == hash(by_name)
    assert (by_name.device, by_name.dtype, by_name.rows, by_name.scale) == (
        CPU,
        torch.float16,
        3,
        0.5,
    )


def test_a_field_left_out_has_its_default():
    assert RowsCall(CPU, torch.float16, 3).scale is None


def test_a_missing_field_is_named_with_the_class():
    with pytest.raises(TypeError, match=r"RowsCall\.__new__.*'rows'"):
        RowsCall(CPU, torch.float16)


def test_the_constructor_shows_its_signature():
    assert list(inspect.signature(WiderCall).parameters) == [
        "device",
        "dtype",
        "rows",
        "scale",
        "causal",
    ]


def test_type_checkers_are_told_that_annotations_are_arguments():
    (told,) = {
        id(vars(base)["__dataclass_transform__"]): vars(base)["__dataclass_transform__"]
        for base in RowsCall.__mro__
        if "__dataclass_transform__" in vars(base)
    }.values()
    assert told["frozen_default"] is True


def test_a_subclass_inherits_fields_and_adds_its_own():
    wider = WiderCall(CPU, torch.float16, 3, 0.5, True)
    assert (wider.rows, wider.scale, wider.causal, wider.doubled) == (3, 0.5, True, 6)
    assert WiderCall.kinds == ("a", "b")


def test_a_subclass_may_give_an_inherited_field_another_default():
    class Fixed(RowsCall):
        scale: float | None = 2.0

    assert Fixed(CPU, torch.float16, 3).scale == 2.0
    assert RowsCall(CPU, torch.float16, 3).scale is None


def test_classes_keep_equal_fields_apart():
    one, other = RowsCall(CPU, torch.float16, 3), SameFields(CPU, torch.float16, 3)
    assert one != other
    assert len({one, other}) == 2


def test_no_field_can_be_assigned_or_deleted():
    call = RowsCall(CPU, torch.float16, 3)
    with pytest.raises(AttributeError, match="RowsCall is frozen"):
        call.rows = 4
    with pytest.raises(AttributeError, match="RowsCall is frozen"):
        call.other = 4
    with pytest.raises(AttributeError, match="RowsCall is frozen"):
        del call.rows


def test_repr_names_every_field():
    assert repr(RowsCall("cpu", torch.float16, 3, -0.0)) == (
        "RowsCall(device=cpu, dtype=torch.float16, rows=3, scale=-0.0)"
    )


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
@pytest.mark.parametrize(
    "call",
    [
        RowsCall("cuda:1", torch.float16, 3, float("nan")),
        WiderCall(CPU, torch.float16, 3, -0.0, True),
        WiderCall(CPU, torch.float16, 3).stating(arch=90),
    ],
)
def test_copies_and_pickles_are_equal(copied, call):
    again = copied(call)
    assert again == call
    assert hash(again) == hash(call)
    assert repr(again) == repr(call)
    assert again.states_facts == call.states_facts


@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), (0.0, -0.0), (0, False), (True, 1.0)])
def test_values_that_python_merges_stay_apart(pair):
    """DIS-03: 1, True and 1.0 share one hash, 0.0 equals -0.0."""
    one, other = (FillCall(CPU, value) for value in pair)
    assert one != other
    assert len({one: "one", other: "other"}) == 2
    assert (type(one.value), type(other.value)) == tuple(map(type, pair))


def test_the_sign_of_zero_is_kept():
    """DIS-03: the kernel sees the value that was given."""
    assert repr(FillCall(CPU, -0.0).value) == "-0.0"


def test_a_table_does_not_grow_on_nan():
    """DIS-03: a NaN differs from itself, a hundred of them are still one fact."""
    calls = {FillCall(CPU, float("nan")) for _ in range(100)}
    calls |= {FillCall(CPU, float("inf") - float("inf")) for _ in range(100)}
    assert len(calls) == 1


def test_values_inside_tuples_stay_apart():
    """DIS-03: what holds for a value holds for a tuple of values."""

    class Pads(CallSpec):
        pads: tuple[float, ...]

    nan = float("nan")
    assert Pads(CPU, (1.0, 0.0)) != Pads(CPU, (1, 0.0))
    assert Pads(CPU, (1.0, 0.0)) != Pads(CPU, (1.0, -0.0))
    assert Pads(CPU, (1.0, nan)) == Pads(CPU, (1.0, nan - 1))


def test_a_size_is_the_tuple_it_holds():
    """DIS-04: the same lengths are the same fact, whoever holds them."""
    size = torch.empty(2, 3).shape
    assert DimsCall(CPU, size) == DimsCall(CPU, (2, 3))
    assert hash(DimsCall(CPU, size)) == hash(DimsCall(CPU, (2, 3)))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("cpu", "cpu"),
        ("cpu:0", "cpu"),
        ("meta", "meta"),
        ("cuda:3", "cuda:3"),
        (torch.device("cpu"), "cpu"),
        (torch.device("cuda", 1), "cuda:1"),
    ],
)
def test_a_device_is_kept_in_one_form(given, kept):
    assert DimsCall(given, (1,)).device == torch.device(kept)


def test_a_cuda_device_without_index_is_the_current_one(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 2)
    assert DimsCall("cuda", (1,)).device == torch.device("cuda:2")
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    assert DimsCall("cuda", (1,)).device == torch.device("cuda:1")


def test_a_cuda_device_may_be_named_where_there_is_none(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)
    assert normal_device("cuda") == torch.device("cuda:0")


def test_so_may_it_on_a_torch_that_raises_where_there_is_none(monkeypatch):
    def fail():
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", fail)
    assert normal_device("cuda") == torch.device("cuda:0")


def test_no_device_is_the_cpu_where_there_is_no_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert DimsCall(None, (1,)).device == CPU


def test_no_device_is_the_current_cuda_device_if_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    assert DimsCall(None, (1,)).device == torch.device("cuda:1")


def test_something_that_names_no_device_is_refused():
    with pytest.raises(TypeError, match=r"device is torch\.float16"):
        RowsCall(torch.float16, CPU, 3)


def test_device_facts_are_not_read_unless_asked(monkeypatch):
    def read(device):
        raise AssertionError(f"{device} was asked")

    monkeypatch.setattr(call_spec, "facts_of", read)
    call = RowsCall("cuda:0", torch.float16, 3)
    assert {call: 1}[RowsCall("cuda:0", torch.float16, 3)] == 1
    repr(call)
    pickle.dumps(call)
    with pytest.raises(AssertionError, match="cuda:0 was asked"):
        _ = call.arch


def test_stated_facts_stand_for_the_device_s():
    call = RowsCall("cuda:0", torch.float16, 3)
    stated = call.stating(arch=90, sm_count=132).stating(smem_budget=1024)
    assert (stated.arch, stated.sm_count, stated.smem_budget) == (90, 132, 1024)
    assert (stated.rows, stated.device) == (call.rows, call.device)
    assert stated.states_facts
    assert not call.states_facts


def test_a_stated_fact_may_be_that_there_is_none():
    assert RowsCall("cuda:0", torch.float16, 3).stating(arch=None).arch is None


def test_facts_that_were_not_stated_are_the_device_s():
    assert RowsCall(CPU, torch.float16, 3).stating(arch=90).sm_count is None


def test_a_call_spec_with_stated_facts_is_not_the_one_without():
    call = RowsCall(CPU, torch.float16, 3)
    assert call.stating(arch=90) != call
    assert call.stating(arch=90) == call.stating(arch=90)
    assert call.stating(arch=90) != call.stating(arch=80)
    assert hash(call.stating(arch=90)) == hash(call.stating(arch=90))


def test_a_fact_that_does_not_exist_cannot_be_stated():
    with pytest.raises(TypeError, match="'archh' is not a device fact; there are arch, sm_count"):
        RowsCall(CPU, torch.float16, 3).stating(archh=90)


@pytest.mark.parametrize("name", ["arch", "stating", "_hidden", "class"])
def test_a_field_cannot_take_a_reserved_name(name):
    with pytest.raises(TypeError, match=f"Bad: '{name}' cannot be a field"):
        type("Bad", (CallSpec,), {"__annotations__": {name: int}})


@pytest.mark.parametrize("name", ["count", "index"])
def test_a_field_may_have_the_name_of_a_tuple_s_method(name):
    made = type("Counting", (CallSpec,), {"__annotations__": {name: int}})
    assert getattr(made(CPU, 4), name) == 4


def test_a_field_without_default_cannot_follow_one_with():
    with pytest.raises(TypeError, match="'late' has no default but follows 'scale'"):

        class Late(RowsCall):
            late: int


def test_a_constructor_of_one_s_own_is_refused():
    with pytest.raises(TypeError, match="constructor is generated"):

        class Own(CallSpec):
            rows: int

            def __new__(cls, rows):
                return super().__new__(cls, "cpu", rows)


def test_the_generated_constructor_shows_in_a_traceback():
    with pytest.raises(TypeError) as caught:
        RowsCall(object(), torch.float16, 3)
    frames = traceback.extract_tb(caught.value.__traceback__)
    (line,) = [frame.line for frame in frames if frame.filename.startswith("<tileops call spec")]
    assert line == "device = _device(device)"
    linecache.checkcache()
    assert linecache.getline(frames[1].filename, 1).startswith("def __new__(_cls, device, dtype")


def test_a_request_of_the_interface_s_type_is_accepted():
    check_request(RowsKernel, RowsCall(CPU, torch.float16, 3))
    check_request(RowsKernel, WiderCall(CPU, torch.float16, 3))


def test_a_request_of_another_type_is_refused():
    with pytest.raises(TypeError, match=r"ProbeOp: RowsKernel .* RowsCall, got .* SameFields"):
        check_request(RowsKernel, SameFields(CPU, torch.float16, 3), op="ProbeOp")


@pytest.mark.parametrize("dims", [[0, 1], (0, [1]), {"a": 1}])
def test_an_unhashable_field_is_named(dims):
    """DIS-04: a list in a key is refused by name, not by Python's bare sentence."""

    class Dims(KernelInterface):
        request = DimsCall

    with pytest.raises(TypeError, match=r"ProbeOp: DimsCall\.dims is .* unhashable type"):
        check_request(Dims, DimsCall(CPU, dims), op="ProbeOp")


def test_a_request_with_stated_facts_is_refused():
    with pytest.raises(TypeError, match=r"states facts of the device.*key_for"):
        check_request(RowsKernel, RowsCall(CPU, torch.float16, 3).stating(arch=90))


def test_the_generated_lines_of_a_class_that_is_dropped_go():
    class DroppedCall(CallSpec):
        dtype: torch.dtype

    filename = DroppedCall.__new__.__code__.co_filename
    assert filename in linecache.cache
    del DroppedCall
    gc.collect()
    assert filename not in linecache.cache


def test_lines_that_somebody_else_has_put_there_stay():
    class DroppedCall(CallSpec):
        dtype: torch.dtype

    filename = DroppedCall.__new__.__code__.co_filename
    theirs = linecache.cache[filename] = (0, None, [], filename)
    del DroppedCall
    gc.collect()
    assert linecache.cache.pop(filename) is theirs
