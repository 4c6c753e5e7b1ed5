"""Loads ``support.py`` of the tests of calls for the tests here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NAME = "call_support"

_where = Path(__file__).parents[1] / "call" / "support.py"

if NAME not in sys.modules:
    _spec = importlib.util.spec_from_file_location(NAME, _where)
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[NAME] = _module
    _spec.loader.exec_module(_module)
