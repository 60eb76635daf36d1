"""The one order in which findings are listed: at the end of a campaign, in summary and report."""

from __future__ import annotations

from collections.abc import Iterable

from nnfuzz.campaign.rows import FindingRow
from nnfuzz.execute.outcome import OutcomeKind

_WORTH = (
    (OutcomeKind.CRASH, OutcomeKind.MISMATCH),
    (OutcomeKind.TIMEOUT,),
    (OutcomeKind.EXCEPTION,),
    (OutcomeKind.ACCEPTED,),
)
_UNREDUCED = 1 << 30  # nodes: behind all that were reduced


def by_value(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Crashes and wrong results first, then timeouts, then exceptions, then invalid models that are
    accepted; of one kind the most frequent first, then the one with the smallest model.
    """
    return sorted(findings, key=_value)


def _value(row: FindingRow) -> tuple[int, int, int, int, str]:
    kinds = (i for i, kinds in enumerate(_WORTH) if row.kind in kinds)
    size = row.nodes[1] if row.nodes else _UNREDUCED
    return next(kinds, len(_WORTH)), -row.occurrences, size, row.size, row.signature
