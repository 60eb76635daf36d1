"""A test case as a corpus has it: with further inputs, and tolerances for runners of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nnfuzz.corpus.tolerance import Tolerance
from nnfuzz.testcase.case import TestCase

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Entry:
    """further: inputs and expected outputs of the data sets after the first, which is the case's.

    tolerances: by output; whole: one that suits all outputs, for runners that take a single one.
    """

    case: TestCase
    further: tuple[tuple[Arrays, Arrays], ...] = ()
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    whole: Tolerance | None = None

    def nbytes(self) -> int:
        """The size of the model with all data."""
        groups: list[Arrays] = [self.case.inputs, self.case.weights, self.case.expected]
        groups += [part for arrays in self.further for part in arrays]
        return len(self.case.model) + sum(a.nbytes for group in groups for a in group.values())
