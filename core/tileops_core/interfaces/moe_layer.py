"""Mixtures of experts: what a fused layer can be given, for anybody to write.

A layer that is given nothing computes all its experts in this process.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs
from torch import Tensor

from tileops_core.by_fields import ShownByFields


@attrs.frozen(eq=False, repr=False)
class PreparedTokens(ShownByFields):
    """The tokens that experts compute here, and on whose behalf.

    Args:
        hidden_states: ``[M', H]``, the layer's dtype; M' may be 0.
        topk_weights: ``[M', K']`` float32; K' is 1 at least.
        topk_ids: ``[M', K']`` int32, counted from ``first_expert``.
        first_expert: The first of the layer's experts that compute here.
        num_experts: How many do, this one and those that follow it.
        kept: What ``finalize`` needs to know; nobody else reads it.
    """

    hidden_states: Tensor
    topk_weights: Tensor
    topk_ids: Tensor
    first_expert: int
    num_experts: int
    kept: Any = None


class PrepareFinalize(Protocol):
    """Brings tokens to where their experts are, and the results back.

    An object with these two methods can be passed to the fused layers as ``prepare_finalize``. They
    call ``prepare`` behind the router, the routed experts with what it returns, and then
    ``finalize``; always both, and on a layer without tokens too, so they may wait for other
    processes. What one call of them knows is in ``PreparedTokens.kept``, so that one object serves
    any number of layers and threads. They run below autograd and call no op of this library,
    because a layer's record lists all ops that it calls. A layer that is built ahead of its first
    call passes tensors without data.
    """

    def prepare(
        self, hidden_states: Tensor, topk_weights: Tensor, topk_ids: Tensor, num_experts: int
    ) -> PreparedTokens:
        """Say which tokens the experts of this process compute.

        Args:
            hidden_states: ``[M, H]``: this process's tokens; not to be written.
            topk_weights: ``[M, K]`` float32, the router's.
            topk_ids: ``[M, K]`` int32, in ``[0, num_experts)``.
            num_experts: How many experts the layer has in all processes together.
        """

    def finalize(self, expert_output: Tensor, prepared: PreparedTokens) -> Tensor:
        """Give the tokens of this process their sums.

        Args:
            expert_output: ``[M', H]``: for each prepared token the sum over its K' experts, with
                weights and the layer's ``routed_scaling_factor`` applied.
            prepared: What ``prepare`` has returned.

        Returns:
            ``[M, H]``, contiguous, in the layer's dtype.
        """


class RoutedExperts(Protocol):
    """Computes what the routed experts add to tokens; ``FusedMoEExpertsFwdOp`` is one.

    An object with these members can be passed to the fused layers as ``experts``. The layer takes
    over ``activation`` and ``routed_scaling_factor`` and computes neither itself. An op is held as
    the stage ``routed_experts`` and leaves its record there. Any other object leaves none, and
    calls no op of this library.
    """

    @property
    def activation(self) -> str:
        """``"silu_and_mul"``, ``"gelu_and_mul"`` or ``"swigluoai"``."""

    @property
    def routed_scaling_factor(self) -> float:
        """The factor of every sum."""

    def __call__(
        self,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        b_gate_up: Tensor | None = None,
        b_down: Tensor | None = None,
    ) -> Tensor:
        """``routed_scaling_factor * sum_k topk_weights[t, k] * mlp(topk_ids[t, k], token t)``.

        Args:
            hidden_states: ``[M', H]``; M' may be 0.
            w_gate_up: ``[E', 2 * F, H]``, as are all that follow those of the experts here.
            w_down: ``[E', H, F]``.
            topk_weights: ``[M', K']`` float32.
            topk_ids: ``[M', K']`` int32, in ``[0, E')``.
            b_gate_up: ``[E', 2 * F]`` or None.
            b_down: ``[E', H]`` or None.

        Returns:
            ``[M', H]``, contiguous, in the dtype of ``hidden_states``, in memory of its own.
        """
