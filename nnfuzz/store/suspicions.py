"""Which signatures of a campaign have one cause, and which may have one.

Two findings that are not reduced are suspected of one cause if they are of one kind (compiler,
kind, stage, levels), and if both models contain the operator or edge that failing in this way is
associated with (nnfuzz.feedback.throttle), or if the compiler complains in the same way. One of
them is reduced, that with the smallest model; the most frequent suspicion comes first. A finding
whose model contains the reduced pattern is tested next: the pattern runs alone, and so does the
rest of the model (nnfuzz.reduction.known). The others wait for their turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.rows import AvoidedRow, FindingRow, ReductionRow
from nnfuzz.triage.keys import KeyKind, grouped
from nnfuzz.triage.severity import Severity
from nnfuzz.triage.signature import Failure, digest_of, operators_of, wrong_of


@dataclass(frozen=True)
class Suspicions:
    """Findings by signature -> text that is equal for those which may have one cause."""

    names: Mapping[str, str]

    @classmethod
    def of(
        cls,
        rows: Iterable[FindingRow],
        avoided: Iterable[AvoidedRow] = (),
        items: Mapping[str, Collection[str]] | None = None,
    ) -> Suspicions:
        """avoided: items that failures are associated with, by a signature of each. items: of the
        model of each signature, see nnfuzz.records.rows.TestRow.
        """
        rows, items = list(rows), items or {}
        kinds = {row.signature: _kind(row) for row in rows}
        causes = [(row.item, kinds[row.signature]) for row in avoided if row.signature in kinds]
        names = {}
        for row in rows:
            mine, there = kinds[row.signature], items.get(row.signature, ())
            cause = next((item for item, kind in causes if kind == mine and item in there), None)
            # The dtypes of an operator are avoided one by one, and are one cause.
            shared = str(SupportKey.parse(cause).any_dtypes) if cause else ""
            shared = shared or row.suspicion or row.signature
            names[row.signature] = " ".join((*mine, shared))
        return cls(names)

    def turns(self, waiting: Sequence[FindingRow], begun: Iterable[str]) -> list[FindingRow]:
        """The findings to be reduced, in order. Hangs come after findings that are as new:
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
                row.index,
            ),
        )

    def merged(self, findings: Iterable[FindingRow]) -> list[FindingRow]:
        """The findings with one row for all unreduced ones of a suspicion: that of the smallest
        model, with the others as suspects.
        """
        groups: dict[str, list[FindingRow]] = {}
        for row in findings:
            name = "" if row.cause else self.names.get(row.signature, "")
            groups.setdefault(name or row.signature, []).append(row)
        return [_smallest(group) for group in groups.values()]


def suspicion_of(failure: Failure) -> str:
    """The property that failures of one cause share: the wrong output, or the whole error."""
    details = failure.signature.details
    if operators := operators_of(details):
        return f"wrong {wrong_of(details)} at {operators[0]}"
    return digest_of({**failure.signature.parts, "backend": failure.compiler})


def _kind(row: FindingRow) -> tuple[str, str, str, str]:
    return row.compiler, row.kind, row.stage, row.level


def _smallest(group: list[FindingRow]) -> FindingRow:
    first, *others = sorted(group, key=lambda row: (row.size, row.index, row.signature))
    suspects = (*first.suspects, *(row.signature for row in others))
    return replace(_summed(first, group), suspects=suspects)


def _summed(first: FindingRow, group: Iterable[FindingRow]) -> FindingRow:
    """The first row with the occurrences of the whole group."""
    rows = list(group)
    return replace(
        first,
        occurrences=sum(row.occurrences for row in rows),
        found_at=min(row.found_at for row in rows),
        backends=tuple(sorted({label for row in rows for label in row.backends})),
    )


def merged(
    rows: Iterable[FindingRow],
    reductions: Mapping[str, ReductionRow],
    suspects: Mapping[str, str] | None = None,
) -> list[FindingRow]:
    """One row for all findings that share enough keys of their causes.

    That of the smallest model stands for the others, those that are reduced to the end first.
    suspects: signature -> the cause whose pattern its model contains. A suspect goes with that
    finding until it is reduced itself. The rest stay alone. In order of discovery.
    """
    rows, suspects = sorted(rows, key=lambda row: (row.index, row.signature)), suspects or {}
    reduced = {
        row.signature: reductions[row.signature] for row in rows if _is_reduced(row, reductions)
    }
    leaders = grouped({signature: done.all_keys for signature, done in reduced.items()})
    of_cause = {reductions[s].cause: leader for s, leader in leaders.items()}
    groups: dict[str, list[FindingRow]] = {}
    for row in rows:
        suspected = of_cause.get(suspects.get(row.signature, ""), row.signature)
        groups.setdefault(leaders.get(row.signature, suspected), []).append(row)
    merged_rows = [_one(group, reduced) for group in groups.values()]
    return sorted(merged_rows, key=lambda row: (row.found_at, row.signature))


def _is_reduced(row: FindingRow, reductions: Mapping[str, ReductionRow]) -> bool:
    done = reductions.get(row.signature)
    return done is not None and bool(done.cause)


def _one(group: list[FindingRow], reduced: Mapping[str, ReductionRow]) -> FindingRow:
    """The row of all findings of one cause. group: in order."""
    certain = [row for row in group if row.signature in reduced]
    certain.sort(key=lambda r: (reduced[r.signature].explained, reduced[r.signature].after))
    certain = certain or group[:1]
    first, *others = certain
    whole = replace(
        _summed(first, group),
        duplicates=tuple(row.signature for row in others),
        suspects=tuple(row.signature for row in group if row not in certain),
    )
    if (done := reduced.get(first.signature)) is None:
        return whole
    habit = any(key.kind is KeyKind.HABIT for key in done.all_keys)
    shown = certain if habit else certain[:1]  # of a habit a table of operators, which grows
    return replace(
        whole,
        title=done.title,
        party=done.accused or first.party,
        severity=done.severity or first.severity,
        cause=done.cause,
        pattern="; ".join(dict.fromkeys(reduced[row.signature].pattern for row in shown)),
        nodes=(done.before, done.after),
    )


_UNREDUCED = 1 << 30  # nodes of a model that is not reduced: more than any reduced one has


def by_value(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """Sorts findings, those first that an engineer can act on, for summaries and reports.

    Reduced findings come before the others, the gravest first; of the others, wrong results come
    last. Of equal severity the most frequent come first, then the smallest models.
    """
    return sorted(findings, key=_value)


def _value(row: FindingRow) -> tuple[bool, int, int, int, int, str]:
    worth = Severity(row.severity).rank if row.severity else 0
    if row.kind == OutcomeKind.MISMATCH and not row.nodes:
        worth = len(Severity)  # its reduction may show that it is the same as another one
    size = row.nodes[1] if row.nodes else _UNREDUCED
    return not row.nodes, worth, -row.occurrences, size, row.size, row.signature
