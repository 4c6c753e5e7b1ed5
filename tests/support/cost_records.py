"""Records for cost functions, made without a call."""

from __future__ import annotations

from itertools import accumulate
from math import prod


class Record:
    """As much of a call's record as a cost function reads.

    ``tensors`` has shape and dtype of each; what ``metadata`` holds has the shape of its values.
    """

    def __init__(self, indices, parameters, tensors, metadata):
        self.indices, self.parameters = indices, parameters
        self.tensors, self._metadata = tensors, metadata

    def present(self, name):
        return name in self.tensors

    def bytes(self, name):
        shape, dtype = self.tensors[name]
        return prod(shape) * dtype.itemsize

    def metadata_values(self, name):
        return self._metadata[name]


def offsets(sizes):
    """Prefix offsets of packed sequences."""
    return [0, *accumulate(sizes)]
