"""TileLang on the CPU: from a program to a function in this process."""

from __future__ import annotations
