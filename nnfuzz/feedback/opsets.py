"""The consequences of a backend's answer at one opset for other opsets.

A key such as "direct@21:Acos(float32)->float32" stands for a version of an operator: 21 is the
newest opset that has it. Its answers come from all opsets with that version. Two rules spare most
questions:

- A dtype that is refused at a version is refused at the older ones, since compilers add dtypes to
  operators and take none away. That does not follow where the operator ran with no dtypes at the
  version: then the version is lacking, and older ones are tried in tests.
- An opset at which no model at all was taken, although many would have been by what the backend
  takes of the others, is refused as a whole and no longer drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import exporter_of, opset_of, writer

EXPECTED = 6.0
"""How many models of an opset must have been taken if it was as likely as at the other opsets for
none to mean that the opset is refused: by chance that happens with a probability of exp(-6)."""


class VersionedKeys:
    """The keys of a campaign by exporter, operator and version."""

    def __init__(self, keys: Iterable[SupportKey]) -> None:
        self._keys = frozenset(keys)
        opsets_of: dict[tuple[str, str], set[int]] = {}
        for key in self._keys:
            place = exporter_of(key.exporter), key.operator
            opsets_of.setdefault(place, set()).add(opset_of(key.exporter))
        self._opsets = {place: sorted(opsets) for place, opsets in opsets_of.items()}
        self._known: dict[tuple[str, str], SupportKey | None] = {}

    def of_test(self, items: Iterable[str], made_by: str) -> list[SupportKey]:
        """The keys of a test's signatures. made_by: the exporter or writer of its model.

        Items that are no signatures of the campaign are left out, as those of seed models may be.
        """
        keys = (self._of_item(item, made_by) for item in items)
        return [key for key in keys if key is not None]

    def _of_item(self, item: str, made_by: str) -> SupportKey | None:
        parsed = SupportKey.parse(item)
        if parsed.is_edge:
            return None
        if (item, made_by) not in self._known:
            key = self._versioned(parsed, made_by)
            self._known[item, made_by] = key if key in self._keys else None
        return self._known[item, made_by]

    def _versioned(self, key: SupportKey, made_by: str) -> SupportKey:
        exporter, opset = exporter_of(made_by), opset_of(made_by)
        opsets = self._opsets.get((exporter, key.operator), [])
        later = opsets[bisect_left(opsets, opset) :] if opset else []
        return key.with_exporter(writer(exporter, later[0]) if later else made_by)

    def newest(self, keys: Iterable[SupportKey]) -> list[SupportKey]:
        """Of keys of one signature the one of the newest version for each exporter, in order."""
        by_exporter: dict[str, SupportKey] = {}
        for key in keys:
            known = by_exporter.setdefault(exporter_of(key.exporter), key)
            if opset_of(key.exporter) > opset_of(known.exporter):
                by_exporter[exporter_of(key.exporter)] = key
        return list(by_exporter.values())

    def older(self, key: SupportKey) -> Iterator[SupportKey]:
        """The keys of the same signature and exporter for older versions."""
        exporter, opset = exporter_of(key.exporter), opset_of(key.exporter)
        for other in self._opsets.get((exporter, key.operator), []):
            older = key.with_exporter(writer(exporter, other))
            if other < opset and older in self._keys:
                yield older


class OpsetTally:
    """How many models of each writer a backend has taken and refused."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def add(self, made_by: str, refused: bool) -> None:
        """Counts a test, unless its opset was given."""
        if opset_of(made_by):
            (self._refused if refused else self._taken)[made_by] += 1

    def refused(self) -> dict[str, str]:
        """The writers whose opset is refused as a whole, with the reason."""
        taken, refused = self._taken.total(), self._refused.total()
        reasons = {}
        for name in sorted(self._refused.keys() - self._taken.keys()):
            count = self._refused[name]
            others = taken + refused - count
            if others and count * taken / others >= EXPECTED:
                reasons[name] = f"none of {count} models of opset {opset_of(name)} was taken"
        return reasons
