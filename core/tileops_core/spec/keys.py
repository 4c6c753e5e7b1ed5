"""The keys of an entry, place by place, and what each of them says.

The reader takes these keys and no others; the JSON Schema and the page about the language show
what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _keys(**meanings: str) -> Mapping[str, str]:
    return MappingProxyType(meanings)


ENTRY = _keys(
    family="The public module of the op: `tileops_core.ops.<family>` exports it. The file is named "
    "after it.",
    status="`implemented` where a class stands behind the entry, which is checked too, or "
    "`spec-only` where the contract stands alone.",
    ref_api="The dotted name of the function whose results the op computes.",
    signature="The type of the op: what it takes, what it gives, what must hold.",
    workloads="Rows of shapes as real models have them, at least one.",
    roofline="What a call costs at least.",
    composition="What a composite op is made of.",
)
"""Of an entry."""

SIGNATURE = _keys(
    forall="The indices that a call's tensors give a value: name and kind.",
    params="The parameters of the constructor, in its order: name and type.",
    inputs="The tensors that a call takes, in its order.",
    outputs="The tensors that a call gives, in its order; `{}` for an op without one.",
    types="Type families: shapes that depend on discriminants, by name.",
    let="Named quantities; they may refer to each other, not in a circle.",
    shape_rules="Conditions that every call meets. One that reads only discriminants is decided "
    "before branches are chosen, so what it rules out needs no case.",
    dtype_combos="All rows of dtypes that go together, where not every combination does.",
)
"""Of a signature."""

PARAM = _keys(
    type="The type, as Python writes it; what kind of value expressions see follows from it.",
    default="The default. Without one the parameter must be given.",
    kw_only="`true` for a parameter that is taken by name only.",
)
"""Of a constructor's parameter."""

TENSOR_PARAM = _keys(
    dtype="The dtype of a tensor that is given at construction.",
    shape="The shape of a tensor that is given at construction; it may read what calls settle.",
    optional="`true` for a tensor that may be left out.",
    kw_only="`true` for a tensor that is taken by name only.",
)
"""Of a parameter that is a tensor."""

INPUT = _keys(
    dtype="An index, a dtype parameter, a dtype, or a primitive that gives one. Packed dtypes are "
    "written as their carrier.",
    shape="Axes in brackets, `[M, 2 * N, *S]`, or a type family with its arguments.",
    optional="`true` for a tensor that a call may leave out. A condition over parameters for one "
    "that is passed exactly where it holds.",
    kw_only="`true` for a tensor that is taken by name only.",
    contiguous="`true` for a tensor that must be contiguous; others may have any strides.",
    mutated="`true` for a tensor that the call writes, or a condition that says when.",
    write_only="`true`, beside `mutated: true`, for a tensor that is written and never read.",
    device="`cpu` for a tensor that stays on the CPU and does not decide the call's device.",
    values="The generator that fills the tensor in a workload row.",
    requires="Predicates that the tensor's values meet. Workload rows are checked; of a caller "
    "they are asked only under `tileops_core.checks(metadata=True)`.",
)
"""Of an input."""

OUTPUT = _keys(
    dtype="The dtype, which parameters and inputs decide.",
    shape="The shape, which parameters and inputs decide.",
    nullable="A condition under which the output is None. Their number never varies.",
    buffer="`out` for the one output that a caller may pass as `out=`, to be written there.",
    alias="The written input that this output is, where it is written.",
    contiguous="`true` for an output that is contiguous whoever computes it.",
)
"""Of an output."""

FAMILY = _keys(
    params="The family's own parameters: name and kind.",
    match="The parameter, or the list of them, whose value chooses the case.",
    cases="The cases; they leave no value out that a call can bring, and none twice.",
)
"""Of a type family."""

CASE = MappingProxyType(
    {
        "when": "The value of what is matched: true or false, a word, a form, or a list of these.",
        "is": "The shape in this case.",
    }
)
"""Of a case of a type family."""

ROOFLINE = _keys(
    flops="The algorithm's least work: one addition, multiplication, comparison or transcendental "
    "function of an element counts 1, a product of matrices 2 M N K.",
    bytes="The bytes moved, where they are not those of each tensor read and each written, once.",
    func="The dotted name of a function of the call's record, which gives flops and bytes.",
)
"""Of a roofline."""

COMPOSITION = _keys(
    kind="`composite`, the one kind.",
    stages="The ops held, in the order in which the class states them.",
)
"""Of a composition."""

STAGE = _keys(
    name="The name under which the class holds the op.",
    op="The name of an op that has an entry.",
    optional="`true` for an op that is there for some parameters only.",
)
"""Of a stage."""

ROW = _keys(
    label="The scenario in 1 to 24 letters, digits, dots and dashes, neither the op nor a dtype.",
    some="The inputs with `optional: true` that are passed.",
    dtype_cases="Dtypes of the indices used; the row is one case for each of them.",
    small="Values that replace others when the case is scaled down for a test.",
)
"""Of a workload row, beside the parameters and indices that it gives values."""

CONSTRUCTOR = _keys(
    python="The dotted name of the class of the form's values.",
    fields="The fields by name and type: bool, int or quoted words.",
    invariant="Conditions that every value of the form meets.",
)
"""Of a form of a sealed sum in types.yaml."""
