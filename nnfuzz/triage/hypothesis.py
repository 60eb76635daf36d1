"""Hypotheses on how a wrong result comes about.

Their texts decide which findings have one cause; finding folders keep them, and they appear in
titles and reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from nnfuzz.backend.deviation import SATURATES, TF32, Deviation


class Claim(Enum):
    """What a hypothesis claims. The value is its written form, which must never change."""

    ALL_CONSTANTS = "is right without constants"
    FOLLOWS = "follows from {detail}"
    SATURATES = "{subject} saturates where it should wrap around"
    TF32 = "{subject} is computed in tf32 (sums of products)"
    COMPUTED_IN = "{subject} is computed in {detail}"
    CANNOT_TAKE = "{subject} {detail} cannot take what is computed"
    WRONG_FOR_READERS = "{subject} {detail} is wrong for whatever reads it"
    NO_CONSTANT = "{subject} is right where no operand is constant"
    FEWER_OPERANDS = "{subject} is right with one operand less"
    WITHOUT = "{subject} is right without {detail}"
    MANY_OPERANDS = "{subject} of more than two operands"
    ZERO_INPUT = "{subject} takes input {detail} for 0"
    IGNORES = "{subject} ignores {detail}"
    ROUNDS = "{subject} rounds {detail}"
    RETURNS = "{subject} returns {detail}"
    OFF = "{subject} is {detail}"
    SIGN = "{subject} has the opposite sign"
    AXES = "{subject} {detail} axes of size 1"
    OTHER = "{detail}"


@dataclass(frozen=True)
class Hypothesis:
    """One way in which a result may come about.

    subject: the operator, class or dtype that the claim is about; "" where any has it. detail: what
    is ignored, returned, ... `str` gives the text, `parse` reads it.
    """

    claim: Claim
    subject: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return self.claim.value.format(subject=self.subject, detail=self.detail).strip()

    @property
    def unattributed(self) -> Hypothesis:
        """The same claim about any subject."""
        return replace(self, subject="")

    @classmethod
    def parse(cls, text: str) -> Hypothesis:
        """Reads a text. Texts of other versions become the claim OTHER."""
        for claim, pattern in _PATTERNS.items():
            if match := pattern.fullmatch(text):
                return cls(claim, **match.groupdict(default=""))
        return cls(Claim.OTHER, detail=text)

    @classmethod
    def of_habit(cls, habit: Deviation) -> Hypothesis:
        """That a compiler's habit explains the result."""
        if habit.to in (SATURATES, TF32):
            return cls(Claim.TF32 if habit.to == TF32 else Claim.SATURATES, habit.dtype)
        return cls(Claim.COMPUTED_IN, habit.dtype, habit.to)

    def said_of(self, names: frozenset[str], inputs: int) -> str:
        """The sentence for a title that names the operators already.

        names: of the only operator; none of several. inputs: how many that operator has.
        """
        if self.subject not in names:
            return str(self)
        if (self.claim, self.detail, inputs) == (Claim.RETURNS, "input 0", 1):
            return "returns its input"
        return str(self.unattributed)


def _pattern(form: str) -> re.Pattern[str]:
    text = re.escape(form).replace(r"\{detail\}", "(?P<detail>.+)")
    text = text.replace(r"\{subject\}\ \(", r"(?P<subject>\S+)\ \(")
    return re.compile(text.replace(r"\{subject\}\ ", r"(?:(?P<subject>a fusion|\S+) )?"))


_PATTERNS = {claim: _pattern(claim.value) for claim in Claim}
