"""What surrounds a call of a library: memory for results, threads, and what must agree before."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import torch
from torch import Tensor

_WORTH_THREADS = 1 << 16
"""Elements below which waking a second thread costs more than it saves."""

LARGE = 1 << 25
"""Bytes from which on the C library asks the system for fresh pages at every allocation."""

_PAGE = 4096
_MADV_HUGEPAGE = 14

_forked = False


def _after_fork() -> None:
    # The runtime's threads stayed in the parent; asking it for some would wait for ever.
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads_for(elements: int) -> int:
    """Over how many threads to split so much work: torch's number, one where it does not pay."""
    return 1 if elements < _WORTH_THREADS or _forked else torch.get_num_threads()


def agree(tensor: Tensor, dtype: torch.dtype, count: int) -> bool:
    """Whether a function may read or write so many elements of a dtype at a tensor's address.

    A library checks nothing, so a kernel asks this of every tensor at every call.
    """
    return (
        tensor.dtype is dtype
        and tensor.numel() == count
        and tensor.is_cpu
        and tensor.is_contiguous()
        and not tensor.is_neg()
    )


def disagreement(who: str, **tensors: Tensor | None) -> ValueError:
    """What to raise when tensors do not agree: a caller has gone around the op's checks."""
    seen = ", ".join(
        f"{name} {None if t is None else (str(t.dtype), tuple(t.shape), str(t.device))}"
        for name, t in tensors.items()
    )
    return ValueError(
        f"{who}: {seen} do not fit what this kernel was built for, or are not contiguous; "
        "call the op, which checks and arranges its inputs"
    )


def in_large_pages(tensor: Tensor) -> None:
    """Ask for pages of 2 MiB before a large result is first touched.

    Only a wish: systems may have it switched off, and then nothing changes. Where they have not,
    writing to fresh memory takes a third of the time.
    """
    begin = -(-tensor.data_ptr() // _PAGE) * _PAGE
    size = tensor.data_ptr() + tensor.nbytes - begin
    _madvise(begin, size // _PAGE * _PAGE, _MADV_HUGEPAGE)


def _find_madvise() -> Any:
    if not sys.platform.startswith("linux"):
        return lambda *_: 0
    found = ctypes.CDLL(None).madvise
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


_madvise = _find_madvise()
