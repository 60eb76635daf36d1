"""Keeps generation away from what has failed the same way often enough.

A finding that keeps occurring teaches nothing more, and hides what else its models would show. Once
it is reduced and has occurred `tame` times, its operator signature (one operator) or one of its
edges (more) goes on the list of what generation avoids, from the next epoch on. A share of the
tests is made without the list (CaseConfig.unrestrained): there the finding should still occur, and
if it does not, the entry is lifted.

An entry must be worth it: of the tests that contain it, a sufficient share has to fail. Since
reduction ends at float32 where it can, other dtypes of the same operators are looked at as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.campaign.rows import AvoidedRow, FindingRow, ReductionRow
from nnfuzz.campaign.store import Store
from nnfuzz.campaign.support import signature_keys
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.edges import edge_key, edge_keys, is_edge
from nnfuzz.ir.features import Features

SIGNATURE_SHARE, EDGE_SHARE = 0.25, 0.1
"""Of the tests with a signature (an edge) that must fail before it is avoided."""
LEAST = 3  # tests that failed with an entry
LATEST = 5000  # tests that shares are estimated from
PATIENCE = 4.0  # expected failures that must stay out before an entry is lifted


_DTYPES = tuple(dtype.value for dtype in DType)


@dataclass
class _Watch:
    """An entry, and what tests without restraint have shown since."""

    row: AvoidedRow
    seen: int = 0
    failed: int = 0

    @property
    def stopped(self) -> bool:
        """Whether it no longer fails: chance alone would do this in one of fifty cases."""
        return not self.failed and self.seen >= math.ceil(PATIENCE / self.row.share)


class Throttle:
    """The list of what is avoided, and why."""

    def __init__(
        self,
        store: Store,
        threshold: int,
        keys: Sequence[str],
        variables: Mapping[str, Sequence[int]],
        avoided: Iterable[AvoidedRow] = (),
    ) -> None:
        """threshold: occurrences; 0: nothing is added. keys: all signatures; variables: see
        nnfuzz.campaign.support.signature_keys. avoided: what the session begins with.
        """
        self.store = store
        self.threshold = threshold
        self._keys = frozenset(keys)
        self._variables = variables
        self._watches = {row.item: _Watch(row) for row in avoided}
        self._next: dict[str, int] = {}
        self._group: dict[str, str] = {}
        self._lifted: set[str] = set()
        self._refused: frozenset[str] = frozenset()

    @property
    def avoided(self) -> list[AvoidedRow]:
        """By item."""
        return [self._watches[item].row for item in sorted(self._watches)]

    def learn(
        self,
        findings: Iterable[FindingRow],
        reductions: Mapping[str, ReductionRow],
        refused: Iterable[str] = (),
    ) -> list[AvoidedRow]:
        """Adds what has failed often enough; returns what is new.

        refused: signatures that are not generated anyway.
        """
        new = []
        self._refused = frozenset(refused)
        for row in findings:
            for signature in _all(row) if row.refined else ():
                self._group[signature] = row.signature
            if not self._due(row):
                continue
            self._next[row.signature] = 2 * row.occurrences  # if it is not worth it by now
            found = self._worst(row, reductions.get(row.signature))
            self._watches.update((entry.item, _Watch(entry)) for entry in found)
            new += found
        return new

    def watch(self, graph: Mapping[str, Any], failed: Iterable[str]) -> None:
        """Takes a test that was made without restraint, with the signatures that it showed.

        A failure that is not reduced yet may be any of the known ones.
        """
        if not self._watches:
            return
        items = {*signature_keys(graph, self._variables), *edge_keys(graph)}
        groups = {self._group.get(signature, "") for signature in failed}
        for item in items & self._watches.keys():
            watch = self._watches[item]
            watch.seen += 1
            known = self._group.get(watch.row.signature, watch.row.signature)
            watch.failed += not groups.isdisjoint((known, ""))

    def lift(self) -> list[AvoidedRow]:
        """Takes off the list what has stopped failing; returns it."""
        stopped = [watch.row for watch in self._watches.values() if watch.stopped]
        for row in stopped:
            del self._watches[row.item]
            self._lifted.add(row.item)
        return stopped

    def _due(self, row: FindingRow) -> bool:
        if not self.threshold or not row.refined:
            return False
        return row.occurrences >= self._next.get(row.signature, self.threshold)

    def _worst(self, row: FindingRow, reduction: ReductionRow | None) -> list[AvoidedRow]:
        """The part of the reduced graph whose tests fail most, for all dtypes where enough do."""
        graph = reduction.graph if reduction else None
        items = list(self._items(graph)) if graph else []
        bad = {i for signature in _all(row) for i in self.store.where(signature)}
        shares = self._shares(items, bad)
        worst = max(items, key=lambda name: shares[name], default="")
        found = []
        for item in items:
            needed = EDGE_SHARE if is_edge(item) else SIGNATURE_SHARE
            if _bare(item) == _bare(worst) and shares[item] >= needed:
                share = round(shares[item], 3)
                why = f"{row.title}: {row.occurrences} times, in {share:.0%} of its tests"
                found.append(AvoidedRow(item, row.signature, why, share))
        return found

    def _items(self, graph: Mapping[str, Any]) -> Iterator[str]:
        """What generation could do without: the only operator's signatures, or the edges."""
        if len(graph["nodes"]) > 1:
            bare = {_bare(key) for key in edge_keys(graph)}
            items = {f"{edge}({dtype})" for edge in bare for dtype in _DTYPES}
        else:
            taken = {item for item in self._watches if not is_edge(item)}
            operator = graph["nodes"][0]["op"]
            items = {key for key in self._keys if _bare(key) == operator}
            if not self._keys - taken - items - self._refused:
                return  # nothing would be left to generate
        yield from sorted(items - self._watches.keys() - self._lifted - self._refused)

    def _shares(self, items: Sequence[str], bad: set[int]) -> dict[str, float]:
        """Of the latest tests with each item, the share that failed; 0 for too few to tell."""
        traces = {item if is_edge(item) else item.rpartition("->")[0]: item for item in items}
        there: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for index, found in self.store.features(LATEST):
            for trace in traces.keys() & self._traces(found):
                there[traces[trace]] += 1
                failed[traces[trace]] += index in bad
        told = {item for item in items if failed[item] >= LEAST}
        return {item: failed[item] / there[item] if item in told else 0.0 for item in items}

    def _traces(self, found: Features) -> set[str]:
        """The edges, and the signatures without outputs, that features may stand for."""
        nodes = [(op, dtypes.split(",")) for op, dtypes, _ in found.nodes]
        traces = {
            edge_key(nodes[a][0], nodes[b][0], dtype)
            for a, b in found.edges
            for dtype in nodes[b][1]
        }
        for op, dtypes in nodes:
            bound = [dtypes[i] for i in self._variables.get(op, ()) if i < len(dtypes)]
            traces.add(f"{op}({','.join(bound)})")
        return traces


def _bare(item: str) -> str:
    """A signature's operator, or an edge without its dtype."""
    return item.partition("(")[0]


def _all(row: FindingRow) -> tuple[str, ...]:
    """Suspects count: if they are something else, what is made without restraint will tell."""
    return row.signature, *row.duplicates, *row.suspects
