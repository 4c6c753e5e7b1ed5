"""What the words of the language mean that no table of the library's own explains.

Those are the kinds of indices, the types of parameters, patterns, conditions, the forms of
expressions, and operators. A text is sentences, then examples behind ``>>>``, each with its value;
keys and functions are explained where they are defined, in the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

INDEX_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "Dim": "A length, an int of 0 or more, which the axis of an input gives.",
        "Shape": "Any number of axes, as a tuple of lengths, which `*S` among the axes of an input "
        "gives.",
        "DType[a | b]": "The dtype of an input, one of those in the brackets.",
        "Seq[Int]": "A list of ints that exists only where a workload row is made into tensors, "
        "as a generator's argument.",
    }
)

PARAMETER_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "bool": "True or false; a discriminant.",
        "int": "An int, which shapes may read.",
        "float": "A float, for conditions and costs. An entry writes 1.0, a caller may pass 1.",
        "str": "Any text, which expressions cannot read.",
        "Number": "An int, a float or a bool, for conditions and costs.",
        "int | float": "A number of one of these types, for conditions and costs.",
        "int | None": "An int or None; read as `v.value` behind `present(v)`.",
        "float | None": "A float or None; read as `v.value` behind `present(v)`.",
        "'a' | 'b'": "One of these words; a discriminant.",
        "'a' | 'b' | None": "One of these words or None; a discriminant, read behind `present(v)`.",
        "float16 | float32": "One of these dtypes; a discriminant, and a dtype of tensors.",
        "float16 | float32 | None": "One of these dtypes or None; see `coalesce_dtype`.",
        "torch.dtype": "Any dtype.",
        "torch.device | str | None": "The device of a call that brings no tensor to say it.",
        "list[int] | tuple[int, ...]": "A shape: a list of lengths, kept as a tuple. An int stands "
        "for a list of one.",
        "int | list[int] | tuple[int, ...]": "An axis or axes of a reduction.",
        "int | list[int] | tuple[int, ...] | None": "An axis or axes of a reduction; None stands "
        "for all.",
        "int | tuple[int, int]": "A value for all axes, or one for each; read with `per_axis`.",
        "int | tuple[int, int] | None": "A value for all axes, one for each, or None; read with "
        "`per_axis` and its fallback.",
        "int | tuple[int, int] | 'valid' | 'same'": "A value for all axes, one for each, or one of "
        "these words; read with `per_axis` where it is none of them.",
        "int | None | tuple[int | None, int | None] | list[int | None]": "A value for all axes or "
        "one for each, any of which may be None; read with `per_axis` and its fallback.",
        "a sealed sum of types.yaml": "A value of one of the forms that types.yaml names, each "
        "with fields of its own; a discriminant by its form and by its finite fields.",
        "an object of a class (opaque)": "An object of the class that types.yaml names, which is "
        "handed on and which expressions cannot read.",
    }
)

CASES: Mapping[str, str] = MappingProxyType(
    {
        "a boolean": "`when: true`, of a bool.",
        "a word": "`when: neox`, of a parameter that is one of several words.",
        "several at once": "`when: [true, neox]`, one for each of what is matched.",
        "{form: _}": "Any value of a sealed sum that has this form.",
        "{form: {field: value}}": "The values of this form whose field has this value.",
    }
)

CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "optional under an expression": "Parameters decide whether the tensor is passed, so a "
        "caller can neither forget it nor pass it in vain.",
        "mutated under an expression": "Parameters, and what is passed, decide whether the call "
        "writes the tensor.",
    }
)

EXPRESSIONS: Mapping[str, str] = MappingProxyType(
    {
        "integers": "Whole numbers, of up to 63 bits.\n\n>>> 2 * 3\n6",
        "floats": "Numbers with a dot; costs and shapes are ints.\n\n>>> 0.5 < M\nTrue",
        "inf": "The float that is greater than every number.\n\n>>> M < inf\nTrue",
        "words": "Quoted text, to be compared.\n\n>>> mode == 'a'\nTrue",
        "True and False": "The truth values, as Python writes them.\n\n"
        ">>> True and not False\nTrue",
        "tuples": "Values in parentheses, as a shape, as axes, or behind `in`.\n\n"
        ">>> S == (2, 3)\nTrue",
        "x if c else y": "One of two values of one kind. A condition narrows: behind `present(v)` "
        "there is `v.value`, behind `mode == 'a'` it is that word.\n\n"
        ">>> cap.value if present(cap) else 0\n5",
        "v[i]": "An item of a shape or tuple; counted from the end where `i` is negative.\n\n"
        ">>> S[-1]\n3",
        "v[a:b]": "A part of a shape.\n\n>>> S[1:]\n(3,)",
        "v.value": "The value of a parameter that may be None, where `present(v)` holds.\n\n"
        ">>> present(cap) and cap.value > 3\nTrue",
        "v.kind": "The name of the form that the value of a sealed sum has.\n\n"
        ">>> masked.kind\n'masked'",
        "a field of a form": "A field of a sealed sum's value, where its form is known.\n\n"
        ">>> masked.max_m if masked.kind == 'masked' else 0\n8",
        "element for x in sequence": "Something for each item of a shape or tuple, as the one "
        "argument of sum, prod, max, min or all.\n\n>>> sum(d + 1 for d in S)\n7",
        "*S among axes": "The axes of a shape in their place, as in `[M, *S]`.",
        "*primitive(...) among axes": "The axes of a shape that a primitive gives, as in "
        "`[*broadcast(A, B)]`.",
        "keyword arguments": "An optional argument of a primitive, by its name.\n\n"
        ">>> per_axis(stride, 0, 2, fallback=4)\n4",
        "a chain of comparisons": "Comparisons that all hold.\n\n>>> 0 < 2 <= M\nTrue",
    }
)

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "+": "The sum of numbers.\n\n>>> M + 1\n7",
        "-": "The difference of numbers.\n\n>>> M - 1\n5",
        "*": "The product of numbers.\n\n>>> 2 * M\n12",
        "/": "The quotient as a float, for conditions and costs.\n\n>>> M / 4\n1.5",
        "//": "The quotient rounded down.\n\n>>> M // 4\n1",
        "%": "The remainder of `//`.\n\n>>> M % 4\n2",
        "**": "A power; the exponent is written out and lies from 0 to 8.\n\n>>> M ** 2\n36",
        "- x": "The negative number.\n\n>>> -M\n-6",
        "not x": "Whether a condition does not hold.\n\n>>> not M > 3\nFalse",
        "and": "Whether all conditions hold; the later are read only where the earlier do.\n\n"
        ">>> M > 3 and M % 2 == 0\nTrue",
        "or": "Whether a condition holds; the later are read only where the earlier do not.\n\n"
        ">>> not present(cap) or cap.value > 3\nTrue",
        "==": "Whether numbers, words, dtypes, truth values or tuples are equal.\n\n"
        ">>> T == float16\nTrue",
        "!=": "Whether they are not equal.\n\n>>> mode != 'b'\nTrue",
        "<": "Whether a number is less than another.\n\n>>> M < 6\nFalse",
        "<=": "Whether a number is not greater than another.\n\n>>> M <= 6\nTrue",
        ">": "Whether a number is greater than another.\n\n>>> M > 6\nFalse",
        ">=": "Whether a number is not less than another.\n\n>>> M >= 6\nTrue",
        "in": "Whether a value is one of a tuple that is written out.\n\n"
        ">>> T in (float16, float32)\nTrue",
        "not in": "Whether a value is none of a tuple that is written out.\n\n"
        ">>> mode not in ('b', 'c')\nTrue",
    }
)
