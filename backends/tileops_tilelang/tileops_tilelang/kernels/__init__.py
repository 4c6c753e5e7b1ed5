"""Kernel types over TileLang programs, by family."""

from __future__ import annotations
