"""What a tensor is, without the tensor."""

from __future__ import annotations

import torch


class TensorSpec:
    """Device, dtype and shape of a tensor; frozen, hashable, holds no data.

    Builders get one per input. Stands in for a contiguous tensor wherever only facts are read.
    """

    __slots__ = ("device", "dtype", "shape")

    device: torch.device
    dtype: torch.dtype
    shape: tuple[int, ...]

    def __init__(
        self, device: torch.device | str, dtype: torch.dtype, shape: tuple[int, ...]
    ) -> None:
        object.__setattr__(self, "device", torch.device(device))
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", tuple(shape))

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSpec:
        """The facts of an existing tensor."""
        return cls(tensor.device, tensor.dtype, tuple(tensor.shape))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a TensorSpec is frozen; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a TensorSpec is frozen; make a new one")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.dtype is other.dtype
            and self.shape == other.shape
            and self.device == other.device
        )

    def __hash__(self) -> int:
        return hash((self.device, self.dtype, self.shape))

    def __repr__(self) -> str:
        return f"TensorSpec({str(self.device)!r}, {self.dtype}, {self.shape})"

    def __reduce__(self) -> tuple[object, ...]:
        return TensorSpec, (self.device, self.dtype, self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    def is_contiguous(self) -> bool:
        """Always True: kernels see contiguous memory only."""
        return True
