"""The measures of one folder of models, or of several side by side, as tables, JSON and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nnfuzz.base.reading import JsonObject
from nnfuzz.metrics.measures import Measure, boundary_share, histograms, measures
from nnfuzz.metrics.tally import Tally
from nnfuzz.metrics.vocabulary import OperatorVocabulary
from nnfuzz.report.templating import environment

SCHEMA = 1


@dataclass(frozen=True)
class Counted:
    """A folder. left_out: models that could not be read, with the reasons."""

    name: str
    tally: Tally
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class MeasureRow:
    """A measure and its figures, one per folder; None if a folder does not have the measure."""

    measure: Measure
    figures: tuple[str | None, ...]


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator. values: for each folder, the number of nodes by class of value.
    boundary: for each folder, the share of values 0 and 1; None if they are no numbers.
    """

    operator: str
    name: str
    values: tuple[Mapping[str, int], ...]
    boundary: tuple[float | None, ...]


@dataclass(frozen=True)
class FolderComparison:
    """Folders whose coverage is measured against the same vocabulary."""

    counted: Sequence[Counted]
    vocabulary: OperatorVocabulary
    known_passes: Mapping[str, Collection[str]] = field(default_factory=dict)
    """All passes that each compiler reports."""

    def rows(self) -> list[MeasureRow]:
        """Every measure that at least one folder has, in order."""
        every = [measures(one.tally, self.vocabulary) for one in self.counted]
        named = {(m.group, m.name): m for own in every for m in own}
        figures = [{(m.group, m.name): m.figure for m in own} for own in every]
        return [MeasureRow(m, tuple(own.get(key) for own in figures)) for key, m in named.items()]

    def attributes(self) -> list[Attribute]:
        """All attributes, sorted by operator and name."""
        keys = sorted({key for one in self.counted for key in one.tally.attributes})
        tables = [one.tally.attributes for one in self.counted]
        attributes = []
        for key in keys:
            values = tuple(dict(table.get(key, Counter()).most_common()) for table in tables)
            attributes.append(Attribute(*key, values, tuple(map(boundary_share, values))))
        return attributes

    def missing(self) -> list[str]:
        """Operators of the vocabulary that no folder has."""
        present = {op for one in self.counted for op in one.tally.operators}
        return sorted(set(self.vocabulary.degrees) - present)

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
            "attributes": histograms(one.tally),
            "left_out": dict(one.left_out),
        }

    def page(self) -> str:
        """One HTML page that loads nothing."""
        template = environment(html=True).get_template("metrics.html.jinja")
        return template.render(
            names=[one.name for one in self.counted],
            rows=self.rows(),
            attributes=self.attributes(),
            missing=self.missing(),
            operators=self._operators(),
            passes=self._passes(),
            left_out=[(one.name, sorted(one.left_out.items())) for one in self.counted],
            vocabulary=len(self.vocabulary),
        )

    def _operators(self) -> list[tuple[str, list[int]]]:
        """Operators with the nodes of each folder, the most frequent first."""
        total: Counter[str] = Counter()
        for one in self.counted:
            total.update(one.tally.operators)
        return [
            (op, [one.tally.operators[op] for one in self.counted])
            for op, _ in sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
        ]

    def _passes(self) -> list[tuple[str, list[int]]]:
        """Passes, each with the number of models that it changed in each folder."""
        every = [
            {
                f"{name}: {fired}": n
                for name, counts in passes.items()
                for fired, n in counts.items()
            }
            for passes in (one.tally.passes for one in self.counted)
        ]
        return [(name, [own.get(name, 0) for own in every]) for name in sorted(set().union(*every))]
