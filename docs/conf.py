"""How Sphinx builds the site: `nox -s docs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extension"))

project = "TileOPs"
copyright = "The TileOPs authors"
version = release = (HERE.parent / "VERSION").read_text(encoding="utf-8").strip()
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "op_pages",  # ops/, one page per op of the manifest
    "listed_pages",  # which pages are in no table of contents
]
exclude_patterns = ["_build", "extension"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
toc_object_entries = False  # each page copies the contents of all that the side bar lists
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_google_docstring = True

html_theme = "furo"
html_title = f"TileOPs {version}"
html_static_path = ["extension/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def keep_first_line(app: Any, what: str, *more: Any) -> None:
    """Keep napoleon from reading the first words of an attribute's docstring as its type.

    It looks at the first line, which is an empty comment now.
    """
    if what in ("attribute", "data", "property"):
        more[-1][:0] = ["..", ""]


def setup(app: Any) -> None:
    """Register with Sphinx, before napoleon does."""
    app.connect("autodoc-process-docstring", keep_first_line, priority=100)
