"""TileLang programs: what is computed, written once for every target.

The modules below import TileLang, so only a build imports them.
"""

from __future__ import annotations
