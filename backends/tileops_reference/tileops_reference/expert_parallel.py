"""Experts on several processes: a layer's tokens go to them and come back by all-to-all."""

from __future__ import annotations

import attrs
import torch
import torch.distributed as dist
from torch import Tensor

from tileops_core.interfaces.moe_layer import PreparedTokens
from tileops_reference.functions.rope import wide


@attrs.frozen(eq=False)
class _Sent:
    """What the way back needs.

    ``order``: ``[M * K]``, the routes in the order in which they were sent. ``sent``, ``received``:
    how many went to each rank, and came from it. ``shape``: M and K.
    """

    order: Tensor
    sent: list[int]
    received: list[int]
    shape: torch.Size


@attrs.frozen
class ExpertParallel:
    """A ``prepare_finalize`` for layers whose experts are split over the ranks of a process group.

    Rank r of n computes the experts from ``r * E / n`` to before ``(r + 1) * E / n``. Each route is
    sent as a row of its own to the rank that has its expert, and its weighted result comes back,
    rounded to the layer's dtype; a token's results are summed in float32 where it came from. All
    ranks have to call the layer the same number of times, each with its own tokens, or with none.

    A fused layer takes the weights of all E experts and reads those of its rank. To hold no others,
    call the parts::

        weights, ids = route(gating_output)  # FusedTopKFwdOp
        here = parallel.prepare(hidden_states, weights, ids, E)
        rows = experts(  # FusedMoEExpertsFwdOp; the weights are this rank's
            here.hidden_states, w_gate_up, w_down, here.topk_weights, here.topk_ids
        )
        output = parallel.finalize(rows, here)

    Args:
        group: the process group, of any backend that has all-to-all for the tensors' device; None
            is the default group at each call.
    """

    group: dist.ProcessGroup | None = None

    def prepare(
        self, hidden_states: Tensor, topk_weights: Tensor, topk_ids: Tensor, num_experts: int
    ) -> PreparedTokens:
        """Send every route to the rank that has its expert.

        Args:
            hidden_states: ``[M, H]``.
            topk_weights: ``[M, K]`` float32.
            topk_ids: ``[M, K]`` int32, in ``[0, num_experts)``.
            num_experts: E, a multiple of the number of ranks.

        Raises:
            ValueError: E is no such multiple.
        """
        ranks, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        share, rest = divmod(num_experts, ranks)
        if rest:
            raise ValueError(
                f"ExpertParallel: {num_experts} experts cannot be split evenly over {ranks} ranks; "
                "choose a process group whose size divides their number"
            )
        ids = topk_ids.flatten()
        owners, order = (ids // share).sort(stable=True)
        ends = torch.searchsorted(
            owners, torch.arange(ranks, dtype=owners.dtype, device=owners.device), right=True
        )
        counts = ends.diff(prepend=ends.new_zeros(1))
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts, group=self.group)
        kept = _Sent(order, counts.tolist(), arriving.tolist(), topk_ids.shape)

        rows = hidden_states.index_select(0, order // max(topk_ids.shape[1], 1))
        # One exchange for both: a weight travels as the bits of an int32.
        words = torch.stack(
            (topk_weights.flatten().view(torch.int32)[order], ids[order] % share), 1
        )
        rows = self._exchange(rows, kept.sent, kept.received)
        words = self._exchange(words, kept.sent, kept.received)
        return PreparedTokens(
            rows,
            words[:, :1].contiguous().view(torch.float32),
            words[:, 1:].contiguous(),
            rank * share,
            share,
            kept,
        )

    def finalize(self, expert_output: Tensor, prepared: PreparedTokens) -> Tensor:
        """Send the results back and add up those of each token.

        Args:
            expert_output: ``[M', H]``, one row for each that has come.
            prepared: what :meth:`prepare` has returned.

        Returns:
            ``[M, H]``.
        """
        kept: _Sent = prepared.kept
        rows = self._exchange(expert_output, kept.received, kept.sent)
        routes = torch.empty_like(rows).index_copy_(0, kept.order, rows)
        dtype = expert_output.dtype
        width = expert_output.shape[1:]
        return routes.view(*kept.shape, *width).sum(1, dtype=wide(dtype)).to(dtype)

    def _exchange(self, rows: Tensor, sent: list[int], received: list[int]) -> Tensor:
        """Give each rank its part of the rows, in order of ranks, and get those for this one."""
        result = rows.new_empty((sum(received), *rows.shape[1:]))
        dist.all_to_all_single(result, rows.contiguous(), received, sent, group=self.group)
        return result
