"""Kernel types over :mod:`tileops_reference.functions`: one per interface, for any device.

Each is as thin as it can be, because a call costs a microsecond: what a call spec settles is
settled when the entry is built, and ``forward`` is torch's own function wherever that says it all.
"""

from __future__ import annotations
