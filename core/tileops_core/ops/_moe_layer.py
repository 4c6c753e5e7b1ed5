"""What the fused mixture-of-experts layers share: the router, the routed experts, and between them
whatever they were given.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from tileops_core.interfaces.moe_layer import PreparedTokens, PrepareFinalize, RoutedExperts
from tileops_core.op import Op
from tileops_core.op.parameters import ParameterAttribute
from tileops_core.record.profiles import matrix_key

_Value = TypeVar("_Value")


class MoELayer(Op):
    """Base of the fused layers; a subclass has the stages ``route_select``, ``routed_experts``.

    Its ``__init__`` calls :meth:`_take` first, then the base's, then :meth:`_hold`.
    """

    top_k: int
    scoring_func: str
    renormalize: bool
    routed_scaling_factor: float
    num_expert_group: int
    topk_group: int
    activation: str
    injected_parameters: ClassVar[tuple[str, ...]] = ("prepare_finalize", "experts")
    prepare_finalize: Any = ParameterAttribute("prepare_finalize")
    experts: Any = ParameterAttribute("experts")

    def _take(
        self, prepare_finalize: PrepareFinalize | None, experts: RoutedExperts | None
    ) -> None:
        """Keep what was injected, and take over what given experts settle.

        Raises:
            TypeError: an object without the members that its protocol has.
            ValueError: a parameter that the experts contradict.
        """
        name: str = type(self).__qualname__
        for given, parameter, members in (
            (prepare_finalize, "prepare_finalize", ("prepare", "finalize")),
            (experts, "experts", ("activation", "routed_scaling_factor", "__call__")),
        ):
            missing = [m for m in members if given is not None and not hasattr(given, m)]
            if missing:
                raise TypeError(
                    f"{name}: {parameter} is {given!r}, which has no {' and no '.join(missing)}; "
                    "pass an object as the protocol in tileops_core.interfaces.moe_layer says"
                )
        self.prepare_finalize, self.experts = prepare_finalize, experts
        # No target's builder knows them, and other processes may wait for this one's empty calls.
        self._runs_own_body = prepare_finalize is not None or experts is not None
        if experts is not None:
            self.activation = _settled(
                name, "activation", self.activation, experts.activation, "silu_and_mul"
            )
            self.routed_scaling_factor = _settled(
                name,
                "routed_scaling_factor",
                self.routed_scaling_factor,
                experts.routed_scaling_factor,
                1.0,
            )

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of what is multiplied."""
        return matrix_key(self.last_call.tensors["hidden_states"][1])

    def _hold(self) -> None:
        """Hold the two stages: what computes at each is settled from now on."""
        self._router()
        self._routed_experts()

    def _router(self) -> Any:
        return self.delegate_for(
            "route_select",
            (),
            top_k=self.top_k,
            scoring_func=self.scoring_func,
            renormalize=self.renormalize,
            num_expert_group=self.num_expert_group,
            topk_group=self.topk_group,
        )

    def _routed_experts(self) -> Any:
        if self.experts is not None and not isinstance(self.experts, Op):
            return self.experts
        return self.delegate_for(
            "routed_experts",
            (),
            self.experts,
            routed_scaling_factor=self.routed_scaling_factor,
            activation=self.activation,
        )

    def _routed(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None,
        b_gate_up: Tensor | None = None,
        b_down: Tensor | None = None,
    ) -> Tensor:
        """What the routed experts add to each token."""
        name: str = type(self).__qualname__
        weights, ids = self._router()(gating_output, correction_bias)
        experts, between = self._routed_experts(), self.prepare_finalize
        if between is None:
            routed = experts(hidden_states, w_gate_up, w_down, weights, ids, b_gate_up, b_down)
            return _checked(name, routed, "experts", hidden_states)
        count = w_down.shape[0]
        prepared: PreparedTokens = between.prepare(hidden_states, weights, ids, count)
        first, behind = _chosen(name, between, prepared, count)
        routed = experts(
            prepared.hidden_states,
            w_gate_up[first:behind],
            w_down[first:behind],
            prepared.topk_weights,
            prepared.topk_ids,
            None if b_gate_up is None else b_gate_up[first:behind],
            None if b_down is None else b_down[first:behind],
        )
        _checked(name, routed, "experts", prepared.hidden_states)
        output = between.finalize(routed, prepared)
        return _checked(name, output, "finalize of prepare_finalize", hidden_states)


def _chosen(op: str, by: PrepareFinalize, prepared: PreparedTokens, count: int) -> tuple[int, int]:
    """The first of the experts that an injected object chose, and the one behind the last."""
    first, behind = prepared.first_expert, prepared.first_expert + prepared.num_experts
    if not 0 <= first <= behind <= count:
        raise ValueError(
            f"{op}: prepare of {by!r} chose the experts from {first} to before {behind}, the layer "
            f"has {count}"
        )
    return first, behind


def _checked(op: str, result: Any, by: str, due: Tensor) -> Tensor:
    """A result of an injected object, whose fault it would be: the op's own are right."""
    if (
        isinstance(result, Tensor)
        and result.shape == due.shape
        and result.dtype is due.dtype
        and result.device == due.device
    ):
        return result
    raise TypeError(
        f"{op}: {by} returned {_told(result)}, due is {_told(due)}; it is the object passed at "
        "construction that has to be repaired"
    )


def _settled(op: str, parameter: str, given: _Value, settled: _Value, default: _Value) -> _Value:
    """The experts' own value; another one that is no default was asked for in vain."""
    if given not in (default, settled):
        raise ValueError(
            f"{op}: {parameter} is {given!r}, but the experts that were passed have {settled!r}; "
            f"leave {parameter} out, or pass experts that have it"
        )
    return settled


def _told(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{dtype}{list(value.shape)} on {value.device}"
