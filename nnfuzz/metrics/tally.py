"""Counts the features of many graphs of any origin, one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType

from nnfuzz.backend.outcome import parsed_pass
from nnfuzz.ir.features import Features

NO_PASSES: Mapping[str, Collection[str]] = MappingProxyType({})
DEGREES = 5
"""Operators with any number of inputs: more than this many count as this many, as in Isra."""


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
        self.degrees: dict[str, set[int]] = defaultdict(set)
        self.fan_out: dict[str, set[int]] = defaultdict(set)
        """Operator -> how many nodes read an output of one."""
        self.pairs: set[tuple[str, str]] = set()
        self.chains: set[tuple[str, str, str]] = set()
        self.passes: dict[str, Counter[str]] = defaultdict(Counter)
        """Compiler -> pass -> graphs that it changed."""

    def add(self, graph: Features, passes: Mapping[str, Collection[str]] = NO_PASSES) -> None:
        """Adds a graph. passes: by compiler, those that changed the graph, as it wrote them."""
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
        readers = Counter(maker for maker, _ in graph.edges)
        for place in kept:
            node = graph.nodes[place]
            self.operators[node.op] += 1
            self.vertices[node.op].add(node.vertex)
            self.degrees[node.op].add(min(node.degree, DEGREES))
            self.fan_out[node.op].add(readers[place])
        for compiler, written in passes.items():
            self.passes[compiler].update({parsed_pass(one)[0] for one in written})


def _chains(edges: Collection[tuple[int, int]]) -> int:
    """The number of pairs of edges in which the second begins where the first ends."""
    begin = Counter(maker for maker, _ in edges)
    return sum(begin[reader] for _, reader in edges)
