"""Clusters of findings that are not reduced yet: what is probably one cause is reduced once.

Two failures are taken to be alike if they are of one kind (compiler, kind, stage, levels), and if
both models contain the operator or edge that failing in this way is associated with
(nnfuzz.feedback.throttle), or if the compiler complains in the same way. One of a cluster is
reduced, the one with the smallest model; clusters take turns, the most frequent first. What the
reduced pattern occurs in becomes its suspect, and is asked: the pattern runs alone, and so does the
rest (nnfuzz.reduction.known). The rest of the cluster waits for its next turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.rows import AvoidedRow, FindingRow, ReductionRow, backends_of
from nnfuzz.triage.signature import Failure, digest_of


@dataclass(frozen=True)
class Clusters:
    """Findings by signature -> name of their cluster."""

    names: Mapping[str, str]

    @classmethod
    def of(
        cls,
        rows: Iterable[FindingRow],
        avoided: Iterable[AvoidedRow] = (),
        items: Mapping[str, Collection[str]] | None = None,
    ) -> Clusters:
        """avoided: what failures are associated with, by a signature of each. items: of the model
        of each signature, see nnfuzz.records.rows.Observed.
        """
        rows, items = list(rows), items or {}
        kinds = {row.signature: _kind(row) for row in rows}
        causes = [(row.item, kinds[row.signature]) for row in avoided if row.signature in kinds]
        names = {}
        for row in rows:
            mine, there = kinds[row.signature], items.get(row.signature, ())
            cause = next((item for item, kind in causes if kind == mine and item in there), None)
            # The dtypes of an operator are avoided one by one, and are one cause.
            told = str(SupportKey.parse(cause).any_dtypes) if cause else ""
            told = told or row.complaint or row.signature
            names[row.signature] = " ".join((*mine, told))
        return cls(names)

    def turns(self, waiting: Sequence[FindingRow], begun: Iterable[str]) -> list[FindingRow]:
        """What waits, in the order in which it is to be reduced. Hangs come after what is as new:
        each candidate that hangs takes a hundred times as long as others.

        begun: signatures whose reduction is over or under way.
        """
        had = Counter(self.names.get(signature, "") for signature in begun)
        weight = Counter[str]()
        for row in waiting:
            weight[self.names[row.signature]] += row.occurrences
        return sorted(
            waiting,
            key=lambda row: (
                had[self.names[row.signature]],
                row.kind is OutcomeKind.TIMEOUT,
                -weight[self.names[row.signature]],
                row.size,
                row.place,
            ),
        )

    def together(
        self, findings: Iterable[FindingRow], reductions: Mapping[str, ReductionRow]
    ) -> list[FindingRow]:
        """One row for all unreduced findings of a cluster: that of the smallest model, with the
        others as its `alike`. Reduced ones are told which of their duplicates were explained.
        """
        groups: dict[str, list[FindingRow]] = {}
        for row in findings:
            name = "" if row.refined else self.names.get(row.signature, "")
            told = (s for s in row.duplicates if s in reductions and reductions[s].explained)
            row = replace(row, explained=tuple(told))
            groups.setdefault(name or row.signature, []).append(row)
        return [_whole(group) for group in groups.values()]


def complaint_of(failure: Failure) -> str:
    """What failures of one kind may share: how and where an output is wrong, or the whole error."""
    parts = failure.signature.parts
    if failure.kind is not OutcomeKind.MISMATCH or not parts.get("operators"):
        return digest_of({**parts, "backend": failure.compiler})
    return f"wrong {parts.get('wrong', 'output')} at {parts['operators'][0]}"


def grouping(row: FindingRow) -> str:
    """How the signatures of a finding came together, the surest way first; "" if it has one."""
    reduced = len(row.duplicates) - len(row.explained)
    ways = (
        (reduced, "reduced to the same"),
        (len(row.explained), "explained by running its pattern"),
        (len(row.suspects), "suspected and not asked yet, since their models contain its pattern"),
        (len(row.alike), "suspected, since they fail alike"),
    )
    return "; ".join(f"{count} {how}" for count, how in ways if count)


def _kind(row: FindingRow) -> tuple[str, str, str, str]:
    return row.compiler, row.kind, row.stage, row.level


def _whole(group: list[FindingRow]) -> FindingRow:
    first, *others = sorted(group, key=lambda row: (row.size, row.place, row.signature))
    levels = Counter[str]()
    for row in group:
        levels.update(row.by_levels)
    return replace(
        first,
        occurrences=sum(row.occurrences for row in group),
        found_at=min(row.found_at for row in group),
        by_levels=dict(levels.most_common()),
        backends=backends_of(group),
        alike=tuple(row.signature for row in others),
    )
