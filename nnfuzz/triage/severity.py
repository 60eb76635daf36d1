"""How grave a failure is for the people who use the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line reads the names alone
    import numpy as np

    from nnfuzz.compare.mismatch import Verdict
    from nnfuzz.ir.view import GraphView
    from nnfuzz.triage.signature import Failure


class Severity(StrEnum):
    """What a failure does to a user, the gravest first."""

    MEMORY = "memory"  # memory is corrupted or the process dies
    OPTIMISER = "optimiser"  # ordinary inputs are computed wrongly at an optimised level only
    WRONG = "wrong"  # they are at every level
    FAILS = "fails"  # a valid model is refused, fails or hangs; an invalid one is accepted
    PRECISION = "precision"  # digits are lost
    NONFINITE = "nonfinite"  # infinities and NaN are computed wrongly
    ZEROS = "zeros"  # a zero has another sign

    @property
    def rank(self) -> int:
        return [*Severity].index(self)

    def admits(self, found: str) -> bool:
        """Whether a finding is as grave as this; "", which is not known yet, is."""
        return not found or Severity(found).rank <= self.rank

    @classmethod
    def of(
        cls,
        failure: Failure,
        verdict: Verdict | None,
        graph: GraphView,
        inputs: Mapping[str, np.ndarray],
    ) -> Severity:
        """verdict: on the case with this graph and these inputs, if it is a mismatch."""
        from nnfuzz.backend.numeric import strange
        from nnfuzz.backend.outcome import OutcomeKind
        from nnfuzz.triage.mismatch import few_digits, first_wrong
        from nnfuzz.triage.signature import OPTIMISED, HabitDetails

        if failure.kind is OutcomeKind.CRASH:
            return cls.MEMORY
        if failure.kind is not OutcomeKind.MISMATCH:
            return cls.FAILS
        parts, order = failure.signature.parts, [n for node in graph.nodes for n in node.outputs]
        habitual = isinstance(failure.signature.details, HabitDetails)
        wrong = None if habitual else first_wrong(verdict, failure.targets, order)
        worst = wrong.worst if wrong else None
        if worst and worst.expected == worst.actual == 0:
            return cls.ZEROS
        if strange(inputs) or (worst and not _finite(worst.expected)):
            return cls.NONFINITE
        if habitual or (wrong and few_digits(wrong, graph.dtypes.get(wrong.output, ""))):
            return cls.PRECISION
        return cls.OPTIMISER if parts.get("levels") == OPTIMISED else cls.WRONG


def _finite(number: object) -> bool:
    try:
        return isfinite(float(str(number)))
    except ValueError:
        return True
