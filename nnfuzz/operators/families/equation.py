"""Equations of Einsum: drawn at random, and parsed into one label per axis."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnfuzz.operators.draw import Draw

DOTS = "..."
MOST = 5
"""Most axes of an operand or of the result."""


@dataclass(frozen=True)
class Labels:
    """One label per axis of each operand and of the result; axes of an ellipsis are "0", "1" ..."""

    terms: tuple[str, ...]
    out: str

    @property
    def summed(self) -> str:
        """The labels that are summed over, each once."""
        return "".join(dict.fromkeys(a for term in self.terms for a in term if a not in self.out))


def labels_of(equation: str, ranks: Sequence[int]) -> Labels | None:
    """The labels for operands of the given ranks; None if the ranks do not fit the equation.

    All ellipses stand for the same number of axes. Source: ONNX Einsum-12.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        return None
    spans = {r - len(p.replace(DOTS, "")) for p, r in zip(parts, ranks) if DOTS in p} or {0}
    dots = string.digits[: max(0, *spans)]
    terms = tuple(part.replace(DOTS, dots) for part in parts)
    if len(spans) > 1 or any(len(term) != rank for term, rank in zip(terms, ranks)):
        return None
    if not arrow:
        letters = left.replace(DOTS, "").replace(",", "")
        return Labels(terms, dots + "".join(a for a in sorted(letters) if letters.count(a) == 1))
    return Labels(terms, right.replace(DOTS, dots))


def ranks(equation: str, first: int) -> list[int]:
    """The rank of each operand, given that of the first (with an ellipsis if any has one)."""
    parts = equation.replace(" ", "").partition("->")[0].split(",")
    letters = [len(part.replace(DOTS, "")) for part in parts]
    dots = max(0, first - letters[0])
    return [n + (dots if DOTS in part else 0) for part, n in zip(parts, letters)]


def random_equation(draw: Draw, first: int, result: int | None = None) -> str:
    """A random equation of one to three operands. first, result: ranks of the first operand and, if
    given, of the result.

    A label is shared between operands (contraction, batch), occurs once (outer product, sum), or
    occurs twice in one operand (diagonal).
    """
    letters = iter(draw.shuffled(string.ascii_lowercase))
    dots = draw.integer(0, min(2, first)) if draw.chance(0.2) else 0
    terms = [_term(draw, letters, "", first - dots)]
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        known = "".join(dict.fromkeys("".join(terms)))
        shared = draw.subset(known, 0, 3)
        rank = min(MOST - dots, len(shared) + draw.integer(0 if shared else 1, 2))
        terms.append(_term(draw, letters, "".join(shared), rank))
    marks = [DOTS if dots and (i == 0 or draw.chance(0.5)) else "" for i in range(len(terms))]
    left = ",".join(mark + term for mark, term in zip(marks, terms))
    once = [a for a in "".join(terms) if "".join(terms).count(a) == 1]
    if result is None and dots + len(once) <= MOST and draw.chance(0.1):
        return left
    out = (DOTS if dots else "") + _kept(draw, terms, dots, result)
    return f"{left}->{out}" if draw.chance(0.9) else f"{left} -> {out}".replace(",", ", ")


def _term(draw: Draw, letters: Iterator[str], shared: str, rank: int) -> str:
    """`rank` labels: shared ones, new ones, and sometimes a repeated one."""
    term = list(shared[:rank])
    while len(term) < rank:
        term.append(draw.choice(term) if term and draw.chance(0.08) else next(letters))
    return "".join(draw.shuffled(term))


def _kept(draw: Draw, terms: Sequence[str], dots: int, result: int | None) -> str:
    """The labels of the result; labels of one operand are preferred to shared ones."""
    labels = list(dict.fromkeys("".join(terms)))
    if result is not None:
        count = min(len(labels), max(0, result - dots))
        return "".join(draw.shuffled(labels)[:count])
    kept = [a for a in labels if draw.chance(0.8 if sum(a in t for t in terms) == 1 else 0.4)]
    kept = draw.shuffled(kept) if draw.chance(0.5) else kept
    return "".join(kept[: MOST - dots])
