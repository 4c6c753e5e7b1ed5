"""An op as another distribution has it: a class with an entry of its own."""

from __future__ import annotations

import faulty

from tileops_core import Op


class StrangerFwdOp(Op):
    """Twice a matrix."""

    spec = faulty.SPECS["ProbeFwdOp"]
