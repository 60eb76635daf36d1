"""The order of findings at the end of a campaign, in its summary and in its report."""

from __future__ import annotations

from collections.abc import Iterable

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import FindingRow

_WORTH = (
    (OutcomeKind.MISMATCH,),
    (OutcomeKind.CRASH,),
    (OutcomeKind.TIMEOUT,),
    (OutcomeKind.EXCEPTION,),
    (OutcomeKind.ACCEPTED,),
)
_UNREDUCED = 1 << 30  # nodes of a model that is not reduced: more than any reduced one has


def by_value(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Sorts first the findings that an engineer can act on.

    Reduced findings come before the others. Their order is wrong results, crashes, timeouts,
    exceptions, accepted invalid models; the others have the same order, except
    that wrong results come last. Within one kind the most frequent come first, then the smallest
    models.
    """
    return sorted(findings, key=_value)


def _value(row: FindingRow) -> tuple[bool, int, int, int, int, str]:
    kinds = (i for i, kinds in enumerate(_WORTH) if row.kind in kinds)
    worth = next(kinds, len(_WORTH))
    if row.kind == OutcomeKind.MISMATCH and not row.nodes:
        worth = len(_WORTH)  # its reduction may show that it is the same as another one
    size = row.nodes[1] if row.nodes else _UNREDUCED
    return not row.nodes, worth, -row.occurrences, size, row.size, row.signature
