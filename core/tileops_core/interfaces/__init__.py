"""Where ops call kernels: per family, the call specs and the kernel interfaces.

A call spec holds the facts that choose and build a kernel. An interface's ``forward`` is the
contract between an op and whoever implements it: unless it says otherwise, tensors are contiguous
(row-major) and on ``call.device``, an input is never written, and what is returned is new and
contiguous.
"""

from __future__ import annotations
