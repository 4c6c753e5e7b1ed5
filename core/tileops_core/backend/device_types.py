"""Device types that torch does not know: a vendor's own, or a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterable

from tileops_core.suggest import did_you_mean

USUAL = ("cpu", "cuda", "hpu", "meta", "mps", "mtia", "xla", "xpu")
"""Types that tensors have in many places; torch has names for more."""

_MEANT = {"gpu": "cuda", "nvidia": "cuda", "amd": "cuda", "rocm": "cuda", "apple": "mps"}
"""What devices are called, and their type in torch: AMD's are ``"cuda"`` there too."""


def unknown_to_torch(names: Iterable[str]) -> str:
    """A hint about device types that torch does not know, as the end of a sentence, or ``""``.

    A vendor's type is known once its extension of torch is imported, so an unknown one is no error.

    Args:
        names: device types that somebody has declared.
    """
    unknown = [name for name in sorted(names) if not _is_known(name)]
    if not unknown:
        return ""
    told = [f"{name!r}{_guess(name)}" for name in unknown]
    return f"; torch knows no device type {' or '.join(told)} here, others are {', '.join(USUAL)}"


def _guess(name: str) -> str:
    meant = _MEANT.get(name.casefold())
    return f" (did you mean {meant!r}?)" if meant else did_you_mean(name, USUAL)


def _is_known(name: str) -> bool:
    import torch  # whoever reads registrations only needs none

    try:
        return torch.device(name).type == name
    except RuntimeError:
        return False
