"""What a tensor is, without the tensor."""

from __future__ import annotations

from typing import Any

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
        _set_device(self, torch.device(device))
        _set_dtype(self, dtype)
        _set_shape(self, tuple(shape))

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSpec:
        """The facts of an existing tensor."""
        spec = object.__new__(cls)
        device = tensor.device
        _set_device(spec, _DEVICES.setdefault(device, device))
        _set_dtype(spec, tensor.dtype)
        _set_shape(spec, tuple(tensor.shape))
        return spec

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


_DEVICES: dict[torch.device, torch.device] = {}
"""One object per device, for all specs of tensors there."""

# What frozen instances are filled through: their own __setattr__ refuses.
_set_device: Any = TensorSpec.__dict__["device"].__set__
_set_dtype: Any = TensorSpec.__dict__["dtype"].__set__
_set_shape: Any = TensorSpec.__dict__["shape"].__set__
