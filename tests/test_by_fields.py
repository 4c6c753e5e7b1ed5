"""Equality, hash and text by fields are those that attrs writes."""

from __future__ import annotations

import gc
import pickle
import weakref

import attrs
import pytest

from tileops_core.by_fields import EqualByFields, ShownByFields


@attrs.frozen(slots=True, eq=False, repr=False)
class Point(EqualByFields):
    x: object
    y: object = 0
    place: object = attrs.field(default=None, eq=False)
    notes: object = attrs.field(default=(), hash=False)
    secret: object = attrs.field(default=None, repr=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class Deep(Point):
    z: object = 0


@attrs.frozen(slots=True, eq=False, repr=False)
class Single(EqualByFields):
    x: object


@attrs.frozen(slots=True, eq=False, repr=False)
class Nothing(EqualByFields):
    pass


@attrs.frozen(eq=False, repr=False)
class Shown(ShownByFields):
    x: object


def test_equal_fields_are_equal_and_have_one_hash():
    assert Point(1, "a") == Point(1, "a")
    assert hash(Point(1, "a")) == hash(Point(1, "a"))
    assert Point(1, "a") != Point(1, "b")
    assert len({Point(1, "a"), Point(1, "a"), Point(1, "b")}) == 2


def test_a_field_may_have_no_part_in_equality():
    assert Point(1, place="here") == Point(1, place="there")
    assert hash(Point(1, place=[])) == hash(Point(1, place={}))


def test_a_field_may_have_a_part_in_equality_and_none_in_the_hash():
    assert Point(1, notes={}) != Point(1, notes={1: 2})
    assert hash(Point(1, notes={})) == hash(Point(1, notes={1: 2}))


def test_what_has_no_hash_is_no_key():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point([]))


@pytest.mark.parametrize("other", [Deep(1), Single(1), 1, None, (1, 0)])
def test_another_class_is_never_equal(other):
    assert Point(1) != other
    assert other != Point(1)
    assert Point(1).__eq__(other) is NotImplemented


def test_a_subclass_compares_its_own_fields_too():
    assert Deep(1, z=2) == Deep(1, z=2)
    assert Deep(1, z=2) != Deep(1, z=3)
    assert hash(Deep(1, z=2)) != hash(Deep(1, z=3))


def test_one_field_and_none_work():
    assert Single(1) == Single(1) != Single(2)
    assert hash(Single(1)) == hash(Single(1)) != hash(Single(2))
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


def test_without_equality_each_is_equal_to_itself_alone():
    one = Shown(1)
    assert one == one
    assert one != Shown(1)
    assert len({one, Shown(1)}) == 2


@pytest.mark.parametrize("made", [Point(1, "a", secret="s"), Deep("x"), Single((1,)), Nothing()])
def test_the_text_is_what_attrs_writes(made):
    def plain(name):
        return attrs.make_class(
            name,
            {f.name: attrs.field(repr=f.repr) for f in attrs.fields(type(made))},
            frozen=True,
        )

    values = attrs.asdict(made, recurse=False)
    assert repr(made) == repr(plain(type(made).__name__)(**values))


def test_the_text_names_a_class_of_a_function_without_the_function():
    @attrs.frozen(eq=False, repr=False)
    class Local(ShownByFields):
        x: int

    assert repr(Local(1)) == "Local(x=1)"


def test_a_copy_by_pickle_is_equal():
    assert pickle.loads(pickle.dumps(Deep(1, z=2))) == Deep(1, z=2)


def test_the_classes_stay_small():
    assert not hasattr(Point(1), "__dict__")


def test_a_class_that_is_dropped_goes():
    @attrs.frozen(slots=True, eq=False, repr=False)
    class Dropped(EqualByFields):
        x: object

    assert Dropped(1) == Dropped(1)
    assert hash(Dropped(1)) == hash(Dropped(1))
    seen = weakref.ref(Dropped)
    del Dropped
    gc.collect()
    assert seen() is None


def test_a_subclass_of_a_class_that_was_compared_compares_its_own_fields():
    @attrs.frozen(slots=True, eq=False, repr=False)
    class First(EqualByFields):
        x: object

    assert First(1) == First(1)
    assert hash(First(1)) == hash(First(1))

    @attrs.frozen(slots=True, eq=False, repr=False)
    class Second(First):
        y: object

    assert Second(1, 2) != Second(1, 3)
    assert len({hash(Second(1, y)) for y in range(8)}) > 1
