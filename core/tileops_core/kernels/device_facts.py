"""What a kernel may want to know of the device it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch

from tileops_core.backend.blame import add_note
from tileops_core.by_fields import EqualByFields
from tileops_core.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.frozen(slots=True, eq=False, repr=False)
class DeviceFacts(EqualByFields):
    """Facts of one device; None where the device type has no such thing.

    ``arch`` is a number that grows with the generation (CUDA: 80 for sm_80), ``sm_count`` the
    number of multiprocessors, ``smem_budget`` the bytes of on-chip memory one block may use.
    """

    arch: int | None = None
    sm_count: int | None = None
    smem_budget: int | None = None


UNKNOWN = DeviceFacts()

_read_facts: dict[tuple[torch.device, int | None], DeviceFacts] = {}


def facts_of(device: torch.device) -> DeviceFacts:
    """The facts of a device, read at the first question and kept.

    CUDA devices are asked through torch. Other types are asked through the reader that a backend
    registered; without one (the CPU, say) nothing is known.

    Args:
        device: A device with its index.

    Returns:
        Its facts, ``DeviceFacts()`` where nobody can read any.

    Raises:
        BackendError: The device cannot be asked here, or a reader returned something else.
    """
    if device.type == "cuda":
        known = _read_facts.get((device, None))
        if known is None:
            known = _read_facts[device, None] = _cuda_facts(device)
        return known
    # Imported here: the registry is only wanted on a miss, and importing kernels stays cheap.
    from tileops_core.backend.registry import REGISTRY

    generation = REGISTRY.generation
    known = _read_facts.get((device, generation))
    if known is None:
        read = REGISTRY.device_facts(device.type)
        known = UNKNOWN if read is None else _checked(read, device)
        _read_facts[device, generation] = known
    return known


def _checked(read: Callable[[torch.device], object], device: torch.device) -> DeviceFacts:
    try:
        facts = read(device)
    except Exception as error:
        add_note(error, f"raised by the reader of device facts for {device.type!r}")
        raise
    if not isinstance(facts, DeviceFacts):
        raise BackendError(
            f"the reader of device facts for {device.type!r} returned {facts!r} for {device}; "
            "it must return a tileops_core.kernels.DeviceFacts"
        )
    return facts


def _cuda_facts(device: torch.device) -> DeviceFacts:
    if not torch.cuda.is_available():
        raise BackendError(
            f"the facts of {device} cannot be read: torch sees no CUDA device here; "
            "state them to ask anyway, as in call.stating(arch=90)"
        )
    properties = torch.cuda.get_device_properties(device)
    # ROCm numbers its devices too, and gfx90a would pass for sm_90.
    arch = None if torch.version.hip else properties.major * 10 + properties.minor
    budget = getattr(
        properties, "shared_memory_per_block_optin", properties.shared_memory_per_block
    )
    return DeviceFacts(arch, properties.multi_processor_count, budget)
