"""Measures of how diverse graphs are, each with its definition; docs/METRICS.md has the sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from nnfuzz.metrics.tally import Tally
from nnfuzz.metrics.vocabulary import OperatorVocabulary

BOUNDARY = ("0", "1", "[0 0]", "[0 1]", "[1 1]", "[]")
"""Classes of values (nnfuzz.ir.features.value_class) at which formulas degenerate."""
NUMBERS = (*BOUNDARY, "negative", "more")
SHARE, COUNT, MEAN = "share", "count", "mean"
Figure = tuple[str, str, float, str]
"""Name, kind, value and definition of a measure."""


@dataclass(frozen=True)
class Measure:
    """A figure. kind: SHARE (of 1), COUNT (of different things) or MEAN. text: its definition."""

    name: str
    group: str
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


def measures(tally: Tally, vocabulary: OperatorVocabulary) -> list[Measure]:
    """All measures in the order in which they are printed."""
    groups: dict[str, list[Figure]] = {
        "size": _size(tally),
        "Isra": _isra(tally, vocabulary),
        "GenCoG": _gencog(tally),
        "HirGen": _hirgen(tally),
        "attributes": _attributes(tally),
        "passes": [
            (f"passes of {name}", COUNT, len(fired), "that changed some model")
            for name, fired in sorted(tally.passes.items())
        ],
    }
    return [
        Measure(name, group, kind, value, text)
        for group, figures in groups.items()
        for name, kind, value, text in figures
    ]


def _size(tally: Tally) -> list[Figure]:
    return [
        ("models", COUNT, tally.graphs, "models that could be read"),
        ("operators", COUNT, tally.nodes, "nodes of all models"),
        ("operator types", COUNT, len(tally.operators), "different operators"),
    ]


def _isra(tally: Tally, vocabulary: OperatorVocabulary) -> list[Figure]:
    """The eleven measures of Isra's evaluation."""
    size, graphs = max(len(vocabulary), 1), max(tally.graphs, 1)
    of_ops = set(tally.operators) & set(vocabulary.degrees)
    known = vocabulary.degrees
    inputs = sum(min(1.0, len(tally.degrees[op]) / known[op]) for op in of_ops)
    outputs = sum(len(tally.fan_out[op]) for op in of_ops)
    settings = sum(len(tally.vertices[op]) for op in of_ops)
    return [
        ("OTC", SHARE, len(of_ops) / size, "operator type coverage"),
        ("IDC", SHARE, inputs / size, "input degree coverage, mean over operators"),
        ("ODC", MEAN, outputs / size, "output degrees, mean over operators"),
        ("SEC", SHARE, len(tally.pairs) / size**2, "single edge coverage"),
        ("DEC", SHARE, len(tally.chains) / size**3, "double edge coverage"),
        ("SPC", MEAN, settings / size, "shapes and attributes, mean over operators"),
        ("NOO", MEAN, tally.nodes / graphs, "operators of a model"),
        ("NOT", MEAN, tally.types / graphs, "operator types of a model"),
        ("NOP", MEAN, tally.edges / graphs, "pairs of operators of a model"),
        ("NTR", MEAN, tally.triples / graphs, "triples of operators of a model"),
        ("NSA", MEAN, tally.settings / graphs, "shapes and attributes of a model"),
    ]


def _gencog(tally: Tally) -> list[Figure]:
    vertices = sum(map(len, tally.vertices.values()))
    every = "different vertices, of all nodes"
    return [
        ("vertices", COUNT, vertices, "operators with attributes and input types"),
        ("vertex diversity", SHARE, vertices / max(tally.nodes, 1), every),
    ]


def _hirgen(tally: Tally) -> list[Figure]:
    dtypes, shapes = (sum(map(len, own.values())) for own in (tally.dtypes, tally.shapes))
    return [
        ("operator-dtype", COUNT, dtypes, "operators with input dtypes"),
        ("operator-shape", COUNT, shapes, "operators with input shapes"),
        ("operator-edge", COUNT, len(tally.pairs), "pairs of operators"),
    ]


def _attributes(tally: Tally) -> list[Figure]:
    shares = [boundary_share(counts) for counts in tally.attributes.values()]
    numeric = [share for share in shares if share is not None]
    between = sum(numeric) / len(numeric) if numeric else 0.0
    values = sum(map(len, tally.attributes.values()))
    return [
        ("attributes", COUNT, len(tally.attributes), "attributes of operators that are set"),
        ("attribute values", COUNT, values, "classes of their values"),
        ("boundary values", SHARE, between, "values that are 0 or 1, mean over numeric attributes"),
    ]


def boundary_share(counts: Mapping[str, int]) -> float | None:
    """The share of an attribute's values at a boundary; None if they are no numbers."""
    numbers = {value: count for value, count in counts.items() if _numeric(value)}
    total = sum(numbers.values())
    return sum(numbers.get(value, 0) for value in BOUNDARY) / total if total else None


def histograms(tally: Tally) -> list[dict[str, object]]:
    """For each attribute the nodes by class of value, and the boundary share."""
    return [
        {
            "operator": op,
            "attribute": name,
            "values": dict(Counter(counts).most_common()),
            "boundary": boundary_share(counts),
        }
        for (op, name), counts in sorted(tally.attributes.items())
    ]


def _numeric(value: str) -> bool:
    return value in NUMBERS or value.startswith("[")
