"""How fast devices are at best, so that a call's distance from its roof can be told."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileops_core.by_fields import EqualByFields

DEFAULT_KEY = "cuda_core.fp32"
"""The unit of what computes element by element in float32."""

MATRIX_KEYS = {
    "float64": "tensor_core.fp64",
    "float16": "tensor_core.fp16",
    "bfloat16": "tensor_core.bf16",
    "float8_e4m3fn": "tensor_core.fp8",
    "float8_e5m2": "tensor_core.fp8",
    "int8": "tensor_core.int8",
    "uint8": "tensor_core.int8",
}
"""The unit of a matrix product, by the dtype of what is multiplied. float32 is not among them:
tensor cores would round its numbers to fewer bits than the signature says."""


def matrix_key(dtype: object) -> str:
    """The key of the unit that multiplies matrices of a dtype."""
    return MATRIX_KEYS.get(str(dtype).removeprefix("torch."), DEFAULT_KEY)


@attrs.frozen(eq=False, repr=False)
class Roof(EqualByFields):
    """The least time of a call on a device.

    Attributes:
        key: the unit that computes.
        compute: seconds of its operations; None where the unit's rate is not known.
        memory: seconds of its bytes.
    """

    key: str
    compute: float | None
    memory: float

    @property
    def seconds(self) -> float:
        """The least time: of the two, the longer."""
        return max(self.memory, self.compute or 0.0)

    @property
    def bound(self) -> str:
        """What the call waits for."""
        return "compute" if (self.compute or 0.0) > self.memory else "memory"


@attrs.frozen(eq=False, repr=False)
class DeviceProfile(EqualByFields):
    """What one device can do at best.

    Keys of units are in NVIDIA's words: ``cuda_core`` is what computes element by element (vector
    units), ``tensor_core`` what multiplies matrices (matrix units); after the dot the numbers.

    Attributes:
        name: for people, and for ``--profile``.
        bandwidth: bytes per second between the device and its memory.
        peaks: operations per second by key of the unit, without sparsity.
        source: who says so.
        device_names: what drivers call the device, after the maker's name, in lower case.
    """

    name: str
    bandwidth: float
    peaks: Mapping[str, float]
    source: str
    device_names: tuple[str, ...] = ()

    def peak(self, key: str) -> float | None:
        """Operations per second of a unit.

        One without tensor cores for some numbers computes them as it does float32's.
        """
        found = self.peaks.get(key)
        if found is None and key.startswith("tensor_core."):
            return self.peaks.get(f"cuda_core.{key.partition('.')[2]}")
        return found

    def roof(self, flops: int, moved: int, key: str = DEFAULT_KEY) -> Roof:
        """The least time of a call.

        Args:
            flops: its operations.
            moved: its bytes.
            key: the unit that computes.
        """
        peak = self.peak(key)
        return Roof(key, None if peak is None else flops / peak, moved / self.bandwidth)
