"""``TILEOPS_LOG``: the log of the library on stderr, without code."""

from __future__ import annotations

import logging
import os

from tileops_core.suggest import did_you_mean

VARIABLE = "TILEOPS_LOG"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO}


def follow_environment() -> None:
    """Print what ``TILEOPS_LOG`` asks for: ``info`` tells builds, ``debug`` selections too.

    The handlers that an application has set up get the same lines as ever.
    """
    asked = os.environ.get(VARIABLE, "").strip().lower()
    if not asked:
        return
    logger = logging.getLogger("tileops")
    if asked not in LEVELS:
        logger.warning(
            "%s=%r is no level%s; it takes %s",
            VARIABLE,
            asked,
            did_you_mean(asked, LEVELS),
            " or ".join(LEVELS),
        )
        return
    logger.setLevel(LEVELS[asked])
    if all(handler.get_name() != VARIABLE for handler in logger.handlers):  # not a reload
        handler = logging.StreamHandler()
        handler.set_name(VARIABLE)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
