"""Write the code of a call on a known route, once per op class.

One emitter, two functions: ``__call__`` asks first whether dynamo reads it, then whether the
tensors are plain and nobody is watching (the predicate); ``node`` does not, and takes every
argument in order. Both make the call's key, look up the route, run it and check the result.
Whatever is unusual leaves for :mod:`tileops_core.call.modes` or
:mod:`tileops_core.call.pipeline`; nothing here decides anything.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from types import FunctionType

import attrs
import torch

from tileops_core.by_fields import ShownByFields
from tileops_core.cached import cached_property
from tileops_core.call import checking, grad, inside, pipeline, torch_private
from tileops_core.call.emit_operator import Hosts, OperatorEmitter
from tileops_core.call.torch_operators import Bound
from tileops_core.plan.devices import undecided_device
from tileops_core.plan.model import Plan
from tileops_core.plan.source import LateSource, SourceWriter, compile_source
from tileops_core.signature.kinds import DTypeKind, MaybeKind
from tileops_core.signature.model import Input, TensorDecl
from tileops_core.spec.expressions import Name


class CallEmitter:
    """Writes ``__call__`` and ``node`` for one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.signature = plan.signature
        self.kinds = self.signature._kinds()
        self.writer = w = SourceWriter()
        self.takes_out = self.signature.out_buffer is not None
        w.use("_compiling", torch_private.compiling)
        w.use("_Tensor", torch.Tensor)
        w.use("_Parameter", torch.nn.Parameter)
        w.use("_modes", torch_private.dispatch_modes)
        w.use("_functorch", torch_private.functorch_level)
        w.use("_jit", torch_private.jit_tracing)
        w.use("_autocast", torch_private.autocast_on)
        w.use("_profiler", torch_private.profiler)
        w.use("_fx", torch_private.fx_trace)
        w.use("_forward_ad", torch_private.forward_ad)
        w.use("_grad_on", torch.is_grad_enabled)
        w.use("_watching", checking.WATCHING)
        w.use("_unusual", inside.unusual)
        w.use("_with_grad", grad.node_with_grad if plan.may_write else grad.pure_with_grad)
        w.use("_miss", pipeline.miss)
        w.use("_recheck", pipeline.recheck)
        w.use("_blame", pipeline.blame_kernel)
        w.use("_thread", threading.get_ident)
        w.use("_nowhere", torch_private.pointer_of_none)

    # -- shared pieces --------------------------------------------------------------------

    @property
    def _names(self) -> list[str]:
        return [t.name for t in self.signature.inputs] + (["out"] if self.takes_out else [])

    def _inputs(self) -> str:
        return "(" + "".join(f"{t.name}, " for t in self.signature.inputs) + ")"

    def _arguments(self) -> str:
        """The parameter list: inputs in order, optional ones None, then ``out``."""
        positional: list[str] = []
        named: list[str] = []
        for tensor in self.signature.inputs:
            text = tensor.name if tensor.optional is False else f"{tensor.name}=None"
            (named if tensor.kw_only else positional).append(text)
        if self.takes_out:
            (named or positional).append("out=None")
        return ", ".join(["self", *positional, *(["*", *named] if named else [])])

    def _rest(self) -> str:
        """What the slow roads take after the op."""
        return f"{self._inputs()}, out" if self.takes_out else self._inputs()

    def _is_optional(self, name: str) -> bool:
        found = (t for t in self.signature.inputs if t.name == name)
        tensor = next(found, None)  # None for the buffer of an output
        return tensor is None or tensor.optional is not False

    # -- the predicate --------------------------------------------------------------------

    def _plain(self, name: str) -> str:
        test = f"type({name}) is _Tensor or type({name}) is _Parameter"
        if self._is_optional(name):
            return f"({name} is None or {test})"
        return f"({test})"

    def _predicate(self) -> None:
        w = self.writer
        tests = [f"not {self._plain(name)}" for name in self._names]
        wants_grad = [
            f"({n} is not None and {n}.requires_grad)"
            if self._is_optional(n)
            else f"{n}.requires_grad"
            for n in reversed(self._names)  # a weight comes last, and decides mostly
        ]
        with w.block("if ("):
            self._any_of(
                [
                    *tests,
                    "_modes()",
                    "_functorch() is not None",
                    "_autocast()",
                    "_jit()",
                    "_profiler._is_profiler_enabled",
                    "_fx._is_fx_tracing_flag",
                    "_forward_ad._current_level >= 0",
                    "_watching",
                ]
            )
        with w.block("):"):
            w.line(f"return _unusual(self, {self._rest()})")
        if wants_grad:
            with w.block("if ("):
                self._any_of(wants_grad)
            with w.block(") and _grad_on():"):
                w.line(f"return _with_grad(self, {self._rest()})")

    def _any_of(self, tests: list[str]) -> None:
        for i, test in enumerate(tests):
            self.writer.line(f"{'or ' if i else ''}{test}")

    # -- the key --------------------------------------------------------------------------

    def _facts(self, tensor: TensorDecl, name: str, written: bool) -> str:
        layout = f"{name}.is_contiguous()"
        if written:
            # Overlap inside a tensor lies in its strides; a dense one has none.
            layout += f" or {name}.stride()"
        # The CPU has one device, and to ask for it is cheaper than to make a device and hash it.
        device = f"{name}.is_cpu or {name}.device"
        facts = [f"{name}.dtype", f"{name}.shape", device, layout, f"{name}.is_neg()"]
        if self._may_be_complex(tensor):
            facts.append(f"{name}.is_conj()")
        return ", ".join(facts)

    def _may_be_complex(self, tensor: TensorDecl) -> bool:
        """Whether the tensor's dtype can be a complex one on some branch."""
        names = {node.id for node in tensor.dtype.walk() if isinstance(node, Name)}
        for name in names:
            kind = self.kinds.get(name)
            kind = kind.of if isinstance(kind, MaybeKind) else kind
            members = kind.members if isinstance(kind, DTypeKind) else (name,)
            if members is None or any(member.startswith("complex") for member in members):
                return True
        return False

    def _write_key(self, begin: str) -> None:
        """Write the key: a flat tuple where every optional input is there.

        Args:
            begin: what stands before it.
        """
        w = self.writer
        optional = [t.name for t in self.signature.inputs if t.optional is not False]
        if not optional:
            self._tuple(begin, self._key(flat=True))
            return
        with w.block(f"if {' and '.join(f'{name} is not None' for name in optional)}:"):
            self._tuple(begin, self._key(flat=True))
        with w.block("else:"):
            self._tuple(begin, self._key(flat=False))

    def _tuple(self, begin: str, parts: list[str]) -> None:
        with self.writer.block(f"{begin} ("):
            for part in parts:
                self.writer.line(f"{part},")
        self.writer.line(")")

    def _key(self, *, flat: bool) -> list[str]:
        """One line of the key per tensor; ``flat``: all inputs are there.

        The two forms have different lengths, so that they never meet.
        """
        parts = []
        for tensor in self.signature.inputs:
            facts = self._facts(tensor, tensor.name, tensor.mutated is not False)
            if self._is_optional(tensor.name) and not flat:
                parts.append(f"None if {tensor.name} is None else ({facts})")
            else:
                parts.append(facts)
        if self.signature.out_buffer is not None:
            facts = self._facts(self.signature.out_buffer, "out", True)
            parts.append(f"None if out is None else ({facts})")
        device = undecided_device(self.signature)
        if device is not None:
            # No tensor says for sure where the call is, and where else may change meanwhile.
            parts.append(device.write(self.writer, "self."))
        return parts

    # -- the body -------------------------------------------------------------------------

    def write_body(self) -> None:
        """Write what follows when the tensors are plain: from the call's key to its result."""
        w = self.writer
        with w.block("try:"):
            self._write_key("_key =")
            if self._may_return_new():
                # Asked here because memory that is not dense has no address and leaves below.
                for tensor in self.signature.inputs:
                    w.line(self._pointer(tensor))
        with w.block("except RuntimeError:"):
            w.line(f"return _miss(self, None, {self._rest()})")
        w.line("_route = self._binding.young.get(_key)")
        with w.block("if _route is None:"):
            w.line(f"return _miss(self, _key, {self._rest()})")
        # By a local: called as a method, it would be looked for in the route's class first.
        w.line("_call = _route.call")
        with w.block("try:"):
            inputs = ", ".join(t.name for t in self.signature.inputs)
            if self.takes_out:
                out = ", ".join(filter(None, (inputs, "out=out")))
                w.line(f"_result = _call({inputs}) if out is None else _call({out})")
            else:
                w.line(f"_result = _call({inputs})")
        with w.block("except BaseException as _error:"):
            w.line("_blame(self, _route, _error)")
            w.line("raise")
        if self._may_return_new():
            self._result()
        w.line(f"self._running.last[_thread()] = {self._record()}")
        w.line("return _result")

    def _record(self) -> str:
        """What the call leaves: the route's record, with this call's metadata where there is some.

        The route keeps none, or it would hold the tensors of a call that is long gone.
        """
        if not self.plan.metadata:
            return "_route.record"
        given = ", ".join(f"{name!r}: {name}" for name in self.plan.metadata)
        return f"_route.record.of_call({{{given}}})"

    def _may_return_new(self) -> bool:
        """Whether some call writes nothing and returns new tensors (a fresh route)."""
        always = any(t.mutated is True and t.optional is False for t in self.signature.inputs)
        return bool(self.signature.outputs) and not always

    def _pointer(self, tensor: Input) -> str:
        # What has elements and lies nowhere would be read there by a kernel.
        pointer = f"{tensor.name}.data_ptr() or _nowhere({tensor.name})"
        if self._is_optional(tensor.name):
            pointer = f"None if {tensor.name} is None else {pointer}"
        return f"_at_{tensor.name} = {pointer}"

    def _result(self) -> None:
        w = self.writer
        outputs = self.signature.outputs
        tests: list[str] = []
        if len(outputs) == 1:
            tests = self._wrong("_result", "_route.shape", "_route.dtype")
            if outputs[0].nullable is not None:
                tests = [_if_there("_result", "_route.shape", tests)]
        else:
            tests = [f"type(_result) is not tuple or len(_result) != {len(outputs)}"]
            for i, output in enumerate(outputs):
                item, due = f"_result[{i}]", f"_route.expected[{i}]"
                wrong = self._wrong(item, f"{due}[0]", f"{due}[1]", f"_at_{i}")
                tests += wrong if output.nullable is None else [_if_there(item, due, wrong)]
            tests += [self._same_memory(i, j) for i in range(len(outputs)) for j in range(i)]
        recheck = f"_result = _recheck(self, _route, {self._inputs()}, _result)"
        with w.block("try:"):
            with w.block("if _route.fresh and (" if self.plan.may_write else "if ("):
                self._any_of(tests)
            with w.block("):"):
                w.line(recheck)
        # Some layouts refuse to be asked; such a result cannot be right either.
        with w.block("except RuntimeError:"):
            w.line(recheck)

    def _wrong(self, result: str, shape: str, dtype: str, at: str = "") -> list[str]:
        """Tests that are true if a new output is, or may be, not what is due.

        Args:
            result: the output.
            shape: what its shape has to be.
            dtype: the same of its dtype.
            at: the name that keeps where it lies, for later tests.
        """
        tests = [
            f"type({result}) is not _Tensor",
            f"{result}.shape != {shape}",
            f"{result}.dtype is not {dtype}",
            f"({result}.is_cpu or {result}.device) != _route.place",
            f"not {result}.is_contiguous()",
            f"{result}.requires_grad",
        ]
        pointers = [f"_at_{t.name}" for t in self.signature.inputs]
        if len(pointers) == 1 and not at:
            tests.append(f"{result}.data_ptr() == {pointers[0]}")
        elif pointers:
            at = at or "_at"
            tests.append(f"({at} := {result}.data_ptr()) == {pointers[0]}")
            tests += [f"{at} == {pointer}" for pointer in pointers[1:]]
        return tests

    def _same_memory(self, i: int, j: int) -> str:
        mine, other = f"_result[{i}].data_ptr()", f"_result[{j}].data_ptr()"
        if self.signature.inputs:
            mine, other = f"_at_{i}", f"_at_{j}"
        test = f"{mine} == {other} != 0"  # outputs without elements lie nowhere, all of them
        nullable = [k for k in (i, j) if self.signature.outputs[k].nullable is not None]
        there = [f"_result[{k}] is not None" for k in nullable]
        return " and ".join([*there, test])

    # -- all ------------------------------------------------------------------------------

    def emit_call(self, operators: OperatorEmitter | None = None) -> None:
        """Write ``__call__``; ``operators`` writes what it is in graphs, if the op has some."""
        w = self.writer
        doc = f"Call {self.plan.op}; see the class."
        with w.block(f"def __call__({self._arguments()}):"):
            w.line(f'"""{doc}"""')
            with w.block("if _compiling():"):
                if operators and len(operators.bound) == 1:
                    operators.call(operators.bound[0])
                else:
                    w.line(f"return traced({', '.join(['self', *self._names])})")
            self._predicate()
            self.write_body()

    def emit_node(self) -> None:
        """Write the node body."""
        with self.writer.block(f"def node({', '.join(['self', *self._names])}):"):
            self.write_body()

    def emit_untraced(self) -> None:
        """Write what dynamo reads of an op without operators: it runs between graphs."""
        w = self.writer
        with w.block(f"def traced({', '.join(['self', *self._names])}):"):
            w.line(f"return node({', '.join(['self', *self._names])})")


@attrs.frozen(slots=False, eq=False, repr=False)
class CallCode(ShownByFields):
    """What is generated of a call.

    Attributes:
        call: ``__call__``.
        traced: what a graph records of it.
        text: the source of both.
        later: the source of ``node`` and of what the operators do; few ops of a process need it.
        functions: those of ``text``.
    """

    call: FunctionType
    traced: FunctionType
    text: str
    functions: Mapping[str, FunctionType]
    later: LateSource | None = None

    @property
    def source(self) -> str:
        """All of its source."""
        return self.text if self.later is None else f"{self.text}\n{self.later.text()}"

    @cached_property
    def node(self) -> FunctionType:
        """A call on plain tensors, every argument in order."""
        node = (self.functions if self.later is None else self.later)["node"]
        node.__qualname__ = self.call.__qualname__
        untraced: FunctionType = torch_private.not_traced(
            node, "an op without an operator runs as it is"
        )
        return untraced

    def kernels(self, number: int) -> tuple[FunctionType, FunctionType]:
        """What an operator does with tensors that have data, and under autograd."""
        assert self.later is not None
        return self.later[f"run_{number}"], self.later[f"autograd_{number}"]


def emit_call(
    plan: Plan,
    bound: Sequence[Bound] = (),
    hosts: Hosts | None = None,
    emitter: CallEmitter | None = None,
) -> CallCode:
    """The generated functions of an op class.

    Args:
        plan: the op's plan.
        bound: its operators, if it has some.
        hosts: whom their keys stand for.
        emitter: writes them, if the op is of a kind of its own; such a one has no operators.
    """
    emitter = emitter or CallEmitter(plan)
    w, later = emitter.writer, None
    if hosts and bound:
        operators = OperatorEmitter(bound, hosts, w)
        emitter.emit_call(operators)
        w.line("")
        operators.emit_traced()
        write = partial(_write_kernels, plan, bound, hosts)
        later = LateSource(write, f"<tileops operators {plan.op}>")
    else:
        emitter.emit_call()
        w.line("")
        emitter.emit_node()
        w.line("")
        emitter.emit_untraced()
    functions = compile_source(w, f"<tileops call {plan.op}>")
    call = functions["__call__"]
    # Python words its own TypeError for a wrong count or keyword with this name.
    call.__qualname__ = plan.op
    return CallCode(call, functions["traced"], w.text(), functions, later)


def _write_kernels(plan: Plan, bound: Sequence[Bound], hosts: Hosts) -> SourceWriter:
    emitter = CallEmitter(plan)
    emitter.emit_node()
    OperatorEmitter(bound, hosts, emitter.writer).emit_kernels(emitter.write_body)
    return emitter.writer


def _if_there(result: str, due: str, wrong: list[str]) -> str:
    """A nullable output: None exactly where none is due, else like any other."""
    return f"({result} is not None if {due} is None else ({' or '.join(wrong)}))"
