"""A test case as a corpus has it: with further inputs, and tolerances for runners of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nnfuzz.base.reading import read
from nnfuzz.corpus.tolerance import Tolerance
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.service import read_case

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
        """Of the model with all data."""
        groups: list[Arrays] = [self.case.inputs, self.case.weights, self.case.expected]
        groups += [part for arrays in self.further for part in arrays]
        return len(self.case.model) + sum(a.nbytes for group in groups for a in group.values())

    def to_frame(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and blobs for nnfuzz.sandbox.wire."""
        header, blobs = self.case.to_frame()
        for number, arrays in enumerate(self.further):
            for group, part in zip(("inputs", "expected"), arrays):
                blobs.update({f"set{number}.{group}/{k}": v for k, v in part.items()})
        told = {
            "sets": len(self.further),
            "tolerances": {name: asdict(t) for name, t in self.tolerances.items()},
            "whole": asdict(self.whole) if self.whole else None,
        }
        return {"case": header, **told}, blobs

    @classmethod
    def from_frame(cls, header: Mapping[str, Any], blobs: Mapping[str, Any]) -> Entry:
        """Raises: ValueError, TypeError or KeyError for what is none."""
        further = []
        for number in range(read(int, header["sets"])):
            inputs, expected = (
                {k.removeprefix(mark): v for k, v in blobs.items() if k.startswith(mark)}
                for mark in (f"set{number}.inputs/", f"set{number}.expected/")
            )
            further.append((inputs, expected))
        return cls(
            read_case(header, blobs),
            tuple(further),
            read(dict[str, Tolerance], header["tolerances"]),
            read(Tolerance, header["whole"]) if header["whole"] else None,
        )
