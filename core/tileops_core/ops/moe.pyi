# Generated from the manifest by tileops_core.ops._generate; do not edit.

from typing import Literal

import torch
from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout, RoutingEpilogueSpec
from tileops_core.interfaces.moe_layer import PrepareFinalize, RoutedExperts
from tileops_core.op import Op

__all__ = [
    "FusedMoEExpertsFwdOp",
    "FusedMoEFwdOp",
    "FusedMoESharedExpertFwdOp",
    "FusedTopKFwdOp",
    "IndexedExpertMLPFwdOp",
    "MoEExpertMLPFwdOp",
    "MoEGroupedGEMMFP8FwdOp",
    "MoEGroupedGEMMFwdOp",
    "MoEPermuteAlignFwdOp",
    "MoEPostPermuteFwdOp",
    "MoEPrePermuteFwdOp",
    "SharedExpertMLPFwdOp",
]

class FusedMoEExpertsFwdOp(Op):
    """``output[t] = routed_scaling_factor * sum_k topk_weights[t, k] * mlp(topk_ids[t, k], t)``.

    ``mlp(e, t) = act(h @ w_gate_up[e].T + b_gate_up[e]) @ w_down[e].T + b_down[e]`` for
    ``h = hidden_states[t]``, with the activations of ``MoEGroupedGEMMFwdOp``. Tokens are permuted
    to their experts and back, or, when there are few and the experts are plain, each route reads
    its expert's weights where they are. Activated values are rounded to the dtype, sums are
    float32. Follows vLLM's ``fused_experts``.
    """

    @property
    def routed_scaling_factor(self) -> float: ...
    @property
    def activation(self) -> Literal["silu_and_mul", "gelu_and_mul", "swigluoai"]: ...
    def __init__(
        self,
        routed_scaling_factor: float = 1.0,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul", "swigluoai"] = "silu_and_mul",
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            routed_scaling_factor: float.
            activation: 'silu_and_mul' | 'gelu_and_mul' | 'swigluoai'.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        b_gate_up: Tensor | None = None,
        b_down: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            hidden_states: T [M, H].
            w_gate_up: T [E, 2 * F, H].
            w_down: T [E, H, F].
            topk_weights: float32 [M, K].
            topk_ids: int32 [M, K].
            b_gate_up: T [E, 2 * F], optional.
            b_down: T [E, H], optional.
            out: what output is written to, if not to new memory.

        Returns:
            output: T [M, H].
        """

class FusedMoEFwdOp(Op):
    """A layer from its logits on: ``FusedTopKFwdOp``, then ``FusedMoEExpertsFwdOp``.

    The router's factor is 1, ``routed_scaling_factor`` is the experts'. gpt-oss is softmax,
    ``renormalize``, swigluoai and biases. Follows vLLM's layer ``FusedMoE``.

    ``prepare_finalize`` brings tokens to other processes' experts and the results back;
    ``experts`` is the op, or any other object, that computes them, and settles ``activation`` and
    ``routed_scaling_factor``: see ``tileops_core.interfaces.moe_layer``.
    """

    @property
    def top_k(self) -> int: ...
    @property
    def scoring_func(self) -> Literal["softmax", "sigmoid"]: ...
    @property
    def renormalize(self) -> bool: ...
    @property
    def routed_scaling_factor(self) -> float: ...
    @property
    def num_expert_group(self) -> int: ...
    @property
    def topk_group(self) -> int: ...
    @property
    def activation(self) -> Literal["silu_and_mul", "gelu_and_mul", "swigluoai"]: ...
    @property
    def prepare_finalize(self) -> PrepareFinalize | None: ...
    @property
    def experts(self) -> RoutedExperts | None: ...
    def __init__(
        self,
        top_k: int,
        scoring_func: Literal["softmax", "sigmoid"] = "softmax",
        renormalize: bool = False,
        routed_scaling_factor: float = 1.0,
        num_expert_group: int = 1,
        topk_group: int = 1,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul", "swigluoai"] = "silu_and_mul",
        target: str | Builtin | None = None,
        prepare_finalize: PrepareFinalize | None = None,
        experts: RoutedExperts | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            top_k: int.
            scoring_func: 'softmax' | 'sigmoid'.
            renormalize: bool.
            routed_scaling_factor: float.
            num_expert_group: int.
            topk_group: int.
            activation: 'silu_and_mul' | 'gelu_and_mul' | 'swigluoai'.
            target: who computes: a target's or backend's name, BUILTIN, or None.
            prepare_finalize: an object of the caller's; see the class.
            experts: an object of the caller's; see the class.
        """
    def __call__(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
        b_gate_up: Tensor | None = None,
        b_down: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            hidden_states: T [M, H].
            gating_output: float32 [M, E].
            w_gate_up: T [E, 2 * F, H].
            w_down: T [E, H, F].
            correction_bias: float32 [E], optional.
            b_gate_up: T [E, 2 * F], optional.
            b_down: T [E, H], optional.

        Returns:
            output: T [M, H].
        """

class FusedMoESharedExpertFwdOp(Op):
    """``FusedMoEFwdOp`` without biases, and ``SharedExpertMLPFwdOp`` next to it.

    Returns ``(shared_output, routed_output)``, the first None without a shared expert. Its weights
    are those of all ``tp_size`` ranks, and its output is what the inner columns from
    ``tp_rank * F_s / tp_size`` on contribute, which the caller sums over the ranks; the routed
    experts are not split. Where there are several ranks, every call copies this rank's columns.
    Follows DeepSeekMoE (arXiv 2401.06066).

    ``prepare_finalize`` and ``experts`` are as for ``FusedMoEFwdOp``.
    """

    @property
    def top_k(self) -> int: ...
    @property
    def scoring_func(self) -> Literal["softmax", "sigmoid"]: ...
    @property
    def renormalize(self) -> bool: ...
    @property
    def routed_scaling_factor(self) -> float: ...
    @property
    def num_expert_group(self) -> int: ...
    @property
    def topk_group(self) -> int: ...
    @property
    def tp_size(self) -> int: ...
    @property
    def tp_rank(self) -> int: ...
    @property
    def activation(self) -> Literal["silu_and_mul", "gelu_and_mul"]: ...
    @property
    def prepare_finalize(self) -> PrepareFinalize | None: ...
    @property
    def experts(self) -> RoutedExperts | None: ...
    def __init__(
        self,
        top_k: int,
        scoring_func: Literal["softmax", "sigmoid"] = "softmax",
        renormalize: bool = False,
        routed_scaling_factor: float = 1.0,
        num_expert_group: int = 1,
        topk_group: int = 1,
        tp_size: int = 1,
        tp_rank: int = 0,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul"] = "silu_and_mul",
        target: str | Builtin | None = None,
        prepare_finalize: PrepareFinalize | None = None,
        experts: RoutedExperts | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            top_k: int.
            scoring_func: 'softmax' | 'sigmoid'.
            renormalize: bool.
            routed_scaling_factor: float.
            num_expert_group: int.
            topk_group: int.
            tp_size: int.
            tp_rank: int.
            activation: 'silu_and_mul' | 'gelu_and_mul'.
            target: who computes: a target's or backend's name, BUILTIN, or None.
            prepare_finalize: an object of the caller's; see the class.
            experts: an object of the caller's; see the class.
        """
    def __call__(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
        shared_w_gate_up: Tensor | None = None,
        shared_w_down: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            hidden_states: T [M, H].
            gating_output: float32 [M, E].
            w_gate_up: T [E, 2 * F, H].
            w_down: T [E, H, F].
            correction_bias: float32 [E], optional.
            shared_w_gate_up: T [2 * F_s, H], optional.
            shared_w_down: T [H, F_s], optional.

        Returns:
            shared_output: T [M, H].
            routed_output: T [M, H].
        """

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

    @property
    def top_k(self) -> int: ...
    @property
    def scoring_func(self) -> Literal["softmax", "sigmoid"]: ...
    @property
    def renormalize(self) -> bool: ...
    @property
    def num_expert_group(self) -> int: ...
    @property
    def topk_group(self) -> int: ...
    @property
    def routed_scaling_factor(self) -> float: ...
    def __init__(
        self,
        top_k: int,
        scoring_func: Literal["softmax", "sigmoid"] = "softmax",
        renormalize: bool = False,
        num_expert_group: int = 1,
        topk_group: int = 1,
        routed_scaling_factor: float = 1.0,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            top_k: int.
            scoring_func: 'softmax' | 'sigmoid'.
            renormalize: bool.
            num_expert_group: int.
            topk_group: int.
            routed_scaling_factor: float.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        gating_output: Tensor,
        correction_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            gating_output: T [M, E].
            correction_bias: float32 [E], optional.

        Returns:
            topk_weights: float32 [M, top_k].
            topk_ids: int32 [M, top_k].
        """

class IndexedExpertMLPFwdOp(Op):
    """The routed experts of few tokens: each route reads its expert's weights where they are.

    ``output[t] = routed_scaling_factor * sum_k topk_weights[t, k] * mlp(topk_ids[t, k], t)``, with
    ``mlp(e, t) = (silu(h @ gate.T) * (h @ up.T)) @ w_down[e].T`` for ``h = hidden_states[t]``,
    ``w_gate_up[e]`` being gate over up. The product is rounded to the dtype before ``w_down``, sums
    are float32. Follows vLLM's ``fused_experts``.
    """

    @property
    def routed_scaling_factor(self) -> float: ...
    def __init__(
        self,
        routed_scaling_factor: float = 1.0,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            routed_scaling_factor: float.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            hidden_states: T [M, H].
            w_gate_up: T [E, 2 * F, H].
            w_down: T [E, H, F].
            topk_weights: float32 [M, K].
            topk_ids: int32 [M, K].
            out: what output is written to, if not to new memory.

        Returns:
            output: T [M, H].
        """

class MoEExpertMLPFwdOp(Op):
    """``act(x @ w_gate_up[e].T + b_gate_up[e]) @ w_down[e].T + b_down[e]`` for expert e's rows x.

    Activations are those of ``MoEGroupedGEMMFwdOp``, of which this op makes two calls; activated
    values are rounded to the dtype, and nothing is weighted. Rows that belong to no expert may
    hold anything. Follows the experts of Mixtral (arXiv 2401.04088).
    """

    @property
    def layout(self) -> ContiguousLayout | MaskedLayout: ...
    @property
    def activation(self) -> Literal["silu_and_mul", "gelu_and_mul", "swigluoai"]: ...
    def __init__(
        self,
        layout: ContiguousLayout | MaskedLayout,
        activation: Literal["silu_and_mul", "gelu_and_mul", "swigluoai"] = "silu_and_mul",
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            layout: MGroupedLayout.
            activation: 'silu_and_mul' | 'gelu_and_mul' | 'swigluoai'.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        expert_input: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        layout_metadata: Tensor,
        *,
        b_gate_up: Tensor | None = None,
        b_down: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            expert_input: T Rows[layout, E, P, H].
            w_gate_up: T [E, 2 * F, H].
            w_down: T [E, H, F].
            layout_metadata: int32 LayoutMetadata[layout, E, P].
            b_gate_up: T [E, 2 * F], optional.
            b_down: T [E, H], optional.
            out: what output is written to, if not to new memory.

        Returns:
            output: T Rows[layout, E, P, H].
        """

class MoEGroupedGEMMFP8FwdOp(Op):
    """``output[e, m] = a[e, m] @ b[e].T`` of float8 codes with scales, in bfloat16.

    The codes of every 128 columns are multiplied and summed as they are, times
    ``a_scale[e, m, k // 128]`` and ``b_scale[e, n // 128, k // 128]``, then added up in float32.
    ``layout_metadata[e]`` rows of expert e count, from 0 to ``max_m``; the others may hold
    anything. Follows DeepGEMM's ``m_grouped_fp8_gemm_nt_masked``.
    """

    @property
    def layout(self) -> ContiguousLayout | MaskedLayout: ...
    def __init__(
        self,
        layout: ContiguousLayout | MaskedLayout,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            layout: MGroupedLayout.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        a: Tensor,
        a_scale: Tensor,
        b: Tensor,
        b_scale: Tensor,
        layout_metadata: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        Args:
            a: float8_e4m3fn Rows[layout, E, K].
            a_scale: float32 Rows[layout, E, KB].
            b: float8_e4m3fn [E, N, K].
            b_scale: float32 [E, NB, KB].
            layout_metadata: int32 Counts[layout, E].
            out: what output is written to, if not to new memory.

        Returns:
            output: bfloat16 Rows[layout, E, N].
        """

class MoEGroupedGEMMFwdOp(Op):
    """``output[rows of e] = act(a[rows of e] @ b[e].T + bias[e])`` for every expert e.

    With an activation ``b[e]`` has 2 N rows, which give gates g and values u: the first N and the
    last in ``silu(g) * u`` and ``gelu(g) * u`` (the exact GELU), the even and the odd ones in
    swigluoai, ``min(g, 7) * sigmoid(1.702 * min(g, 7)) * (clamp(u, -7, 7) + 1)`` (gpt-oss, arXiv
    2508.10925). Summed in float32, rounded once, to ``out_dtype`` if that is given. Rows that
    belong to no expert may hold anything, in ``a`` and in the result. Follows DeepGEMM's
    grouped products and their layouts.
    """

    @property
    def layout(self) -> ContiguousLayout | MaskedLayout: ...
    @property
    def activation(self) -> Literal["silu_and_mul", "gelu_and_mul", "swigluoai"] | None: ...
    @property
    def out_dtype(self) -> torch.dtype | None: ...
    def __init__(
        self,
        layout: ContiguousLayout | MaskedLayout,
        *,
        activation: Literal["silu_and_mul", "gelu_and_mul", "swigluoai"] | None = None,
        out_dtype: torch.dtype | str | None = None,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            layout: MGroupedLayout.
            activation: 'silu_and_mul' | 'gelu_and_mul' | 'swigluoai' | None.
            out_dtype: float32 | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        a: Tensor,
        b: Tensor,
        layout_metadata: Tensor,
        *,
        bias: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            a: T Rows[layout, E, P, K].
            b: T [E, 2 * N if present(activation) else N, K].
            layout_metadata: int32 LayoutMetadata[layout, E, P].
            bias: T [E, 2 * N if present(activation) else N], optional.
            out: what output is written to, if not to new memory.

        Returns:
            output: coalesce_dtype(out_dtype, T) Rows[layout, E, P, N].
        """

class MoEPermuteAlignFwdOp(Op):
    """Routes ``t * K + k`` sorted by expert, each share filled up to a multiple of a block.

    ``sorted_token_ids`` has M * K where there is no route, ``expert_ids`` each block's expert,
    ``num_tokens_post_pad`` the length of all shares; what lies behind it is no route, and of no
    expert. The order within an expert is any. Follows vLLM's ``moe_align_block_size``.
    """

    @property
    def num_experts(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    def __init__(
        self,
        num_experts: int,
        block_size: int = 64,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            num_experts: int.
            block_size: int.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        topk_ids: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the op.

        Args:
            topk_ids: int32 [M, K].

        Returns:
            sorted_token_ids: int32 [P].
            expert_ids: int32 [ceil_div(P, block_size)].
            num_tokens_post_pad: int32 [1].
        """

class MoEPostPermuteFwdOp(Op):
    """``output[t] = s * sum_k topk_weights[t, k] * expert_output[inverse_indices[t * K + k]]``.

    s is ``epilogue.routed_scaling_factor``, 1 without an epilogue. Rows of a masked layout are
    counted through, E * max_m of them. Summed in float32, rounded once. Follows vLLM's
    ``moe_unpermute``.
    """

    @property
    def layout(self) -> ContiguousLayout | MaskedLayout: ...
    @property
    def epilogue(self) -> RoutingEpilogueSpec | None: ...
    @property
    def out_dtype(self) -> torch.dtype | None: ...
    def __init__(
        self,
        layout: ContiguousLayout | MaskedLayout,
        epilogue: RoutingEpilogueSpec | None = None,
        out_dtype: torch.dtype | str | None = None,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            layout: MGroupedLayout.
            epilogue: RoutingEpilogueSpec | None.
            out_dtype: float16 | bfloat16 | float32 | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        expert_output: Tensor,
        topk_weights: Tensor,
        inverse_indices: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            expert_output: T Rows[layout, E, P, H].
            topk_weights: float32 [M, K].
            inverse_indices: int32 [M * K].
            out: what output is written to, if not to new memory.

        Returns:
            output: coalesce_dtype(out_dtype, T) [M, H].
        """

class MoEPrePermuteFwdOp(Op):
    """``expert_input[inverse_indices[t * K + k]] = hidden_states[t]``, rows grouped by expert.

    ``layout`` says how the groups follow each other, ``layout_metadata`` where each is. The rows
    of one expert are in any order; rows of padding hold anything. Without tokens the metadata
    still says that no expert has any. Follows vLLM's ``moe_permute``.
    """

    @property
    def layout(self) -> ContiguousLayout | MaskedLayout: ...
    @property
    def num_local_experts(self) -> int: ...
    def __init__(
        self,
        layout: ContiguousLayout | MaskedLayout,
        num_local_experts: int,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            layout: MGroupedLayout.
            num_local_experts: int.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        hidden_states: Tensor,
        local_expert_ids: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            hidden_states: T [M, H].
            local_expert_ids: int32 [M, K].

        Returns:
            expert_input: T [P, H].
            layout_metadata: int32 LayoutMetadata[layout, num_local_experts, P].
            inverse_indices: int32 [M * K].
        """

class SharedExpertMLPFwdOp(Op):
    """``(silu(h @ gate.T) * (h @ up.T)) @ w_down.T``: an expert of all tokens.

    ``w_gate_up`` is gate over up, ``[2 * F_s, H]``. The product is rounded to the dtype before
    ``w_down``; sums are float32. Follows DeepSeekMoE (arXiv 2401.06066).
    """

    def __init__(
        self,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        hidden_states: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            hidden_states: T [M, H].
            w_gate_up: T [2 * F_s, H].
            w_down: T [H, F_s].

        Returns:
            output: T [M, H].
        """
