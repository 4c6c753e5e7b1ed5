"""What every op has under names of its own, so that no parameter and no input takes them."""

from __future__ import annotations

OP_MEMBERS = frozenset(
    {
        "call_spec", "derived", "eval_roofline", "forward", "injected_parameters", "interfaces",
        "kernel_for", "kernel_types", "key_for", "last_call", "serving_target", "spec", "target",
    }
)  # fmt: skip
"""The public members of ``Op``, but for ``dtype``, which is there to be replaced.

They stand here as data because entries are checked without the class, which needs torch.
"""
