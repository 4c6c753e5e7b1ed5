"""Mixtures of experts.

M tokens of width H have K of E experts each, M * K routes in all; R are the rows that experts'
rows lie in, by the layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.interfaces.moe import (
    ContiguousLayout,
    FusedTopKCall,
    IndexedExpertMLPCall,
    MoEGroupedGEMMCall,
    MoEGroupedGEMMFP8Call,
    MoEPermuteAlignCall,
    MoEPostPermuteCall,
    MoEPrePermuteCall,
    RoutingEpilogueSpec,
    SharedExpertMLPCall,
)
from tileops_core.interfaces.moe_layer import PrepareFinalize, RoutedExperts
from tileops_core.op import Op
from tileops_core.ops._moe_layer import MoELayer
from tileops_core.record.profiles import matrix_key
from tileops_core.tensor_spec import TensorSpec

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

_TIGHT = ContiguousLayout()
"""No row between experts' rows: what fused ops permute tokens to."""


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
    belong to no expert may hold anything, in ``a`` and in the result. Follows DeepGEMM's
    grouped products and their layouts.
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

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of what is multiplied."""
        return matrix_key(self.last_call.tensors["a"][1])


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

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of what is multiplied."""
        return matrix_key(self.last_call.tensors["a"][1])


class SharedExpertMLPFwdOp(Op):
    """``(silu(h @ gate.T) * (h @ up.T)) @ w_down.T``: an expert of all tokens.

    ``w_gate_up`` is gate over up, ``[2 * F_s, H]``. The product is rounded to the dtype before
    ``w_down``; sums are float32. Follows DeepSeekMoE (arXiv 2401.06066).
    """

    def call_spec(
        self, hidden_states: TensorSpec, w_gate_up: TensorSpec, w_down: TensorSpec
    ) -> SharedExpertMLPCall:
        """Sizes."""
        return SharedExpertMLPCall(
            hidden_states.device, hidden_states.dtype, *hidden_states.shape, w_down.shape[1]
        )

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of what is multiplied."""
        return matrix_key(self.last_call.tensors["hidden_states"][1])


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

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of what is multiplied."""
        return matrix_key(self.last_call.tensors["hidden_states"][1])


class MoEExpertMLPFwdOp(Op):
    """``act(x @ w_gate_up[e].T + b_gate_up[e]) @ w_down[e].T + b_down[e]`` for expert e's rows x.

    Activations are those of ``MoEGroupedGEMMFwdOp``, of which this op makes two calls; activated
    values are rounded to the dtype, and nothing is weighted. Rows that belong to no expert may
    hold anything. Follows the experts of Mixtral (arXiv 2401.04088).
    """

    delegate_types: ClassVar[Mapping[str, type[Op]]] = {
        "gate_up": MoEGroupedGEMMFwdOp,
        "down": MoEGroupedGEMMFwdOp,
    }

    def forward(
        self,
        expert_input: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        layout_metadata: Tensor,
        out: Tensor | None = None,
        *,
        b_gate_up: Tensor | None = None,
        b_down: Tensor | None = None,
    ) -> Tensor:
        """One product and its activation, then the other."""
        gate_up = self.delegate_for("gate_up", (), layout=self.layout, activation=self.activation)
        down = self.delegate_for("down", (), layout=self.layout)
        hidden = gate_up(expert_input, w_gate_up, layout_metadata, bias=b_gate_up)
        result: Tensor = down(hidden, w_down, layout_metadata, bias=b_down, out=out)
        return result

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of what is multiplied."""
        return matrix_key(self.last_call.tensors["expert_input"][1])


class FusedMoEExpertsFwdOp(Op):
    """``output[t] = routed_scaling_factor * sum_k topk_weights[t, k] * mlp(topk_ids[t, k], t)``.

    ``mlp(e, t) = act(h @ w_gate_up[e].T + b_gate_up[e]) @ w_down[e].T + b_down[e]`` for
    ``h = hidden_states[t]``, with the activations of ``MoEGroupedGEMMFwdOp``. Tokens are permuted
    to their experts and back, or, when there are few and the experts are plain, each route reads
    its expert's weights where they are. Activated values are rounded to the dtype, sums are
    float32. Follows vLLM's ``fused_experts``.
    """

    delegate_types: ClassVar[Mapping[str, type[Op]]] = {
        "pre_permute": MoEPrePermuteFwdOp,
        "expert_mlp": MoEExpertMLPFwdOp,
        "post_permute": MoEPostPermuteFwdOp,
        "indexed_small_route": IndexedExpertMLPFwdOp,
    }

    def forward(
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
        """Route by route when that is less work than sorting them, else by expert."""
        result: Tensor
        experts, width, inner = w_down.shape
        plain = self.activation == "silu_and_mul" and b_gate_up is None and b_down is None
        whole = width % 128 == 0 and inner % 256 == 0
        if plain and whole and topk_ids.shape[0] * topk_ids.shape[1] <= 2 * experts:
            indexed = self.delegate_for(
                "indexed_small_route", (), routed_scaling_factor=self.routed_scaling_factor
            )
            result = indexed(hidden_states, w_gate_up, w_down, topk_weights, topk_ids, out=out)
            return result
        permute = self.delegate_for(
            "pre_permute", experts, layout=_TIGHT, num_local_experts=experts
        )
        mlp = self.delegate_for("expert_mlp", (), layout=_TIGHT, activation=self.activation)
        back = self.delegate_for(
            "post_permute",
            (),
            layout=_TIGHT,
            epilogue=RoutingEpilogueSpec(self.routed_scaling_factor),
        )
        rows, ends, inverse = permute(hidden_states, topk_ids)
        rows = mlp(rows, w_gate_up, w_down, ends, b_gate_up=b_gate_up, b_down=b_down)
        result = back(rows, topk_weights, inverse, out=out)
        return result

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of what is multiplied."""
        return matrix_key(self.last_call.tensors["hidden_states"][1])


class FusedMoEFwdOp(MoELayer):
    """A layer from its logits on: ``FusedTopKFwdOp``, then ``FusedMoEExpertsFwdOp``.

    The router's factor is 1, ``routed_scaling_factor`` is the experts'. gpt-oss is softmax,
    ``renormalize``, swigluoai and biases. Follows vLLM's layer ``FusedMoE``.

    ``prepare_finalize`` brings tokens to other processes' experts and the results back;
    ``experts`` is the op, or any other object, that computes them, and settles ``activation`` and
    ``routed_scaling_factor``: see ``tileops_core.interfaces.moe_layer``.
    """

    injected_parameters = ("prepare_finalize", "experts")
    delegate_types: ClassVar[Mapping[str, type[Op]]] = {
        "route_select": FusedTopKFwdOp,
        "routed_experts": FusedMoEExpertsFwdOp,
    }

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
        self.top_k = top_k
        self.scoring_func = scoring_func
        self.renormalize = renormalize
        self.routed_scaling_factor = routed_scaling_factor
        self.num_expert_group = num_expert_group
        self.topk_group = topk_group
        self.activation = activation
        self._take(prepare_finalize, experts)
        super().__init__(target=target)
        self._hold()

    def forward(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
        b_gate_up: Tensor | None = None,
        b_down: Tensor | None = None,
    ) -> Tensor:
        """Route, then compute."""
        return self._routed(
            hidden_states, gating_output, w_gate_up, w_down, correction_bias, b_gate_up, b_down
        )


class FusedMoESharedExpertFwdOp(MoELayer):
    """``FusedMoEFwdOp`` without biases, and ``SharedExpertMLPFwdOp`` next to it.

    Returns ``(shared_output, routed_output)``, the first None without a shared expert. Its weights
    are those of all ``tp_size`` ranks, and its output is what the inner columns from
    ``tp_rank * F_s / tp_size`` on contribute, which the caller sums over the ranks; the routed
    experts are not split. Where there are several ranks, every call copies this rank's columns.
    Follows DeepSeekMoE (arXiv 2401.06066).

    ``prepare_finalize`` and ``experts`` are as for ``FusedMoEFwdOp``.
    """

    injected_parameters = ("prepare_finalize", "experts")
    delegate_types: ClassVar[Mapping[str, type[Op]]] = {
        "route_select": FusedTopKFwdOp,
        "routed_experts": FusedMoEExpertsFwdOp,
        "shared_expert": SharedExpertMLPFwdOp,
    }

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
        self.top_k = top_k
        self.scoring_func = scoring_func
        self.renormalize = renormalize
        self.routed_scaling_factor = routed_scaling_factor
        self.num_expert_group = num_expert_group
        self.topk_group = topk_group
        self.tp_size = tp_size
        self.tp_rank = tp_rank
        self.activation = activation
        self._take(prepare_finalize, experts)
        super().__init__(target=target)
        self._hold()

    def forward(
        self,
        hidden_states: Tensor,
        gating_output: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        correction_bias: Tensor | None = None,
        shared_w_gate_up: Tensor | None = None,
        shared_w_down: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        """The shared expert, if there is one, and the routed ones."""
        shared = None
        if shared_w_gate_up is not None and shared_w_down is not None:
            expert = self.delegate_for("shared_expert", ())
            shared = expert(hidden_states, *self._share(shared_w_gate_up, shared_w_down))
        routed = self._routed(hidden_states, gating_output, w_gate_up, w_down, correction_bias)
        return shared, routed

    def _share(self, w_gate_up: Tensor, w_down: Tensor) -> tuple[Tensor, Tensor]:
        """The columns of a shared expert that are this rank's."""
        if self.tp_size == 1:
            return w_gate_up, w_down
        inner = w_down.shape[1] // self.tp_size
        mine = slice(self.tp_rank * inner, (self.tp_rank + 1) * inner)
        gate_and_up = w_gate_up.unflatten(0, (2, -1))[:, mine]
        return gate_and_up.flatten(0, 1).contiguous(), w_down[:, mine].contiguous()


def _product(lengths: list[int]) -> int:
    """How many rows there are, in a matrix or in several of equal height."""
    return lengths[0] if len(lengths) == 1 else lengths[0] * lengths[1]
