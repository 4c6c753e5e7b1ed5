"""Write the pages into the docs of the repository that this module lies in."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from tileops_core.pages.manifest import read_manifest
from tileops_core.pages.pages import pages

FOLDER = Path(__file__).parents[3] / "docs" / "contract"


def main() -> None:
    """Write every page; one that is no page any more is removed."""
    made = pages(read_manifest(Path(str(files("tileops_manifest"))) / "spec"))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{FOLDER}\n")


if __name__ == "__main__":
    main()
