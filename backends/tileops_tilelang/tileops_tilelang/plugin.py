"""What this distribution registers: nothing yet.

TileLang kernels are not in this release. The distribution installs, the core finds it under the
name ``tilelang``, and ``tileops doctor`` lists it with no kernels; ``target="tilelang"`` is refused
for every op, by name, because nothing here serves one. It brings ``tileops-reference`` along, which
serves every op in plain PyTorch.

Importing this module imports no TileLang: a backend's module is imported to load the registry, and
a compiler belongs into the function that compiles.
"""

from __future__ import annotations
