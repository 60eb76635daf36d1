"""Keeps generation away from operators and edges that have failed in the same way often enough, or
that a compiler has refused in the same words in most of their tests.

A failure that keeps occurring teaches nothing more, and hides other failures of its models. Once
it has occurred `threshold` times, reduced or not, the tests so far are counted: which operator
signature, or which edge between two operators, do they have in common that other tests lack? It is
avoided from the next epoch on, but in some tests that are made without restraint
(CaseConfig.unrestrained).

Failures are counted twice, by raw signature and by the items that all failures of that kind share
(backend, kind and stage), since one wrong kernel shows under many signatures. Of the items whose
tests fail often enough, the one with the strongest association (G-test) is avoided. Everything here
is a function of the tests of earlier epochs, in the order of their indexes.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nnfuzz.backend.backtrace import normalise
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.feedback.support import telling_line
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import exporter_of
from nnfuzz.records.rows import AvoidedRow, TestRow
from nnfuzz.triage.keys import EVERY_DTYPE
from nnfuzz.triage.pattern import general_message

SIGNATURE_SHARE, EDGE_SHARE = 0.25, 0.1
"""Share of the tests with a signature (an edge) that must fail before it is avoided."""
REFUSED_SHARE = 0.5
"""Share of the tests with an item that a compiler must refuse before the item is avoided: what an
operator needs beside its dtypes, such as a constant operand, is refused in some of its tests."""
SIGNIFICANT, STATED = 20.0, 10.0
"""The least G statistics of an item that is avoided: for failures, and for refusals. By chance one
innocent item in about 100,000 reaches the first. The second is lower, since a compiler that states
a limit keeps to it in every test."""
REFUSALS = 3
"""Refusals in the same words after which an item is avoided."""
_WORD = re.compile(r"(?<!<)\b[A-Za-z_][\w.]*\b")
REWRITTEN = ("rewrite", "spelling", "form")
"""Variations that apply rules (nnfuzz.vary.rewrite), which compilers may refuse as well."""
LATEST = 5000  # tests that are counted


class _Group(NamedTuple):
    """Failures of one signature, failures of one kind ("BACKEND KIND STAGE"), or refusals of one
    compiler in the same words.

    exporter: the one that failed, or whose models are refused; empty for a compiler's failures, and
    for refusals whatever the exporter. refusal: whether these are refusals.
    """

    exporter: str
    name: str
    refusal: bool = False

    def enough(self, threshold: int) -> int:
        """The occurrences after which an item is avoided. threshold: those of failures."""
        return min(threshold, REFUSALS) if self.refusal else threshold

    def needed(self, item: SupportKey) -> float:
        """The share of an item's tests that must be in the group before the item is avoided."""
        if self.refusal:
            return REFUSED_SHARE
        return EDGE_SHARE if item.is_edge else SIGNATURE_SHARE


@dataclass(frozen=True, slots=True)
class _Test:
    """items: signatures and edges. named: the same, and for all dtypes. groups: the groups of its
    failures, each with one signature in it.
    """

    exporter: str
    items: tuple[SupportKey, ...]
    named: tuple[SupportKey, ...]
    groups: Mapping[_Group, str]


@dataclass(frozen=True)
class _Suspect:
    """An item that occurred in `tests` tests; `failed` of them have a failure of a group."""

    item: SupportKey
    group: _Group
    failed: int
    tests: int
    association: float

    @property
    def key(self) -> SupportKey:
        """The item, with the exporter if only its tests count."""
        return self.item.with_exporter(self.group.exporter)

    @property
    def order(self) -> tuple[float, float, bool, SupportKey, _Group]:
        """Sorts the strongest association first, and what holds for all exporters."""
        share = self.failed / self.tests
        return -self.association, -share, bool(self.group.exporter), self.key, self.group


class Throttle:
    """The list of avoided items, with the reasons."""

    def __init__(self, threshold: int, keys: Collection[SupportKey]) -> None:
        """threshold: occurrences; 0: nothing is avoided. keys: all signatures."""
        self.threshold = threshold
        self._keys = frozenset(keys)
        self._tests: deque[_Test] = deque(maxlen=LATEST)
        self._rows: dict[SupportKey, AvoidedRow] = {}

    @property
    def avoided(self) -> list[AvoidedRow]:
        """Sorted by item."""
        return [self._rows[item] for item in sorted(self._rows)]

    def learn(
        self, tests: Iterable[TestRow], refused: Collection[SupportKey] = ()
    ) -> list[AvoidedRow]:
        """Counts the tests of an epoch and avoids items that have failed often enough; returns the
        new rows.

        refused: signatures that are not generated anyway.
        """
        self._tests.extend(_test(test) for test in tests if test.ran)
        added: list[AvoidedRow] = []
        while self.threshold and (new := self._worst(refused)):
            self._rows.update((SupportKey.parse(row.item), row) for row in new)
            added += new
        return added

    def _worst(self, refused: Collection[SupportKey]) -> list[AvoidedRow]:
        """The item most associated with failing in one way: all its dtypes where enough fail."""
        tests = self._restrained()
        counts = Counter(group for test in tests for group in test.groups)
        due = sorted(g for g, count in counts.items() if count >= g.enough(self.threshold))
        suspects: list[_Suspect] = []
        for exporter in sorted({group.exporter for group in due}):
            among = [test for test in tests if exporter in ("", test.exporter)]
            groups = [group for group in due if group.exporter == exporter]
            suspects += self._suspects(among, groups)
        for suspect in sorted(suspects, key=lambda suspect: suspect.order):
            if rows := self._avoidable(suspect, tests, refused):
                return rows
        return []

    def _restrained(self) -> list[_Test]:
        """The tests without anything that is avoided by now."""
        avoided: dict[str, set[SupportKey]] = {}
        for key in self._rows:
            avoided.setdefault(key.exporter, set()).add(key.signature)
        return [
            test
            for test in self._tests
            if all(
                avoided[exporter].isdisjoint(test.items)
                for exporter in {"", test.exporter} & avoided.keys()
            )
        ]

    def _suspects(self, tests: Sequence[_Test], groups: Sequence[_Group]) -> Iterator[_Suspect]:
        """Items that could be to blame for a group of failures. tests: those that count."""
        bad = Counter(group for test in tests for group in test.groups)
        often: dict[_Group, dict[SupportKey, int]] = {}
        for group in groups:
            counts = Counter(i for test in tests if group in test.groups for i in test.named)
            least = group.enough(self.threshold)
            often[group] = {item: n for item, n in counts.items() if n >= least}
        asked = set().union(*often.values())
        among = Counter(item for test in tests for item in asked.intersection(test.named))
        for group, failures in often.items():
            for item, failed in failures.items():
                if item.is_property and not group.refusal:
                    continue
                if failed / among[item] >= group.needed(item):
                    associated = association(failed, among[item], bad[group], len(tests))
                    if associated >= (STATED if group.refusal else SIGNIFICANT):
                        yield _Suspect(item, group, failed, among[item], associated)

    def _avoidable(
        self, suspect: _Suspect, tests: Sequence[_Test], refused: Collection[SupportKey]
    ) -> list[AvoidedRow]:
        """The items to avoid for a suspect: itself, or for an operator or edge its dtypes."""
        rows: dict[SupportKey, AvoidedRow] = {}
        group, observed = suspect.group, False
        failed = [t.groups[group] for t in tests if group in t.groups]
        having = [t for t in tests if group.exporter in ("", t.exporter)]
        having = [t for t in having if suspect.item in t.named]
        for item in self._meant(suspect, having, refused):
            own = [t for t in having if item in t.items]
            bad = [t.groups[group] for t in own if group in t.groups]
            share = len(bad) / len(own) if own else suspect.failed / suspect.tests
            key = item.with_exporter(group.exporter)
            if share < group.needed(item) or not self._admissible(key, {*refused, *rows}):
                continue
            signatures = bad or failed
            signature = min(signatures, key=lambda s: (-signatures.count(s), s))
            fate = "were refused" if group.refusal else "failed"
            why = f"{suspect.failed} of {suspect.tests} tests with {suspect.key} {fate}"
            rows[key] = AvoidedRow(str(key), signature, why, round(share, 3))
            observed |= bool(own)
        return list(rows.values()) if observed else []

    def _meant(
        self, suspect: _Suspect, having: Iterable[_Test], refused: Collection[SupportKey]
    ) -> list[SupportKey]:
        """The items that a suspect stands for: of an operator without dtypes also the signatures
        that no test had so far, of an edge those that tests had.
        """
        settled = {*self._rows, *refused}
        items = {suspect.item}
        if not suspect.item.dtypes:
            items = {i for t in having for i in t.items if i.any_dtypes == suspect.item}
            items |= {key for key in self._keys if key.any_dtypes == suspect.item}
        exporter = suspect.group.exporter
        return sorted(item for item in items if item.with_exporter(exporter) not in settled)

    def _admissible(self, item: SupportKey, without: Collection[SupportKey]) -> bool:
        """Whether something is left to generate without it; exporters do not count."""
        gone = {key.signature for key in (*self._rows, *without, item)}
        return not item.is_signature or bool(self._keys - gone)


def by_operator(rows: Iterable[AvoidedRow]) -> dict[str, AvoidedRow]:
    """The first of the rows that differ only in their dtypes, by a label for people: the item, or
    its operator or edge with the number of signatures.
    """
    groups: dict[SupportKey, list[AvoidedRow]] = {}
    for row in rows:
        groups.setdefault(SupportKey.parse(row.item).any_dtypes, []).append(row)
    return {
        group[0].item if len(group) == 1 else f"{name} ({len(group)} signatures)": group[0]
        for name, group in groups.items()
    }


def association(failed: int, with_item: int, bad: int, tests: int) -> float:
    """The G statistic of having an item and failing; 0 if those with it fail less often.

    `failed` of `with_item` tests with the item failed, `bad` of all `tests`.
    """
    if failed * tests <= bad * with_item:
        return 0.0
    table = (
        (failed, with_item * bad / tests),
        (with_item - failed, with_item * (tests - bad) / tests),
        (bad - failed, (tests - with_item) * bad / tests),
        (tests - with_item - bad + failed, (tests - with_item) * (tests - bad) / tests),
    )
    return 2 * sum(count * math.log(count / expected) for count, expected in table if count)


def _stated(line: str) -> str:
    """The words of a refusal without dtypes, numbers and numbered names: models differ in these."""
    text = general_message(normalise(line), EVERY_DTYPE, ())
    return " ".join(word for word in _WORD.findall(text) if not word.endswith("N"))


def _groups(test: TestRow) -> dict[_Group, str]:
    """The groups that a test belongs to, each with the last of its signatures or refusals."""
    groups: dict[_Group, str] = {}
    for signature, kind in test.failures.items():
        exporter = exporter_of(test.exporter) if kind.endswith(" export") else ""
        groups |= dict.fromkeys((_Group(exporter, signature), _Group(exporter, kind)), signature)
    for backend, levels in test.outcomes.items():
        for outcome in levels.values():
            if outcome.kind == OutcomeKind.UNSUPPORTED:
                words = f"{backend}: {_stated(telling_line(outcome.message))}"
                writer = exporter_of(test.exporter)
                groups |= {_Group(by, words, refusal=True): words for by in ("", writer)}
    return groups


def _test(test: TestRow) -> _Test:
    parted = (name.partition(":") for name in test.variations)
    rules = (f"{name}[rule]" for kind, _, name in parted if kind in REWRITTEN)
    items = tuple(dict.fromkeys(map(SupportKey.parse, (*test.items, *rules))))
    named = dict.fromkeys((*items, *(item.any_dtypes for item in items)))
    return _Test(exporter_of(test.exporter), items, tuple(named), _groups(test))
