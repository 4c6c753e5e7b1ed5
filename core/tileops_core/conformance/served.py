"""An op as a target serves it on a device: constructed, called, and looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch import Tensor

from tileops_core.conformance import compare, inputs
from tileops_core.conformance.exact import Due, Exact, expected
from tileops_core.conformance.inputs import Arguments
from tileops_core.conformance.kinds import EXACT, ONE_CODE, SETS, TIES, Kind
from tileops_core.conformance.outcomes import Failed, Refused, Skipped
from tileops_core.conformance.variants import Variant
from tileops_core.errors import BackendError, DispatchError
from tileops_core.op import Op
from tileops_core.signature.instance import Instance
from tileops_core.signature.model import Signature


@attrs.frozen(eq=False)
class Served:
    """One op, the target that serves it, and where.

    Attributes:
        op_class: the op's class.
        signature: its signature.
        kind: how its results are compared.
        oracle: computes it; None where nobody has registered one.
        target: the target's name.
        device: the device.
        seed: decides all chance.
    """

    op_class: type[Op]
    signature: Signature
    kind: Kind
    oracle: Callable[..., Any] | None
    target: str
    device: torch.device
    seed: int = 0

    @property
    def op(self) -> str:
        """The op's name."""
        return self.signature.op

    def arguments(self, variant: Variant, seed: int = 0) -> Arguments:
        """New arguments of a call, the same for a seed."""
        return inputs.make(
            variant.call,
            seed=self.seed + seed,
            values=variant.values,
            layout=variant.layout,
            out=variant.out,
            device=self.device,
        )

    def construct(self, arguments: Arguments) -> Op:
        """A new instance under the target."""
        try:
            return self.op_class(**arguments.params, target=self.target)
        except Exception as error:
            raise Failed(f"construction: {described(error)}") from error

    def call(self, op: Op, arguments: Arguments) -> tuple[Tensor | None, ...]:
        """Call an instance; the results as a tuple, in the outputs' order.

        Raises:
            Refused: a kernel type says why it cannot serve the call.
            Failed: the call raised.
        """
        pairs = list(zip(self.signature.inputs, arguments.inputs, strict=True))
        named: dict[str, Any] = {item.name: x for item, x in pairs if item.kw_only}
        if arguments.out is not None:
            named["out"] = arguments.out
        try:
            result = op(*(x for item, x in pairs if not item.kw_only), **named)
        except DispatchError as error:
            raise Refused(str(error)) from error
        except BackendError as error:
            raise Failed(f"contract: {error}") from error
        except Exception as error:
            raise Failed(f"error: {described(error)}") from error
        if not self.signature.outputs:
            return ()
        return result if isinstance(result, tuple) else (result,)

    def written(self, call: Instance) -> tuple[str, ...]:
        """The inputs that a call writes."""
        return tuple(
            item.name
            for item in self.signature.inputs
            if call.inputs[item.name] is not None
            and (item.mutated is True or (item.mutated is not False and call.value(item.mutated)))
        )

    def exact(self, call: Instance, arguments: Arguments) -> Exact:
        """What a call has to give.

        Raises:
            Skipped: nobody has registered an oracle.
            Failed: the oracle itself fails.
        """
        if self.oracle is None:
            raise Skipped(
                f"no oracle of {self.op} is registered: install tileops-reference, or register one "
                "through tileops_oracles()"
            )
        try:
            return expected(call, self.kind, self.oracle, arguments, self.written(call))
        except Exception as error:
            raise Failed(f"oracle: {described(error)}; it is not the backend's fault") from error

    # -- looking at results -----------------------------------------------------------------

    def check_values(
        self, call: Instance, arguments: Arguments, results: Sequence[Tensor | None], due: Exact
    ) -> None:
        """Compare results and written inputs with what is due.

        Raises:
            Failed: ``value: ...``.
        """
        for output, result, one in zip(self.signature.outputs, results, due.outputs, strict=True):
            if (result is None) != (one is None):
                raise Failed(f"value: {output.name} is {'absent' if result is None else 'there'}")
            if result is not None and one is not None:
                self._compare(output.name, result, one, arguments)
        names = [item.name for item in self.signature.inputs]
        for name, one in due.written.items():
            tensor = arguments.inputs[names.index(name)]
            assert tensor is not None
            self._compare(name, tensor, one, arguments)

    def _compare(self, name: str, actual: Tensor, due: Due, arguments: Arguments) -> None:
        actual = actual.detach().cpu().resolve_neg()
        comparator = self.kind.outputs.get(name, "")
        if comparator == ONE_CODE:
            wrong = compare.one_code(actual, due.value)
        elif comparator == SETS:
            wrong = compare.as_sets(actual, due.value)
        elif comparator == TIES:
            names = [item.name for item in self.signature.inputs]
            scores = arguments.inputs[names.index(str(self.kind.scores))]
            assert scores is not None
            wrong = compare.ties(actual, due.value, scores.cpu())
        elif comparator == EXACT or due.allowed is None:
            wrong = compare.exact(actual, due.value)
        else:
            wrong = compare.close(actual, due.value, due.allowed)
        if wrong is not None:
            raise Failed(f"value: {name} {wrong}")

    def check_untouched(
        self, call: Instance, arguments: Arguments, before: Sequence[Tensor | None]
    ) -> None:
        """Whether only what the entry declares was written.

        Args:
            call: the call.
            arguments: its arguments after it.
            before: copies of the inputs from before.

        Raises:
            Failed: ``purity: ...``.
        """
        written = self.written(call)
        for item, tensor, copy in zip(self.signature.inputs, arguments.inputs, before, strict=True):
            if tensor is None or copy is None or item.name in written:
                continue
            if not same_bits(tensor, copy):
                raise Failed(
                    f"purity: wrote into {item.name}, which the entry does not declare written"
                )

    def check_facts(self, call: Instance, arguments: Arguments, results: Sequence[Any]) -> None:
        """Whether results have the shapes, dtypes and places that the entry says.

        Raises:
            Failed: ``metadata: ...``.
        """
        written = self.written(call)
        names = [item.name for item in self.signature.inputs]
        for output, result in zip(self.signature.outputs, results, strict=True):
            fact = call.outputs[output.name]
            if fact is None or result is None:
                if (fact is None) != (result is None):
                    raise Failed(f"metadata: {output.name} is {result}, due is {fact}")
                continue
            dtype, shape = getattr(torch, fact[0]), fact[1]
            device = self.device
            if device.index is None and result.device.type == device.type:
                device = result.device
            for what, actual, due in (
                ("dtype", result.dtype, dtype),
                ("shape", tuple(result.shape), shape),
                ("device", result.device, device),
            ):
                if actual != due:
                    raise Failed(f"metadata: {output.name} has {what} {actual}, due is {due}")
            kept = None
            if output.alias is not None and output.alias in written:
                kept = arguments.inputs[names.index(output.alias)]
            elif output.buffer and arguments.out is not None:
                kept = arguments.out
            if kept is not None and result is not kept:
                raise Failed(f"metadata: {output.name} is not the tensor that the call writes")
            if kept is None and not result.is_contiguous():
                raise Failed(f"metadata: {output.name} has strides {result.stride()}")


def described(error: BaseException) -> str:
    """An exception in a line, with what was noted on it."""
    notes = "; ".join(getattr(error, "__notes__", ()))
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text}{f' ({notes})' if notes else ''}"


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits, NaNs included."""
    return one.numel() == 0 or torch.equal(_bits(one), _bits(other))


def _bits(tensor: Tensor) -> Tensor:
    copy = tensor.detach().clone(memory_format=torch.contiguous_format).resolve_neg()
    return copy.reshape(-1).view(torch.uint8)


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """New memory holds NaN, or the greatest int, so that an element that nobody writes shows."""
    before = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic
    fills = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warns)
        settings.fill_uninitialized_memory = fills
