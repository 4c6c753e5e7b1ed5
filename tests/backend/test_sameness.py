from __future__ import annotations

import functools

from tileops_core.backend.sameness import module_of, same_thing


def top(device: object) -> bool:
    return True


class Top:
    def method(self) -> None: ...

    @classmethod
    def of_class(cls) -> None: ...


def factory(number: int, extra: object = None):
    def inner(device: object) -> bool:
        return bool(number)

    return inner


def twice(source: str, name: str = "f") -> tuple[object, object]:
    """The same name, made twice, as a reload does."""
    found = []
    for _ in range(2):
        namespace = {"__name__": "made_up"}
        exec(compile(source, "made_up.py", "exec"), namespace)
        found.append(namespace[name])
    return found[0], found[1]


def test_a_thing_is_itself() -> None:
    for thing in (top, Top, factory(1), "m:f", lambda: 1, functools.partial(top)):
        assert same_thing(thing, thing)


def test_a_function_or_class_after_a_reload_is_the_same() -> None:
    assert same_thing(*twice("def f(): pass"))
    assert same_thing(*twice("class f: pass"))
    assert same_thing(*twice("f = lambda: 1"))


def test_other_names_are_other_things() -> None:
    assert not same_thing(top, factory)
    assert not same_thing(top, Top)
    assert not same_thing("m:f", "m:g")
    assert not same_thing("m:f", top)


def test_a_string_names_its_function() -> None:
    assert same_thing(f"{top.__module__}:top", top)
    assert same_thing(top, f"{top.__module__}:top")


def test_functions_of_one_factory_differ_by_what_they_close_over() -> None:
    assert same_thing(factory(1), factory(1))
    assert not same_thing(factory(1), factory(2))
    assert not same_thing(factory(1000), factory(int("1001")))


def test_lambdas_differ_by_their_code() -> None:
    one, two = (lambda device: True), (lambda device: False)
    assert not same_thing(one, two)


def test_defaults_take_part() -> None:
    def make(value: int):
        return lambda device, value=value: value

    assert same_thing(make(1), make(1))
    assert not same_thing(make(1), make(2))


def test_methods_of_two_objects_differ() -> None:
    thing = Top()
    assert same_thing(thing.method, thing.method)
    assert not same_thing(Top().method, Top().method)


def test_a_method_of_a_class_has_a_name() -> None:
    assert same_thing(Top.of_class, Top.of_class)
    assert same_thing(f"{__name__}:Top.of_class", Top.of_class)


def test_local_classes_of_one_name_differ() -> None:
    def make() -> type:
        class Local: ...

        return Local

    assert not same_thing(make(), make())


def test_an_object_decides_by_its_own_equality_if_it_can() -> None:
    class Equal:
        def __init__(self, value: object) -> None:
            self.value = value

        def __call__(self) -> None: ...

        def __eq__(self, other: object) -> bool:
            return self.value == other.value

    assert same_thing(Equal(1), Equal(1))
    assert not same_thing(Equal(1), Equal(2))
    assert not same_thing(Equal(1), top)

    class Awkward:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

    assert not same_thing(Awkward(), Awkward())


def test_every_referent_has_a_module() -> None:
    assert module_of("acme.norm:build") == "acme.norm"
    assert module_of(top) == __name__
    assert module_of(functools.partial(top)) == "functools"
    assert module_of(3) == "builtins"
