# Generated from the manifest by tileops_core.ops._generate; do not edit.

from collections.abc import Sequence

from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.op import Op

__all__ = ["FusedAddLayerNormFwdOp", "FusedAddRMSNormFwdOp", "LayerNormFwdOp", "RMSNormFwdOp"]

class FusedAddLayerNormFwdOp(Op):
    """``r = x + residual`` and ``(r - mean) / sqrt(var + eps) * weight + bias`` over the last axis.

    Returns the norm and r. Computed in float32: the norm reads r before it is rounded. ``x`` and
    ``residual`` are ``[*B, N]``, ``weight`` and ``bias`` ``[N]``. Follows
    ``flash_attn.ops.triton.layer_norm.layer_norm_fn``, but is functional.
    """

    @property
    def eps(self) -> float: ...
    def __init__(
        self,
        eps: float = 1e-06,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            eps: float.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        x: Tensor,
        residual: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            x: T [*B, N].
            residual: T [*B, N].
            weight: T [N].
            bias: T [N].

        Returns:
            output: T [*B, N].
            residual_out: T [*B, N].
        """

class FusedAddRMSNormFwdOp(Op):
    """``r = input + residual`` and ``r * rsqrt(mean(r**2) + eps) * weight`` over the last axis.

    Returns the norm and r. Computed in float32: the norm reads r before it is rounded. ``input``
    and ``residual`` are ``[*B, N]``, ``weight`` ``[N]``. Follows
    ``flashinfer.norm.fused_add_rmsnorm``, but is functional.
    """

    @property
    def eps(self) -> float: ...
    def __init__(
        self,
        eps: float = 1e-06,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            eps: float.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
        residual: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*B, N].
            residual: T [*B, N].
            weight: T [N].

        Returns:
            output: T [*B, N].
            residual_out: T [*B, N].
        """

class LayerNormFwdOp(Op):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the ``normalized_shape`` axes.

    The variance is the biased one. Computed in float32 and rounded once. ``input`` is
    ``[*B, *normalized_shape]``; ``weight`` and ``bias`` are optional, each by itself. Ba, Kiros
    and Hinton, "Layer Normalization", 2016; follows ``torch.nn.functional.layer_norm``.
    """

    @property
    def normalized_shape(self) -> tuple[int, ...]: ...
    @property
    def eps(self) -> float: ...
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-05,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            normalized_shape: list[int] | tuple[int, ...].
            eps: float.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*B, *normalized_shape].
            weight: T [*normalized_shape], optional.
            bias: T [*normalized_shape], optional.

        Returns:
            output: T [*B, *normalized_shape].
        """

class RMSNormFwdOp(Op):
    """``x * rsqrt(mean(x**2) + eps) * weight`` over the trailing ``normalized_shape`` axes.

    Computed in float32, weight included, and rounded once. ``eps=None`` is float32's machine
    epsilon for every dtype. ``x`` is ``[*B, *normalized_shape]``, ``weight`` optional. Zhang and
    Sennrich, "Root Mean Square Layer Normalization", 2019; follows
    ``torch.nn.functional.rms_norm``.
    """

    @property
    def normalized_shape(self) -> tuple[int, ...]: ...
    @property
    def eps(self) -> float | None: ...
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            normalized_shape: list[int] | tuple[int, ...].
            eps: float | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        x: Tensor,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            x: T [*B, *normalized_shape].
            weight: T [*normalized_shape], optional.

        Returns:
            output: T [*B, *normalized_shape].
        """
