"""The measures of one folder of models, or of several side by side, as rows and JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nnfuzz.base.reading import JsonObject
from nnfuzz.metrics.measures import Measure, measures
from nnfuzz.metrics.tally import Tally
from nnfuzz.metrics.vocabulary import Vocabulary

SCHEMA = 1


@dataclass(frozen=True)
class Counted:
    """A folder. left_out: models that could not be read, with the reasons."""

    name: str
    tally: Tally
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class FolderComparison:
    """Folders whose coverage is measured against the same vocabulary."""

    counted: Sequence[Counted]
    vocabulary: Vocabulary
    known_passes: Mapping[str, Collection[str]] = field(default_factory=dict)
    """All passes that each compiler reports."""

    def rows(self) -> list[tuple[Measure, list[str]]]:
        """Every measure that at least one folder has, with the figures of each; "" for none."""
        every = [measures(one.tally, self.vocabulary) for one in self.counted]
        named = {m.name: m for own in every for m in own}
        figures = [{m.name: m.figure for m in own} for own in every]
        return [(m, [own.get(key, "") for own in figures]) for key, m in named.items()]

    def missing(self) -> list[str]:
        """Operators of the vocabulary that no folder has."""
        present = {op for one in self.counted for op in one.tally.operators}
        return sorted(set(self.vocabulary) - present)

    def idle_passes(self) -> dict[str, list[str]]:
        """By compiler, the passes that it runs and that changed no model of any folder."""
        fired = {
            n: {p for one in self.counted for p in one.tally.passes[n]} for n in self.known_passes
        }
        return {
            n: [p for p in known if p not in fired[n]] for n, known in self.known_passes.items()
        }

    def to_json(self) -> JsonObject:
        return {
            "schema": SCHEMA,
            "vocabulary": len(self.vocabulary),
            "missing_operators": self.missing(),
            "known_passes": {name: list(known) for name, known in self.known_passes.items()},
            "idle_passes": self.idle_passes(),
            "folders": [self._of(one) for one in self.counted],
        }

    def _of(self, one: Counted) -> dict[str, object]:
        return {
            "name": one.name,
            "measures": {m.name: m.value for m in measures(one.tally, self.vocabulary)},
            "operators": dict(one.tally.operators.most_common()),
            "passes": {name: dict(c.most_common()) for name, c in sorted(one.tally.passes.items())},
            "left_out": dict(one.left_out),
        }
