"""Keeps generation away from what has failed in the same way often enough.

A failure that keeps occurring teaches nothing more, and hides what else its models would show. Once
it has occurred `threshold` times, reduced or not, the tests so far are counted: which operator
signature, or which edge between two operators, do they have in common that other tests lack? It is
avoided from the next epoch on. Some tests are made without restraint (CaseConfig.unrestrained):
there it should still fail, and if it does not, the entry is lifted.

Failures are counted twice, by raw signature and by what every failure of that kind has in common
(backend, kind and stage), since one wrong kernel shows under many signatures. What to avoid is the
item that is associated most (G-test), among those whose tests fail often enough for it to be
worthwhile. Everything here is a function of the tests of earlier epochs, in the order of their
indexes.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nnfuzz.ir.edges import is_edge
from nnfuzz.records.rows import AvoidedRow, Observed
from nnfuzz.testcase.case import refusal

SIGNATURE_SHARE, EDGE_SHARE = 0.25, 0.1
"""Of the tests with a signature (an edge) that must fail before it is avoided."""
SIGNIFICANT = 20.0
"""Of the G statistic: one item in about 100,000 innocent ones gets there by chance."""
LATEST = 5000  # tests that are counted
PATIENCE = 4.0  # expected failures that must stay out before an entry is lifted


@dataclass(frozen=True, slots=True)
class _Test:
    """named: its items and their operators and edges whatever the dtype. groups: of failures, with
    a signature of each; see `_groups`.

    There are LATEST of these, which name the same things again and again: each text is there once.
    """

    exporter: str
    items: tuple[str, ...]
    named: tuple[str, ...]
    groups: Mapping[str, str]


@dataclass
class _Watch:
    """An entry, and what tests without restraint have shown since. groups: of its failures."""

    row: AvoidedRow
    groups: frozenset[str]
    since: int
    seen: int = 0
    failed: int = 0

    @property
    def stopped(self) -> bool:
        """Whether it no longer fails: chance alone would do this in one of fifty cases."""
        return not self.failed and self.seen >= math.ceil(PATIENCE / self.row.share)


@dataclass(frozen=True)
class _Suspect:
    """An item that tests which fail in one way have in common; `seen` of them have it.

    group: the way. mark: the exporter whose tests alone count, "" if all do.
    """

    item: str
    group: str
    mark: str
    failed: int
    seen: int
    association: float

    @property
    def name(self) -> str:
        return _marked(self.mark, self.item)

    @property
    def order(self) -> tuple[float, float, str, str]:
        """The most associated one first."""
        return -self.association, -self.failed / self.seen, self.name, self.group


class Throttle:
    """The list of what is avoided, and why."""

    def __init__(
        self, threshold: int, keys: Collection[str], unrestrained: Callable[[int], bool]
    ) -> None:
        """threshold: occurrences; 0: nothing is avoided. keys: all signatures. unrestrained:
        whether the test of an index is made without restraint.
        """
        self.threshold = threshold
        self._keys = frozenset(keys)
        self._unrestrained = unrestrained
        self._tests: deque[_Test] = deque(maxlen=LATEST)
        self._watches: dict[str, _Watch] = {}
        self._lifted: set[str] = set()

    @property
    def avoided(self) -> list[AvoidedRow]:
        """By item."""
        return [self._watches[item].row for item in sorted(self._watches)]

    def learn(
        self, tests: Iterable[Observed], epoch: int, refused: Collection[str] = ()
    ) -> list[AvoidedRow]:
        """Takes the tests of an epoch and adds what has failed often enough; returns what is new.

        epoch: from which on it is avoided. refused: signatures that are not generated anyway.
        """
        for test in tests:
            self._watch(test)
            if test.ran:
                self._tests.append(_test(test))
        found: list[AvoidedRow] = []
        while self.threshold and (new := self._worst(refused)):
            for row, groups in new:
                self._watches[row.item] = _Watch(row, groups, epoch)
            found += [row for row, _ in new]
        return found

    def avoid(self, item: str, failures: Sequence[Observed], why: str, epoch: int) -> None:
        """Adds what always fails by itself. failures: of its single-operator models."""
        if not self.threshold or item in self._watches or item in self._lifted:
            return
        if self._admissible(item, ()):
            groups = {g for test in failures for s in test.failures for g in _groups(test, s)}
            signature = min(s for test in failures for s in test.failures)
            self._watches[item] = _Watch(AvoidedRow(item, signature, why), frozenset(groups), epoch)

    def lift(self) -> list[AvoidedRow]:
        """Takes off the list what has stopped failing; returns it."""
        stopped = [watch.row for watch in self._watches.values() if watch.stopped]
        for row in stopped:
            del self._watches[row.item]
            self._lifted.add(row.item)
        return stopped

    def _watch(self, test: Observed) -> None:
        """A failure of the same kind may be the known one, whatever its signature."""
        if not test.ran or not self._unrestrained(test.index):
            return
        groups = {group for signature in test.failures for group in _groups(test, signature)}
        for item in (*test.items, *(refusal(test.exporter, item) for item in test.items)):
            watch = self._watches.get(item)
            if watch and test.epoch >= watch.since:
                watch.seen += 1
                watch.failed += not watch.groups.isdisjoint(groups)

    def _worst(self, refused: Collection[str]) -> list[tuple[AvoidedRow, frozenset[str]]]:
        """What is associated most with failing in one way, for all dtypes where enough do."""
        tests = self._restrained()
        counts = Counter(group for test in tests for group in test.groups)
        due = sorted(group for group, count in counts.items() if count >= self.threshold)
        suspects: list[_Suspect] = []
        for mark in sorted({_exporter(group) for group in due}):
            among = [test for test in tests if mark in ("", test.exporter)]
            bad = {g: [t for t in among if g in t.groups] for g in due if _exporter(g) == mark}
            suspects += self._suspects(among, bad)
        for suspect in sorted(suspects, key=lambda found: found.order):
            if entries := self._entries(suspect, tests, refused):
                return entries
        return []

    def _restrained(self) -> list[_Test]:
        """The tests without anything that is avoided by now."""
        gone: dict[str, set[str]] = {"": set()}
        for name in self._watches:
            mark, _, item = name.rpartition(":")
            gone.setdefault(mark, set()).add(item)
        return [
            test
            for test in self._tests
            if all(gone[mark].isdisjoint(test.items) for mark in {"", test.exporter} & gone.keys())
        ]

    def _suspects(
        self, tests: Sequence[_Test], bad: Mapping[str, Sequence[_Test]]
    ) -> Iterator[_Suspect]:
        """Items that could be to blame for a group. tests: that groups are about. bad: those of a
        group.
        """
        named = {
            g: Counter(item for test in failed for item in test.named) for g, failed in bad.items()
        }
        often = {
            group: {item: times for item, times in counts.items() if times >= self.threshold}
            for group, counts in named.items()
        }
        asked = set().union(*often.values())
        seen = Counter(item for test in tests for item in asked.intersection(test.named))
        for group, counts in often.items():
            for item, times in counts.items():
                if times / seen[item] >= _needed(item):
                    associated = association(times, seen[item], len(bad[group]), len(tests))
                    if associated >= SIGNIFICANT:
                        yield _Suspect(item, group, _exporter(group), times, seen[item], associated)

    def _entries(
        self, suspect: _Suspect, tests: Sequence[_Test], refused: Collection[str]
    ) -> list[tuple[AvoidedRow, frozenset[str]]]:
        """What to avoid for a suspect: itself, or for an operator or edge its dtypes."""
        entries: list[tuple[AvoidedRow, frozenset[str]]] = []
        group, there = suspect.group, False
        failed = [t.groups[group] for t in tests if group in t.groups]
        having = [t for t in tests if suspect.mark in ("", t.exporter) and suspect.item in t.named]
        for item in self._meant(suspect, having, refused):
            seen = [t for t in having if item in t.items]
            bad = [t.groups[group] for t in seen if group in t.groups]
            share = len(bad) / len(seen) if seen else suspect.failed / suspect.seen
            name = _marked(suspect.mark, item)
            without = {*refused, *(row.item for row, _ in entries)}
            if share < _needed(item) or not self._admissible(name, without):
                continue
            shown = bad or failed
            signature = min(shown, key=lambda s: (-shown.count(s), s))
            why = f"{suspect.failed} of {suspect.seen} tests with {suspect.name} failed"
            entries.append((AvoidedRow(name, signature, why, round(share, 3)), frozenset({group})))
            there |= bool(seen)
        return entries if there else []

    def _meant(
        self, suspect: _Suspect, having: Iterable[_Test], refused: Collection[str]
    ) -> list[str]:
        """The items that a suspect stands for. An operator that fails whatever its dtype stands
        for those as well that no test had so far; an edge for those that tests had.
        """
        gone = {*self._watches, *self._lifted, *refused}
        items = {suspect.item}
        if _bare(suspect.item) == suspect.item:
            items = {i for t in having for i in t.items if _bare(i) == suspect.item}
            items |= {key for key in self._keys if _bare(key) == suspect.item}
        return sorted(item for item in items if _marked(suspect.mark, item) not in gone)

    def _admissible(self, item: str, without: Collection[str]) -> bool:
        """Whether something is left to generate without it; exporters do not count."""
        bare = item.rpartition(":")[2]
        gone = {key.rpartition(":")[2] for key in (*self._watches, *without)}
        return is_edge(bare) or bool(self._keys - gone - {bare})


def by_operator(rows: Iterable[AvoidedRow]) -> dict[str, AvoidedRow]:
    """One entry for all dtypes of an operator or edge that are avoided: its name for people, and
    the first of them.
    """
    groups: dict[str, list[AvoidedRow]] = {}
    for row in rows:
        groups.setdefault(_bare(row.item), []).append(row)
    return {
        group[0].item if len(group) == 1 else f"{bare} ({len(group)} signatures)": group[0]
        for bare, group in groups.items()
    }


def association(failed: int, seen: int, bad: int, tests: int) -> float:
    """The G statistic of having an item and failing; 0 if those with it fail less often.

    failed of `seen` tests with the item failed, `bad` of all `tests`.
    """
    if failed * tests <= bad * seen:
        return 0.0
    table = (
        (failed, seen * bad / tests),
        (seen - failed, seen * (tests - bad) / tests),
        (bad - failed, (tests - seen) * bad / tests),
        (tests - seen - bad + failed, (tests - seen) * (tests - bad) / tests),
    )
    return 2 * sum(count * math.log(count / expected) for count, expected in table if count)


def _groups(test: Observed, signature: str) -> Iterator[str]:
    """A failure's own signature, and its kind: "BACKEND KIND STAGE", with an exporter's name before
    a colon where it was the one that failed.
    """
    kind = test.failures[signature]
    mark = f"{test.exporter}:" if kind.endswith(" export") else ""
    yield mark + signature
    yield mark + kind


def _test(test: Observed) -> _Test:
    groups = {group: sig for sig in test.failures for group in _groups(test, sig)}
    items = dict.fromkeys(map(sys.intern, test.items))
    named = items | dict.fromkeys(sys.intern(_bare(item)) for item in test.items)
    return _Test(test.exporter, tuple(items), tuple(named), groups)


def _exporter(name: str) -> str:
    """That of a group or item that is about one only; else ""."""
    return name.rpartition(":")[0]


def _marked(exporter: str, item: str) -> str:
    return refusal(exporter, item) if exporter else item


def _bare(item: str) -> str:
    """A signature's operator, or an edge without its dtype."""
    return item.partition("(")[0]


def _needed(item: str) -> float:
    return EDGE_SHARE if is_edge(item) or "->" in _bare(item) else SIGNATURE_SHARE
