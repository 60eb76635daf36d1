"""The answers of backends to models that they must refuse, per kind of fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nnfuzz.backend.outcome import Brief, OutcomeKind, Stage
from nnfuzz.experiment.judge import BLIND
from nnfuzz.records.rows import TestRow
from nnfuzz.vary.faults.fault import INTERNAL, LATE, NOTHING, PLANTED, WORST_FIRST


def refusals(tests: Iterable[TestRow]) -> dict[str, dict[str, dict[str, int]]]:
    """Kind of fault -> backend -> answer -> tests; the worst answer of a test's levels counts."""
    by_kind: dict[str, dict[str, Counter[str]]] = {}
    for row in tests:
        kinds = [name.removeprefix(PLANTED) for name in row.variations if name.startswith(PLANTED)]
        for backend, levels in row.outcomes.items() if kinds else ():
            answers = {_answer(level) for level in levels.values()}
            counts = by_kind.setdefault(kinds[0], {}).setdefault(backend, Counter())
            counts.update(answer for answer in [_worst(answers)] if answer)
    return {
        kind: {backend: dict(counts) for backend, counts in sorted(backends.items())}
        for kind, backends in sorted(by_kind.items())
    }


def _answer(brief: Brief) -> str:
    if brief.kind == OutcomeKind.REFUSED and brief.stage == Stage.EXECUTE:
        return LATE
    if brief.kind == OutcomeKind.UNSUPPORTED and brief.message == BLIND:
        return NOTHING
    return INTERNAL if brief.kind == OutcomeKind.EXCEPTION else brief.kind


def _worst(answers: Iterable[str]) -> str:
    return next((answer for answer in WORST_FIRST if answer in answers), "")
