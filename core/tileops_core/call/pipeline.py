"""A call that no route knows yet: check, choose who serves, run, check the result, keep a route."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

import torch

from tileops_core.backend.targets import check_target
from tileops_core.call import checking
from tileops_core.call.admit import admit
from tileops_core.call.binding import UNBOUND, Entered, enter, leave
from tileops_core.call.compose import (
    Effects,
    Tensors,
    by_name,
    effects_of,
    on_its_device,
    reading,
    writing,
)
from tileops_core.call.origin import note_origin
from tileops_core.call.presence import check_device_is_there
from tileops_core.call.purity import Purity
from tileops_core.call.resolve import Server, choose_target, resolve
from tileops_core.call.results import verify
from tileops_core.call.routes import Blamed, Credit, Expected, Route
from tileops_core.call.stages import file_stages, filed
from tileops_core.call.state import CalledOp
from tileops_core.call.torch_private import count_write, is_fake
from tileops_core.call.writes import check_out, check_written
from tileops_core.kernels.tuning import is_pending
from tileops_core.plan.model import Facts, OutputFacts, Plan
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.record.table import prune
from tileops_core.tensor_spec import TensorSpec


def miss(
    op: CalledOp,
    key: Any,
    inputs: tuple[Any, ...],
    out: Any = None,
    *,
    shapes_only: bool = False,
) -> Any:
    """Run a call whose route is not among the recent ones.

    Args:
        op: the instance.
        key: the call's key, or None for a call that no route may be kept of.
        inputs: the signature's inputs in order, None for absent ones.
        out: the caller's buffer, if the op takes one.
        shapes_only: give a result without data, as meta and fake inputs always get.
    """
    known = op._binding.promote(key) if key is not None else None
    if known is not None and not checking.active().purity:
        return run_known(op, known, inputs, out)
    plan = op._plan
    admit(plan, inputs, out)
    statics = op._construction.statics
    facts = plan.check(statics, *inputs)
    outputs = plan.outputs(statics, facts)
    effects = effects_of(plan, plan.written(statics, facts), out is not None)
    if out is not None:
        check_out(plan, outputs, facts, out)
    specs = tuple(None if x is None else TensorSpec.of(x) for x in inputs)
    empty = False
    if shapes_only or facts[0].type == "meta" or is_shapes_only(inputs):
        result = unserved(facts[0], outputs, effects, inputs, out)
        for _, written in _split(op, effects, inputs, out)[0]:
            count_write(written)
    elif is_empty_write(op, outputs, effects, inputs):
        check_target(plan.op, op._construction.target)
        if not effects.pure:
            check_written(plan, *_split(op, effects, inputs, out))
        result = unserved(facts[0], outputs, effects, inputs, out)
        empty = key is not None and effects.pure
    else:
        decide = partial(_decide, op, key, inputs, out, facts, outputs, effects, specs)
        result, record = _serve(op, decide)
        prune(op._running.last)
        remember(op, record, inputs)
        return result
    record = SignatureCall(plan, statics, specs, out is not None, Served(None))
    if empty:
        _keep_empty(op, key, record, facts[0], outputs, effects)
    remember(op, record, inputs)
    return result


def _keep_empty(
    op: CalledOp,
    key: Any,
    record: SignatureCall,
    device: torch.device,
    outputs: tuple[OutputFacts, ...],
    effects: Effects,
) -> None:
    """Keep a route of a call whose results have no elements, so that the next one is a hit.

    Only on an op that is bound: such a call asks nobody, so it cannot say who serves.
    """
    binding = op._binding
    if binding is UNBOUND:
        return
    credit = Credit(Blamed(str(binding.target)), Served(None))

    def nothing(*inputs: Any) -> Any:
        return unserved(device, outputs, effects, inputs, None)

    route = Route.of(nothing, True, _expected(record, outputs), device, record, credit, None)
    binding.keep(key, route)


def _serve(
    op: CalledOp, decide: Callable[[Entered], tuple[Any, SignatureCall]]
) -> tuple[Any, SignatureCall]:
    """Begin a call that has to decide something, decide and run it, and end it whatever happens."""
    entered, succeeded, left = Entered(), False, False
    try:
        try:
            enter(op, entered)
            found = decide(entered)
            succeeded = True
        finally:
            leave(op, entered, succeeded=succeeded)
            left = True
    finally:
        if not left:  # an interrupt came right there, and a second time would be another
            leave(op, entered, succeeded=False)
    return found


def _decide(
    op: CalledOp,
    key: Any,
    inputs: Tensors,
    out: torch.Tensor | None,
    facts: Facts,
    outputs: tuple[OutputFacts, ...],
    effects: Effects,
    specs: tuple[TensorSpec | None, ...],
    entered: Entered,
) -> tuple[Any, SignatureCall]:
    """Choose who serves a call, run it, and keep its route; the result and the record."""
    check_device_is_there(op, facts[0], inputs)
    choose_target(op, entered.binding, facts[0])
    server = resolve(op, entered, facts[0], specs)
    statics, has_out = op._construction.statics, out is not None
    record = SignatureCall(op._plan, statics, specs, has_out, server.credit.served)
    route = make_route(op, server, record, facts, outputs, effects, inputs)
    tunes = is_pending(server.holds)
    result = _run_new(op, route, effects, inputs, out)
    if server.is_body:
        # A hand-written body says only now which kernels it asked for.
        route.record = SignatureCall(op._plan, statics, specs, has_out, served_by(entered))
    if op._plan.composite:
        file_stages(op)  # before anybody else can see who serves: it may fail
    if key is not None and not tunes:
        entered.binding.keep(key, route)
        if is_pending(server.holds):
            # It will have another forward than the route's. Asked once more afterwards:
            # whoever asks for tuning marks the entry first, then drops the routes.
            entered.binding.young.pop(key, None)
    return result, route.record


def make_route(
    op: CalledOp,
    server: Server,
    record: SignatureCall,
    facts: Facts,
    outputs: tuple[OutputFacts, ...],
    effects: Effects,
    inputs: Tensors,
) -> Route:
    """A route for calls like this one; its callable holds all that this kind of call needs."""
    plan, device = op._plan, facts[0]
    kernel = on_its_device(by_name(plan, server.kernel), device)
    rest = (effects.pure, _expected(record, outputs), device, record, server.credit, server.holds)
    if effects.pure:
        return Route.of(reading(kernel, inputs), *rest)
    # The callable compares with a route of its own: the one that holds it would never be let go.
    return Route.of(writing(plan, Route.of(kernel, *rest), kernel, effects, inputs), *rest)


def check_first(plan: Plan, route: Route) -> None:
    """Have the first run of a new route checked in full, though it will be found like a known one.

    A call on it asks only what is cheap to ask. What writes is always checked in full.
    """
    if not route.fresh:
        return
    call, place = route.call, ref(route)

    def checked(*inputs: Any) -> Any:
        found = place()
        assert found is not None  # who calls this holds it
        result = verify(plan, found, inputs, (None,) * len(found.expected), call(*inputs))
        found.call = call
        return result

    route.call = checked


def _expected(record: SignatureCall, outputs: tuple[OutputFacts, ...]) -> tuple[Expected, ...]:
    return tuple(None if o is None else (_kept(record, o[0]), o[1]) for o in outputs)


def _kept(record: SignatureCall, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape to compare results with: an input's own, which the record keeps, where they agree."""
    shape = tuple(shape)
    for spec in record._inputs:
        if spec is not None and spec.shape == shape:
            return spec.shape
    return shape


def _run_new(
    op: CalledOp, route: Route, effects: Effects, inputs: Tensors, out: torch.Tensor | None
) -> Any:
    """Run and check in full; in checking mode also that nothing else was touched."""
    purity = Purity(op, inputs, out, effects) if checking.active().purity else None
    result = _run(op, route, inputs, out)
    if effects.pure:
        result = verify(op._plan, route, inputs, (None,) * len(route.expected), result)
    if purity is not None:
        purity.check(route, result)
    return result


def _run(op: CalledOp, route: Route, inputs: Tensors, out: torch.Tensor | None) -> Any:
    """Run a route's callable; what comes out of the kernel says whose it was."""
    try:
        return route.call(*inputs) if out is None else route.call(*inputs, out=out)
    except BaseException as error:
        note_origin(op._plan.op, route.blamed, error)
        raise


def run_known(op: CalledOp, route: Route, inputs: Tensors, out: torch.Tensor | None) -> Any:
    """Run a route outside the generated code, with the full result check."""
    result = _run(op, route, inputs, out)
    if route.fresh:
        result = verify(op._plan, route, inputs, (None,) * len(route.expected), result)
    remember(op, route.record, inputs)
    return result


def recheck(op: CalledOp, route: Route, inputs: Tensors, result: Any) -> Any:
    """What the hit path's cheap test found suspicious: the full check decides."""
    return verify(op._plan, route, inputs, (None,) * len(route.expected), result)


def blame_kernel(op: CalledOp, route: Route, error: BaseException) -> None:
    """Note on an exception of a known route whose kernel it came out of."""
    note_origin(op._plan.op, route.blamed, error)


def remember(op: CalledOp, record: SignatureCall, inputs: Tensors) -> None:
    """Make a record this thread's last one, with the call's own metadata where there is some."""
    plan = op._plan
    if plan.metadata or plan.composite:
        named = zip(plan.signature.inputs, inputs, strict=True)
        given = {t.name: x for t, x in named if t.values is not None}
        record = filed(op, record, given) if plan.composite else record.of_call(given)
    op._running.last[threading.get_ident()] = record


def served_by(entered: Entered) -> Served:
    """Who served a body, by the kernels it asked for."""
    return Served(
        entered.binding.target,
        {name: c.key for name, c in entered.chosen.items()},
        {name: c.backend for name, c in entered.chosen.items()},
    )


# -- calls that nobody has to run ---------------------------------------------------------


def is_shapes_only(inputs: Tensors) -> bool:
    """Whether the call has no data: meta or fake tensors."""
    return any(x is not None and (x.device.type == "meta" or is_fake(x)) for x in inputs)


def is_empty_write(
    op: CalledOp, outputs: tuple[OutputFacts, ...], effects: Effects, inputs: Tensors
) -> bool:
    """Whether the call writes something, all of it has zero elements, and so nobody has to run."""
    if op._runs_own_body:
        return False
    sizes = [inputs[i].numel() for i in effects.written]  # type: ignore[union-attr]
    for facts, alias in zip(outputs, effects.aliases, strict=True):
        if facts is not None and not isinstance(alias, int):
            sizes.append(torch.Size(facts[0]).numel())
    return bool(sizes) and not any(sizes)


def unserved(
    device: torch.device,
    outputs: tuple[OutputFacts, ...],
    effects: Effects,
    inputs: Tensors,
    out: torch.Tensor | None,
) -> Any:
    """The result by the signature alone: new outputs hold no data (or none at all)."""
    results: list[torch.Tensor | None] = []
    for output, alias in zip(outputs, effects.aliases, strict=True):
        if alias is not None:
            results.append(out if alias == "out" else inputs[int(alias)])
        elif output is None:
            results.append(None)
        else:
            results.append(torch.empty(output[0], dtype=output[1], device=device))
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


def _split(
    op: CalledOp, effects: Effects, inputs: Tensors, out: torch.Tensor | None
) -> tuple[list[tuple[str, torch.Tensor]], list[tuple[str, torch.Tensor]]]:
    """The tensors written and the other ones, with their names."""
    names = [t.name for t in op._plan.signature.inputs]
    written = [(names[i], x) for i in effects.written if (x := inputs[i]) is not None]
    if out is not None:
        written.append(("out", out))
    others = [
        (names[i], x) for i, x in enumerate(inputs) if x is not None and i not in effects.written
    ]
    return written, others
