"""Mixtures of experts.

M tokens of width H have K of E experts each, M * K routes in all; R are the rows that experts'
rows lie in, by the layout.
"""

from __future__ import annotations

from tileops_core.interfaces.moe import (
    FusedTopKCall,
    IndexedExpertMLPCall,
    MoEGroupedGEMMCall,
    MoEGroupedGEMMFP8Call,
    MoEPermuteAlignCall,
    MoEPostPermuteCall,
    MoEPrePermuteCall,
    SharedExpertMLPCall,
)
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

__all__ = [
    "FusedTopKFwdOp",
    "IndexedExpertMLPFwdOp",
    "MoEGroupedGEMMFP8FwdOp",
    "MoEGroupedGEMMFwdOp",
    "MoEPermuteAlignFwdOp",
    "MoEPostPermuteFwdOp",
    "MoEPrePermuteFwdOp",
    "SharedExpertMLPFwdOp",
]


class FusedTopKFwdOp(Op):
    """The router: the ``top_k`` best experts of each token, and their weights.

    Scores are the softmax or the sigmoid of ``gating_output`` ``[M, E]``, in float32. Chosen are
    the experts with the greatest score plus ``correction_bias``, of those in the ``topk_group``
    best of ``num_expert_group`` groups of neighbors; a group is worth its best score or, with a
    bias, the sum of its two best biased ones. The best comes first, among equals the lower index.
    ``topk_weights`` are the scores without the bias, over their sum with ``renormalize``, times
    ``routed_scaling_factor``. DeepSeek-V2 (arXiv 2405.04434) and V3 (arXiv 2412.19437); follows
    vLLM's ``grouped_topk``.
    """

    def call_spec(
        self, gating_output: TensorSpec, correction_bias: TensorSpec | None
    ) -> FusedTopKCall:
        """Sizes, the parameters, and whether there is a bias."""
        tokens, experts = gating_output.shape
        return FusedTopKCall(
            gating_output.device,
            gating_output.dtype,
            tokens,
            experts,
            self.top_k,
            self.scoring_func,
            self.renormalize,
            self.num_expert_group,
            self.topk_group,
            self.routed_scaling_factor,
            correction_bias is not None,
        )


class MoEPermuteAlignFwdOp(Op):
    """Routes ``t * K + k`` sorted by expert, each share filled up to a multiple of a block.

    ``sorted_token_ids`` has M * K where there is no route, ``expert_ids`` each block's expert,
    ``num_tokens_post_pad`` the length of all shares; what lies behind it is no route, and of no
    expert. The order within an expert is any. Follows vLLM's ``moe_align_block_size``.
    """

    def call_spec(self, topk_ids: TensorSpec) -> MoEPermuteAlignCall:
        """Sizes and the block."""
        return MoEPermuteAlignCall(
            topk_ids.device, *topk_ids.shape, self.num_experts, self.block_size
        )


class MoEPrePermuteFwdOp(Op):
    """``expert_input[inverse_indices[t * K + k]] = hidden_states[t]``, rows grouped by expert.

    ``layout`` says how the groups follow each other, ``layout_metadata`` where each is. The rows
    of one expert are in any order; rows of padding hold anything. Without tokens the metadata
    still says that no expert has any. Follows vLLM's ``moe_permute``.
    """

    def call_spec(
        self, hidden_states: TensorSpec, local_expert_ids: TensorSpec
    ) -> MoEPrePermuteCall:
        """Sizes, the layout, and the rows that it needs."""
        tokens, width = hidden_states.shape
        top_k = local_expert_ids.shape[1]
        (rows, _), _, _ = self._infer_output_shapes(hidden_states, local_expert_ids)
        return MoEPrePermuteCall(
            hidden_states.device,
            hidden_states.dtype,
            tokens,
            width,
            top_k,
            self.num_local_experts,
            rows,
            self.layout,
        )


class MoEPostPermuteFwdOp(Op):
    """``output[t] = s * sum_k topk_weights[t, k] * expert_output[inverse_indices[t * K + k]]``.

    s is ``epilogue.routed_scaling_factor``, 1 without an epilogue. Rows of a masked layout are
    counted through, E * max_m of them. Summed in float32, rounded once. Follows vLLM's
    ``moe_unpermute``.
    """

    def call_spec(
        self, expert_output: TensorSpec, topk_weights: TensorSpec, inverse_indices: TensorSpec
    ) -> MoEPostPermuteCall:
        """Sizes, the layout, the factor and the result's dtype."""
        *groups, width = expert_output.shape
        tokens, top_k = topk_weights.shape
        return MoEPostPermuteCall(
            expert_output.device,
            expert_output.dtype,
            self.out_dtype or expert_output.dtype,
            tokens,
            width,
            top_k,
            _product(groups),
            self.layout,
            1.0 if self.epilogue is None else self.epilogue.routed_scaling_factor,
        )


class MoEGroupedGEMMFwdOp(Op):
    """``output[rows of e] = act(a[rows of e] @ b[e].T + bias[e])`` for every expert e.

    With an activation ``b[e]`` has 2 N rows, which give gates g and values u: the first N and the
    last in ``silu(g) * u`` and ``gelu(g) * u`` (the exact GELU), the even and the odd ones in
    swigluoai, ``min(g, 7) * sigmoid(1.702 * min(g, 7)) * (clamp(u, -7, 7) + 1)`` (gpt-oss, arXiv
    2508.10925). Summed in float32, rounded once, to ``out_dtype`` if that is given. Rows that
    belong to no expert may hold anything, in ``a`` and in the result.
    """

    def call_spec(
        self, a: TensorSpec, b: TensorSpec, layout_metadata: TensorSpec, bias: TensorSpec | None
    ) -> MoEGroupedGEMMCall:
        """Sizes, the layout, the activation, and whether there is a bias."""
        *groups, contraction = a.shape
        experts, columns, _ = b.shape
        return MoEGroupedGEMMCall(
            a.device,
            a.dtype,
            self.out_dtype or a.dtype,
            _product(groups),
            columns if self.activation is None else columns // 2,
            contraction,
            experts,
            self.layout,
            self.activation,
            bias is not None,
        )


class MoEGroupedGEMMFP8FwdOp(Op):
    """``output[e, m] = a[e, m] @ b[e].T`` of float8 codes with scales, in bfloat16.

    The codes of every 128 columns are multiplied and summed as they are, times
    ``a_scale[e, m, k // 128]`` and ``b_scale[e, n // 128, k // 128]``, then added up in float32.
    ``layout_metadata[e]`` rows of expert e count, from 0 to ``max_m``; the others may hold
    anything. Follows DeepGEMM's ``m_grouped_fp8_gemm_nt_masked``.
    """

    def call_spec(
        self,
        a: TensorSpec,
        a_scale: TensorSpec,
        b: TensorSpec,
        b_scale: TensorSpec,
        layout_metadata: TensorSpec,
    ) -> MoEGroupedGEMMFP8Call:
        """Sizes and the layout."""
        return MoEGroupedGEMMFP8Call(a.device, *b.shape, self.layout)


class SharedExpertMLPFwdOp(Op):
    """``(silu(h @ gate.T) * (h @ up.T)) @ w_down.T``: an expert of all tokens.

    ``w_gate_up`` is gate over up, ``[2 * F_s, H]``. The product is rounded to the dtype before
    ``w_down``; sums are float32.
    """

    def call_spec(
        self, hidden_states: TensorSpec, w_gate_up: TensorSpec, w_down: TensorSpec
    ) -> SharedExpertMLPCall:
        """Sizes."""
        return SharedExpertMLPCall(
            hidden_states.device, hidden_states.dtype, *hidden_states.shape, w_down.shape[1]
        )


class IndexedExpertMLPFwdOp(Op):
    """The routed experts of few tokens: each route reads its expert's weights where they are.

    ``output[t] = routed_scaling_factor * sum_k topk_weights[t, k] * mlp(topk_ids[t, k], t)``, with
    ``mlp(e, t) = (silu(h @ gate.T) * (h @ up.T)) @ w_down[e].T`` for ``h = hidden_states[t]``,
    ``w_gate_up[e]`` being gate over up. The product is rounded to the dtype before ``w_down``, sums
    are float32. Follows vLLM's ``fused_experts``.
    """

    def call_spec(
        self,
        hidden_states: TensorSpec,
        w_gate_up: TensorSpec,
        w_down: TensorSpec,
        topk_weights: TensorSpec,
        topk_ids: TensorSpec,
    ) -> IndexedExpertMLPCall:
        """Sizes and the factor."""
        experts, _, inner = w_down.shape
        return IndexedExpertMLPCall(
            hidden_states.device,
            hidden_states.dtype,
            *hidden_states.shape,
            inner,
            experts,
            topk_ids.shape[1],
            self.routed_scaling_factor,
        )


def _product(lengths: list[int]) -> int:
    """How many rows there are, in a matrix or in several of equal height."""
    return lengths[0] if len(lengths) == 1 else lengths[0] * lengths[1]
