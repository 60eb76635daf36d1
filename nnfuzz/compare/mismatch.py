"""Mismatches and verdicts as plain data that can be written as JSON. No torch, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nnfuzz.backend.numeric import Deviation
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_list

Number = float | int | bool | str
"""A value in a report; floats that are not finite are the strings "nan", "inf" and "-inf"."""


class MismatchKind(StrEnum):
    """What differs between an output and the reference."""

    VALUE = "value"
    SHAPE = "shape"
    DTYPE = "dtype"
    NONFINITE = "nonfinite"
    MISSING = "missing"


@dataclass(frozen=True)
class Element:
    """One element outside of the envelope `[lo, hi]`.

    excess: distance from the envelope in units in the last place of the dtype at `expected`.
    """

    index: tuple[int, ...]
    expected: Number = "nan"
    actual: Number = "nan"
    lo: Number = "nan"
    hi: Number = "nan"
    excess: Number = "nan"


@dataclass(frozen=True)
class Mismatch:
    """How one output of one target differs from the reference.

    expected, actual: dtypes or shapes, for mismatches of that kind. wrong: number of wrong
    elements. share: wrong per comparable element. worst: furthest outside. first: first in C order.
    """

    output: str
    kind: MismatchKind
    expected: str = ""
    actual: str = ""
    wrong: int = 0
    share: float = 0.0
    worst: Element | None = None
    first: Element | None = None

    def __str__(self) -> str:
        if self.kind is MismatchKind.MISSING:
            return f"output {self.output!r} is missing"
        if self.worst is None:
            return f"{self.output}: {self.kind} {self.actual or 'none'}, expected {self.expected}"
        w = self.worst
        return (
            f"{self.output}{list(w.index)} is {w.actual}, expected {w.expected} in "
            f"[{w.lo}, {w.hi}]; {self.wrong} elements ({self.share:.0%} of the comparable) are off"
        )


@dataclass(frozen=True)
class Loss:
    """A node whose results are not comparable although its inputs are.

    operator: the spec's name, or ONNX's if there is no spec. value: name of the incomparable
    result. why: a sentence without its full stop.
    """

    operator: str
    value: str
    why: str


ENOUGH = 0.9
"""Share of an output's elements above which a verdict says "agrees" without a note on coverage."""


@as_list
@dataclass(frozen=True)
class Distance:
    """The distance |value - reference|, and the same in units in the last place of the output's
    dtype at the reference (`ulp`, None for integers)."""

    value: Number
    distance: Number
    ulp: Number | None


@dataclass(frozen=True)
class Accuracy:
    """All targets' distances at one element. reference: its value in float64, or exact for
    integers."""

    reference: Number
    rows: dict[Target, Distance]


@dataclass(frozen=True)
class Contradiction:
    """An output on which nnfuzz's reference and onnx.reference differ, and a target agrees with the
    latter: a fault of nnfuzz until shown otherwise.

    ours, theirs: the two values at `index`, the first of `count` differing elements; or the two
    types if dtype or shape differ (count 0).
    """

    output: str
    ours: str
    theirs: str
    index: tuple[int, ...] = ()
    count: int = 0

    def __str__(self) -> str:
        at, count = (list(self.index), f" ({self.count} elements)") if self.count else ("", "")
        values = f"{self.ours} by nnfuzz, and {self.theirs} by onnx.reference"
        return f"nnfuzz and onnx.reference differ: {self.output}{at} is {values}{count}"


@dataclass(frozen=True)
class Verdict:
    """The judgement of every target by the envelope.

    mismatches: by target; empty for a target that agrees.
    comparable: by output, the share of its elements that can be compared.
    suspect_reference: whether all targets of several independent groups mismatch (see `judge`).
    accuracy: by target and wrong output, the distances at the target's worst element.
    explained: by target, the known deviations that explain all of its wrong outputs.
    habitual: by target, the wrong outputs that deviations explain if they do not explain all.
    defined: False if a correct compiler may raise an error (nnfuzz.compare.envelope.defined).
    losses: by partly incomparable output, the nodes at which comparability is lost.
    contradictions: by target, outputs that agree with onnx.reference and not with our reference.
    waived: by output for which onnx.reference is known to be wrong, a text that says how, with the
    words of the standard.
    calls: by target whose wrong outputs are right if the program is called once, the number of the
    first wrong call, from 0.
    """

    mismatches: dict[Target, tuple[Mismatch, ...]]
    comparable: dict[str, float] = field(default_factory=dict)
    suspect_reference: bool = False
    accuracy: dict[Target, dict[str, Accuracy]] = field(default_factory=dict)
    explained: dict[Target, tuple[Deviation, ...]] = field(default_factory=dict)
    defined: bool = True
    habitual: dict[Target, tuple[str, ...]] = field(default_factory=dict)
    losses: dict[str, tuple[Loss, ...]] = field(default_factory=dict)
    contradictions: dict[Target, tuple[Contradiction, ...]] = field(default_factory=dict)
    waived: dict[str, str] = field(default_factory=dict)
    calls: dict[Target, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether something was compared, and there are neither mismatches nor contradictions.

        It may be True although only a part was compared: see `partial` and `coverage`.
        """
        return self.compared and not (any(self.mismatches.values()) or self.contradictions)

    @property
    def differences(self) -> list[str]:
        """The contradictions of all targets as text, each once."""
        return list(dict.fromkeys(str(c) for own in self.contradictions.values() for c in own))

    @property
    def compared(self) -> bool:
        """Whether any element of any output was compared."""
        return not self.comparable or any(self.comparable.values())

    @property
    def partial(self) -> list[str]:
        """Names of the outputs with incomparable elements."""
        return [name for name, share in self.comparable.items() if share < 1]

    @property
    def coverage(self) -> str:
        """The compared shares of outputs and the reason, if less than 90 % of an output is
        compared; else ""."""
        few = {n: share for n, share in self.comparable.items() if share < ENOUGH}
        if not few:
            return ""
        why = f": {self.reason}" if self.reason else ""
        if not self.compared:
            return f"not compared{why}"
        shares = ", ".join(f"{_percent(share)} of {name}" for name, share in few.items())
        return f"{shares}; the rest is not compared{why}"

    @property
    def reason(self) -> str:
        """The reasons why less than 90 % of an output is compared, each once."""
        few = [losses for name, losses in self.losses.items() if self.comparable[name] < ENOUGH]
        return "; ".join(dict.fromkeys(loss.why for losses in few for loss in losses))

    @property
    def agreement(self) -> str:
        """The text of the verdict for a target without a mismatch."""
        if not self.compared:
            return self.coverage
        return f"agrees on {self.coverage}" if self.coverage else "agrees"

    def __str__(self) -> str:
        """One line per target that agrees, and one per mismatch."""
        return "\n".join(f"{target}: {mismatch}" for target, mismatch in self._accused())

    __repr__ = __str__  # a REPL shows the compared share too, since `ok` holds for that part alone

    def _accused(self) -> list[tuple[Target, str]]:
        rows = self.mismatches.items()
        return [(t, str(m)) for t, mismatches in rows for m in mismatches or (self.agreement,)]


def _percent(share: float) -> str:
    """A share in whole per cent, rounded down, or "less than 1 %"."""
    return "less than 1 %" if 0 < share < 0.01 else f"{int(100 * share)} %"
