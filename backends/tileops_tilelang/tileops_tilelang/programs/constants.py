"""Numbers inside a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilelang.language as T


def constant(value: float) -> Any:
    """A float32 constant.

    TileLang prints constants into C with seven digits, which do not tell every float32 apart.

    Raises:
        ValueError: When the printed digits would be read as another float32; pass such a number
            as a parameter of the function.
    """
    exact = np.float32(value)
    if np.float32(f"{exact:.6e}") != exact:
        raise ValueError(f"{value!r} does not survive being printed with seven digits")
    return T.float32(float(exact))
