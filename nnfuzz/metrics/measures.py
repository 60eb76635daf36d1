"""Measures of how diverse graphs are, whoever made them; docs/METRICS.md has the sources."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from nnfuzz.base.reading import JsonObject
from nnfuzz.ir.features import Features

USUAL = 5
"""A pair of values is listed as a gap if chance alone would put it in so many nodes."""


class Tally:
    """Counts of the features of graphs.

    only: the operators that count, with their edges and triples; empty for all.
    """

    def __init__(self, only: Collection[str] = ()) -> None:
        self._only = frozenset(only)
        self.graphs = self.nodes = self.edges = self.triples = self.types = self.settings = 0
        """Sums over all graphs. `types` adds up how many different operators each graph has,
        `settings` how many different vertices."""
        self.operators: Counter[str] = Counter()
        self.vertices: dict[str, set[str]] = defaultdict(set)
        self.values: dict[str, Counter[str]] = defaultdict(Counter)
        """Operator -> how many nodes have "NAME=CLASS" among their attributes."""
        self.together: dict[str, set[tuple[str, str]]] = defaultdict(set)
        """Operator -> pairs of these that a node has, sorted."""
        self.pairs: set[tuple[str, str]] = set()
        self.chains: set[tuple[str, str, str]] = set()

    def add(self, graph: Features) -> None:
        """Adds a graph."""
        only = self._only
        kept = {i for i, node in enumerate(graph.nodes) if not only or node.op in only}
        edges = [edge for edge in graph.edges if kept.issuperset(edge)]
        part = Features(graph.nodes, tuple(edges))
        nodes = [node for i, node in enumerate(graph.nodes) if i in kept]
        self.graphs += 1
        self.nodes += len(nodes)
        self.edges += len(edges)
        self.triples += _chains(edges)
        self.types += len({node.op for node in nodes})
        self.settings += len({node.vertex for node in nodes})
        self.pairs |= part.operator_edges()
        self.chains |= part.operator_triples()
        for node in nodes:
            self.operators[node.op] += 1
            self.vertices[node.op].add(node.vertex)
            self.values[node.op].update(node.attributes)
            self.together[node.op].update(combinations(sorted(node.attributes), 2))

    def apart(self) -> Iterator[tuple[float, str, str, str]]:
        """The pairs of values of two attributes that occur, but never in one node. Each comes as
        (number of nodes that would have it by chance, operator, value, value).
        """
        for op, counts in self.values.items():
            for one, two in _of_two_attributes(counts):
                if (one, two) not in self.together[op]:
                    yield counts[one] * counts[two] / self.operators[op], op, one, two


def _of_two_attributes(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The pairs of values of different attributes, sorted."""
    for one, two in combinations(sorted(values), 2):
        if one.partition("=")[0] != two.partition("=")[0]:
            yield one, two


def _chains(edges: Collection[tuple[int, int]]) -> int:
    """The number of pairs of edges in which the second begins where the first ends."""
    begin = Counter(maker for maker, _ in edges)
    return sum(begin[reader] for _, reader in edges)


def of_onnx() -> set[str]:
    """The operators of ONNX's own domain at the newest opset, without deprecated ones.

    Constant is left out, since a weight may be written as one or not.
    """
    import onnx.defs

    schemas = [s for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated]
    return {s.name for s in schemas} - {"Constant"}


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


def measures(tally: Tally, vocabulary: Collection[str]) -> list[Measure]:
    """Three counts, nine measures of Isra's evaluation, and the pairs of values of attributes."""
    size, graphs = max(len(vocabulary), 1), max(tally.graphs, 1)
    of_ops = set(tally.operators) & set(vocabulary)
    pairs = sum(len([*_of_two_attributes(own)]) for own in tally.values.values())
    met = (pairs - len([*tally.apart()])) / max(pairs, 1)
    settings = sum(len(tally.vertices[op]) for op in of_ops)
    return [
        Measure("models", COUNT, tally.graphs, "models that could be read"),
        Measure("operators", COUNT, tally.nodes, "nodes of all models"),
        Measure("operator types", COUNT, len(tally.operators), "different operators"),
        Measure("OTC", SHARE, len(of_ops) / size, "operator type coverage"),
        Measure("SEC", SHARE, len(tally.pairs) / size**2, "single edge coverage"),
        Measure("DEC", SHARE, len(tally.chains) / size**3, "double edge coverage"),
        Measure("PAC", SHARE, met, "coverage of pairs of attributes' values"),
        Measure("SPC", MEAN, settings / size, "shapes and attributes, mean over operators"),
        Measure("NOO", MEAN, tally.nodes / graphs, "operators of a model"),
        Measure("NOT", MEAN, tally.types / graphs, "operator types of a model"),
        Measure("NOP", MEAN, tally.edges / graphs, "pairs of operators of a model"),
        Measure("NTR", MEAN, tally.triples / graphs, "triples of operators of a model"),
        Measure("NSA", MEAN, tally.settings / graphs, "shapes and attributes of a model"),
    ]


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
    vocabulary: Collection[str]

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

    def to_json(self) -> JsonObject:
        return {
            "schema": SCHEMA,
            "vocabulary": len(self.vocabulary),
            "missing_operators": self.missing(),
            "folders": [self._of(one) for one in self.counted],
        }

    def _of(self, one: Counted) -> dict[str, object]:
        return {
            "name": one.name,
            "measures": {m.name: m.value for m in measures(one.tally, self.vocabulary)},
            "operators": dict(one.tally.operators.most_common()),
            "apart": sorted((own for own in one.tally.apart() if own[0] >= USUAL), reverse=True),
            "left_out": dict(one.left_out),
        }
