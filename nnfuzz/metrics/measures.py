"""Measures of how diverse graphs are, each with its definition; docs/METRICS.md has the sources."""

from __future__ import annotations

from dataclasses import dataclass

from nnfuzz.metrics.tally import Tally
from nnfuzz.metrics.vocabulary import Vocabulary

SHARE, COUNT, MEAN = "share", "count", "mean"


@dataclass(frozen=True)
class Measure:
    """A figure. kind: SHARE (of 1), COUNT (of different things) or MEAN. text: its definition."""

    name: str
    kind: str
    value: float
    text: str

    @property
    def figure(self) -> str:
        """The figure as text."""
        if self.kind == SHARE:
            small = 0 < self.value < 0.001
            return f"{self.value:.1g}" if small else f"{self.value:.1%}"
        return f"{self.value:,.0f}" if self.kind == COUNT else f"{self.value:,.2f}"


def measures(tally: Tally, vocabulary: Vocabulary) -> list[Measure]:
    """Three counts, the eleven measures of Isra's evaluation, and the passes of each compiler."""
    size, graphs = max(len(vocabulary), 1), max(tally.graphs, 1)
    of_ops = set(tally.operators) & set(vocabulary)
    inputs = sum(min(1.0, len(tally.degrees[op]) / vocabulary[op]) for op in of_ops)
    outputs = sum(len(tally.fan_out[op]) for op in of_ops)
    settings = sum(len(tally.vertices[op]) for op in of_ops)
    return [
        Measure("models", COUNT, tally.graphs, "models that could be read"),
        Measure("operators", COUNT, tally.nodes, "nodes of all models"),
        Measure("operator types", COUNT, len(tally.operators), "different operators"),
        Measure("OTC", SHARE, len(of_ops) / size, "operator type coverage"),
        Measure("IDC", SHARE, inputs / size, "input degree coverage, mean over operators"),
        Measure("ODC", MEAN, outputs / size, "output degrees, mean over operators"),
        Measure("SEC", SHARE, len(tally.pairs) / size**2, "single edge coverage"),
        Measure("DEC", SHARE, len(tally.chains) / size**3, "double edge coverage"),
        Measure("SPC", MEAN, settings / size, "shapes and attributes, mean over operators"),
        Measure("NOO", MEAN, tally.nodes / graphs, "operators of a model"),
        Measure("NOT", MEAN, tally.types / graphs, "operator types of a model"),
        Measure("NOP", MEAN, tally.edges / graphs, "pairs of operators of a model"),
        Measure("NTR", MEAN, tally.triples / graphs, "triples of operators of a model"),
        Measure("NSA", MEAN, tally.settings / graphs, "shapes and attributes of a model"),
        *(
            Measure(f"passes of {name}", COUNT, len(fired), "that changed some model")
            for name, fired in sorted(tally.passes.items())
        ),
    ]
