"""Mixtures of experts: the parameters that say how rows are grouped and summed.

The layouts are the Python side of ``MGroupedLayout`` in the manifest's ``types.yaml``; an op takes
one of them and checks it against its declaration there.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import attrs


@attrs.frozen
class ContiguousLayout:
    """Groups of rows one after the other in one matrix.

    Args:
        packing: ``"tight"``: no row between groups. ``"aligned"``: each group begins at a multiple
            of ``alignment``; rows between groups hold nothing.
        metadata_kind: What the metadata tensor has: ``"physical_psum"``: the row behind the end of
            each group. ``"per_row"``: the group of each row.
        alignment: 1 exactly where the packing is tight.
    """

    kind: ClassVar[str] = "contiguous"
    packing: Literal["tight", "aligned"] = "tight"
    metadata_kind: Literal["physical_psum", "per_row"] = "physical_psum"
    alignment: int = 1


@attrs.frozen
class MaskedLayout:
    """A matrix of ``max_m`` rows for each group, which fills the first of them.

    The metadata tensor has the number of rows of each group.
    """

    kind: ClassVar[str] = "masked"
    max_m: int


MGroupedLayout: TypeAlias = ContiguousLayout | MaskedLayout
"""How the rows of several groups lie in memory."""


@attrs.frozen
class RoutingEpilogueSpec:
    """What happens to the sum over a token's experts.

    Args:
        routed_scaling_factor: A factor of the sum.
    """

    routed_scaling_factor: float = 1.0
