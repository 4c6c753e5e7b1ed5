"""Loads ``support.py`` for the tests here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NAME = "plan_support"

if NAME not in sys.modules:
    _spec = importlib.util.spec_from_file_location(NAME, Path(__file__).with_name("support.py"))
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[NAME] = _module
    _spec.loader.exec_module(_module)
