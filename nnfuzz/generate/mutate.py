"""The mutating engine: it changes one or two places of an earlier graph and keeps the rest.

Only values that depend on a change are computed again, and inputs are kept if they remain valid. A
change inserts a node, replaces a node's operator or attributes, removes a node, or turns a computed
value into an input.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Direct, Generated, Kept
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.generate.turns import CoverageTarget, MotifTurn
from nnfuzz.ir.graph import Graph, Node, Value, pruned
from nnfuzz.ir.support_key import is_avoided
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec
from nnfuzz.solve.store import DecidedStore, EagerDraw

TWICE = 0.3
"""Probability of a second change."""
TRIES = 12
"""Changes that are tried until one fits."""
AGAIN = 3
"""Further rounds of tries if nothing was changed."""
SIBLINGS = 6
"""Operators that are tried as a replacement of one."""


@dataclass(frozen=True)
class Mutate:
    """An engine that changes a graph of the corpus; without a corpus, the direct engine is used."""

    catalog: Catalog
    config: GenerateConfig

    def next(
        self,
        rng: random.Random,
        corpus: Sequence[Kept] = (),
        target: CoverageTarget | None = None,
        turns: Sequence[MotifTurn] = (),
    ) -> Generated:
        if not corpus:
            return Direct(self.catalog, self.config).next(rng, (), target, turns)
        kept = rng.choice(corpus)
        change = _Change(self.catalog, self.config, kept.graph, rng)
        for _ in range(1 + (rng.random() < TWICE)):
            change.once()
        for _ in range(AGAIN):
            if change.nothing():
                change.once()
        known = {n: v for n, v in kept.values.items() if n in change.unaffected()}
        return Generated(change.graph, kept.motifs, known=known)


class _Change:
    """Applies changes to a graph. graph: the present state, always valid."""

    def __init__(
        self, catalog: Catalog, config: GenerateConfig, graph: Graph, rng: random.Random
    ) -> None:
        self.catalog, self.config, self.rng = catalog, config, rng
        self.draw: Draw = EagerDraw(rng, config.sizes)
        self.graph = self.start = graph

    def once(self) -> None:
        """Apply one change; nothing happens if none that is tried fits."""
        ways: Sequence[Callable[[], Graph | None]] = (
            self._inserted,
            self._with_attributes,
            self._with_sibling,
            self._bypassed,
            self._cut,
        )
        for _ in range(TRIES):
            found = self.draw.choice(ways)()
            if found is not None and not is_avoided(found.view(), self.config.avoid):
                self.graph = found
                return

    def nothing(self) -> bool:
        """Whether the graph is unchanged: no change fitted, or the second one undid the first."""
        return set(map(id, self.start.nodes)) == set(map(id, self.graph.nodes))

    def unaffected(self) -> set[str]:
        """Names of values that are unchanged, and whose operands are unchanged too."""
        before = {node.outputs[0]: node for node in self.start.nodes}
        old, new = self.start, self.graph
        changed = {n for n in new.values if not _same_type(old, new, n)}
        for node in new.nodes:
            was = before.get(node.outputs[0])
            if was is None or was.op is not node.op or changed.intersection(node.inputs):
                patterns = node.op.patterns(len(node.inputs))  # indices have other limits now
                changed.update(n for n, p in zip(node.inputs, patterns) if p.fresh)
        for node in new.nodes:
            was = before.get(node.outputs[0])
            same = was is not None and was.op is node.op and was.inputs == node.inputs
            if not same or changed.intersection(node.inputs):
                changed.update(node.outputs)
        return set(new.values) - changed

    # -- the changes --------------------------------------------------------------------------

    def _inserted(self) -> Graph | None:
        """The graph with one node inserted, before a placeholder or after a value."""
        config = replace(self.config, nodes=1, motifs=0.0)
        moves = GraphGrower(self.catalog, config, DecidedStore(self.rng, config.sizes))
        moves.adopt(self.graph)
        moves.grow()
        return moves.finish(self.graph) if len(moves.growth.graph.nodes) == moves.goal else None

    def _with_attributes(self) -> Graph | None:
        """The graph with other attributes for one node; types of dependent values may change."""
        at = self._any()
        node = self.graph.nodes[at]
        if not node.op.declared:
            return None
        types = self.graph.types(node.inputs)
        op = type(node.op).draw(self.draw, *types)
        if op.output_dtype(*types) is not self.graph.type(node.outputs[0]).dtype:
            return None
        return self._replaced(at, op)

    def _with_sibling(self) -> Graph | None:
        """The graph with one node's operator replaced by one with the same output types."""
        at = self._any()
        node = self.graph.nodes[at]
        types, wanted = self.graph.types(node.inputs), self.graph.types(node.outputs)
        if any(p.fresh for p in node.op.patterns(len(types))):
            return None
        for _ in range(SIBLINGS):
            spec = self.catalog.pick(self.draw)
            op = self._fitting(spec, types)
            if op is not None and type(op) is not type(node.op):
                found = op.type_transfer(*types)
                if len(found) == len(wanted) and all(a.same(b) for a, b in zip(found, wanted)):
                    return self._replaced(at, op)
        return None

    def _bypassed(self) -> Graph | None:
        """The graph without one node; its readers read one of its inputs, of the same type."""
        at = self._any()
        node = self.graph.nodes[at]
        (output, *more), wanted = node.outputs, self.graph.type(node.outputs[0])
        sources = [n for n in node.inputs if self.graph.type(n).same(wanted)]
        computed = {name for other in self.graph.nodes for name in other.outputs}
        sources = [n for n in sources if n in computed or output not in self.graph.outputs]
        if more or not sources or len(self.graph.nodes) < 2:
            return None
        source = self.draw.choice(sources)
        nodes = [
            Node(n.op, tuple(source if i == output else i for i in n.inputs), n.outputs)
            for n in self.graph.nodes
            if n is not node
        ]
        outputs = [source if name == output else name for name in self.graph.outputs]
        return self._pruned(nodes, self.graph.inputs, outputs)

    def _cut(self) -> Graph | None:
        """The graph with a computed value turned into an input; unneeded nodes are removed."""
        at = self._any()
        (output, *more) = self.graph.nodes[at].outputs
        if more or output in self.graph.outputs or not at:
            return None
        nodes = [node for i, node in enumerate(self.graph.nodes) if i != at]
        return self._pruned(nodes, [*self.graph.inputs, output], self.graph.outputs)

    # -- what they have in common -------------------------------------------------------------

    def _any(self) -> int:
        return self.draw.integer(0, len(self.graph.nodes) - 1)

    def _fitting(self, spec: type[OpSpec], types: Sequence[TensorType]) -> OpSpec | None:
        """An instance of the operator for inputs of these types; None if there is none."""
        lo, hi = spec.arity()
        patterns = spec.patterns(len(types))
        if not lo <= len(types) <= hi or any(p.fresh for p in patterns):
            return None
        binding = {p.var: t.dtype for p, t in zip(reversed(patterns), reversed(types))}
        if any(binding[p.var] is not t.dtype for p, t in zip(patterns, types)):
            return None
        if not all(p.ranked(t.rank) for p, t in zip(patterns, types)):
            return None
        if not any(s.binding.items() >= binding.items() for s in self.catalog.signatures[spec]):
            return None
        op = spec.draw(self.draw, *types)
        if any(c is False for c in op.requires(*types)):
            return None
        return op if self.catalog.admits(spec, binding, op.output_dtype(*types)) else None

    def _replaced(self, at: int, op: OpSpec) -> Graph | None:
        """The graph with a node's operator replaced, and dependent types inferred again."""
        old = self.graph
        values, nodes = dict(old.values), list(old.nodes)
        nodes[at] = Node(op, nodes[at].inputs, nodes[at].outputs)
        renewed: set[str] = set()
        for place, node in enumerate(nodes):
            if place != at and renewed.isdisjoint(node.inputs):
                continue
            types = [values[name].type for name in node.inputs]
            found = self._inferred(node.op, types)
            wanted = [values[name].type for name in node.outputs]
            if found is None or len(found) != len(wanted):
                return None
            for name, type_, was in zip(node.outputs, found, wanted):
                if not type_.same(was):
                    if type_.dtype is not was.dtype:
                        return None
                    values[name] = Value(name, type_)
                    renewed.add(name)
        return replace(old, values=values, nodes=nodes)

    def _inferred(self, op: OpSpec, types: Sequence[TensorType]) -> list[TensorType] | None:
        """The output types; None if the operator does not admit the inputs or costs too much."""
        patterns, sizes = op.patterns(len(types)), self.config.sizes
        if not all(p.ranked(t.rank) for p, t in zip(patterns, types)):
            return None
        if any(c is False for c in op.requires(*types)):
            return None
        if op.refusal(self.config.exporter, self.config.opset, *types):
            return None
        found = op.type_transfer(*types)
        dims = ((d, sizes.dim(t.rank)) for t in found for d in t.shape)
        if not all(1 <= d <= top for d, top in dims):
            return None
        small = all(t.elements <= sizes.max_numel for t in found)
        return found if small and op.cost(*types) <= sizes.max_flops else None

    def _pruned(
        self, nodes: Iterable[Node], inputs: Sequence[str], outputs: Iterable[str]
    ) -> Graph | None:
        """The part of the graph that the outputs need; None if it has no nodes or no inputs."""
        old = self.graph
        found = pruned(old.values, nodes, inputs, old.weights, outputs)
        if not found.nodes or not found.inputs:
            return None
        found.prescribed = {n: r for n, r in old.prescribed.items() if n in found.values}
        return found


def _same_type(old: Graph, new: Graph, name: str) -> bool:
    was = old.values.get(name)
    return was is not None and was.type.same(new.type(name))
