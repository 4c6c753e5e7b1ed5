"""Write the code of a call on a known route, once per op class.

One emitter, two functions: ``__call__`` asks first whether the tensors are plain and nobody is
watching (the predicate); ``node`` does not, and takes every argument in order. Both make the
call's key, look up the route, run it and check the result. Whatever is unusual leaves for
:mod:`tileops_core.call.modes` or :mod:`tileops_core.call.pipeline`; nothing here decides anything.
"""

from __future__ import annotations

import threading
from types import FunctionType

import torch

from tileops_core.call import checking, grad, inside, pipeline, torch_private
from tileops_core.plan.devices import undecided_device
from tileops_core.plan.model import Plan
from tileops_core.plan.source import SourceWriter, compile_source
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
        w.use("_Tensor", torch.Tensor)
        w.use("_Parameter", torch.nn.Parameter)
        w.use("_modes", torch_private.dispatch_modes)
        w.use("_functorch", torch_private.functorch_level)
        w.use("_jit", torch_private.jit_tracing)
        w.use("_autocast", torch_private.autocast_on)
        w.use("_profiling", torch_private.profiling)
        w.use("_fx", torch_private.fx_trace)
        w.use("_forward_ad", torch_private.forward_ad)
        w.use("_grad_on", torch.is_grad_enabled)
        w.use("_watching", checking.WATCHING)
        w.use("_unusual", inside.unusual)
        w.use("_with_grad", grad.node_with_grad)
        w.use("_miss", pipeline.miss)
        w.use("_recheck", pipeline.recheck)
        w.use("_blame", pipeline.blame_kernel)
        w.use("_thread", threading.get_ident)

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
            for n in self._names
        ]
        with w.block("if ("):
            self._any_of(
                [
                    *tests,
                    "_modes()",
                    "_functorch() is not None",
                    "_autocast()",
                    "_jit()",
                    "_profiling()",
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
        facts = [f"{name}.dtype", f"{name}.shape", f"{name}.device", layout, f"{name}.is_neg()"]
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

    def _key(self) -> list[str]:
        """One line of the key per tensor."""
        parts = []
        for tensor in self.signature.inputs:
            facts = self._facts(tensor, tensor.name, tensor.mutated is not False)
            if self._is_optional(tensor.name):
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

    def _body(self) -> None:
        w = self.writer
        with w.block("try:"):
            with w.block("_key = ("):
                for part in self._key():
                    w.line(f"{part},")
            w.line(")")
            if self._may_return_new():
                # Asked here because memory that is not dense has no address and leaves below.
                for tensor in self.signature.inputs:
                    w.line(self._pointer(tensor))
        with w.block("except RuntimeError:"):
            w.line(f"return _miss(self, None, {self._rest()})")
        w.line("_route = self._binding.young.get(_key)")
        with w.block("if _route is None:"):
            w.line(f"return _miss(self, _key, {self._rest()})")
        with w.block("try:"):
            inputs = ", ".join(t.name for t in self.signature.inputs)
            if self.takes_out:
                out = ", ".join(filter(None, (inputs, "out=out")))
                w.line(f"_result = _route.call({inputs}) if out is None else _route.call({out})")
            else:
                w.line(f"_result = _route.call({inputs})")
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
        pointer = f"{tensor.name}.data_ptr()"
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
                wrong = self._wrong(item, f"{due}[0]", f"{due}[1]")
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

    def _wrong(self, result: str, shape: str, dtype: str) -> list[str]:
        """Tests that are true if a new output is, or may be, not what is due."""
        tests = [
            f"type({result}) is not _Tensor",
            f"{result}.shape != {shape}",
            f"{result}.dtype is not {dtype}",
            f"{result}.device != _route.device",
            f"not {result}.is_contiguous()",
            f"{result}.requires_grad",
        ]
        pointers = [f"_at_{t.name}" for t in self.signature.inputs]
        if len(pointers) == 1:
            tests.append(f"{result}.data_ptr() == {pointers[0]}")
        elif pointers:
            tests.append(f"{result}.data_ptr() in ({', '.join(pointers)})")
        return tests

    def _same_memory(self, i: int, j: int) -> str:
        test = f"_result[{i}].data_ptr() == _result[{j}].data_ptr()"
        nullable = [k for k in (i, j) if self.signature.outputs[k].nullable is not None]
        there = [f"_result[{k}] is not None" for k in nullable]
        return " and ".join([*there, test])

    # -- all ------------------------------------------------------------------------------

    def emit(self) -> tuple[FunctionType, FunctionType, str]:
        """``__call__``, the node body, and their source."""
        w = self.writer
        doc = f"Call {self.plan.op}; see the class."
        with w.block(f"def __call__({self._arguments()}):"):
            w.line(f'"""{doc}"""')
            self._predicate()
            self._body()
        w.line("")
        with w.block(f"def node({', '.join(['self', *self._names])}):"):
            self._body()
        functions = compile_source(w, f"<tileops call {self.plan.op}>")
        call, node = functions["__call__"], functions["node"]
        # Python words its own TypeError for a wrong count or keyword with this name.
        call.__qualname__ = node.__qualname__ = self.plan.op
        return torch_private.not_traced(call), torch_private.not_traced(node), w.text()


def _if_there(result: str, due: str, wrong: list[str]) -> str:
    """A nullable output: None exactly where none is due, else like any other."""
    return f"({result} is not None if {due} is None else ({' or '.join(wrong)}))"
