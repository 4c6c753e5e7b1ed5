"""What every op has under names of its own, so that no parameter and no input takes them."""

from __future__ import annotations

OP_MEMBERS = frozenset(
    {
        "built_entries", "call_spec", "compile_op_names", "delegate_for", "delegate_types",
        "derived", "eval_roofline", "eval_roofline_read_bytes", "forward", "held_delegates",
        "injected_parameters", "interfaces", "iter_kernels", "kernel_config", "kernel_for",
        "kernel_types", "key_for", "last_call", "prepare", "request_tune", "roof_key",
        "roofline_data_terms", "serving_target", "spec", "target",
    }
)  # fmt: skip
"""The public members of ``Op``, but for ``dtype``, which is there to be replaced.

They stand here as data because entries are checked without the class, which needs torch.
"""
