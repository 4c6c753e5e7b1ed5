"""Costs that values decide: what entries name in ``roofline: {func: ...}``, a module per family.

Each function takes the record of a call and gives ``(flops, bytes)``.
"""
