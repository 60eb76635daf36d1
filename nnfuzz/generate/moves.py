"""How a graph grows: one operator after another, before placeholders or after values.

It follows NNSmith's Algorithm 1: every step picks an operator and tries to insert it, before a
placeholder (backward) or after existing values (forward). The moves are the same for every
constraint store (nnfuzz.solve.store).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nnfuzz.generate.catalog import Catalog, OpSignature, weighted
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.large import large_tensor
from nnfuzz.generate.motifs import (
    EXACT,
    SPARE,
    MissingOperator,
    NearMiss,
    drawn_miss,
    plant,
    read_last,
)
from nnfuzz.generate.novelty import REJECTED, Vertex, rejects, vertex
from nnfuzz.generate.turns import CoverageTarget, MotifTurn
from nnfuzz.generate.values import FREE, INDEX, Placeholder, Plan, placeholders
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import Motif, planted_name
from nnfuzz.operators.operator import In, OpSpec, dtypes_of
from nnfuzz.solve.store import ConstraintStore

EXTRA_OUTPUT, SMALL = 0.05, 10
"""Probability that a value with readers is an output, too. It is reduced in graphs of more than
SMALL nodes, so that not every large graph has such an output."""
PARAMETERS = 0.3
"""Probability that the parameters of a node (`In.weight`) that are still undecided are weights."""
ATTEMPTS_PER_OPERATOR = 3
"""Tried insertions of a picked operator before another one is picked."""
ATTEMPTS_PER_NODE = 200
"""Operators picked for one node before the graph is left as it is."""
PICKY_ATTEMPTS = 15
"""Picks at which common vertices may be rejected; later ones accept any, lest none be left."""
ATTEMPTS_PER_COVERAGE_TARGET = 10
ATTEMPTS_PER_MOTIF = 8
CLOSED = 0.6
"""Probability that later nodes read only the results of a skeleton, as in most deployed models."""
AROUND = 5
"""Most nodes around a skeleton, if a graph has room for as many."""
BEHIND = 0.6
"""Probability that a motif that can create its first value first tries an existing value."""
FRESH_STARTS = 3
"""New values that are tried as the first value of a motif."""
START_RANKS = (4, 2, 3, 4, 1, 3, 2, 5, 4, 0)
"""Ranks of the first value, by frequency; those of images and matrices are the most frequent."""
ANY_RANK = (0, 99)
PARTNERS = 12
"""Most existing values that are tried as a further input."""


class GraphGrower:
    """Grows one graph.

    attempts: number of tried insertions. planted: names of the inserted motifs, as in Generated.
    turns: motifs tried in place of the first random motif, until one fits.
    """

    def __init__(
        self,
        catalog: Catalog,
        config: GenerateConfig,
        store: ConstraintStore,
        turns: Sequence[MotifTurn] = (),
    ) -> None:
        self.catalog = catalog
        self.config = config
        self.draw = store.draws[-1]
        self.growth = Growth(store, config)
        self.planted: list[str] = []
        self.goal = config.nodes
        self._turns = turns
        self._picky = True
        self._unwritable: set[str] = set()
        """Motifs with an operator that the catalog lacks."""
        self._rejected: tuple[dict[Vertex, bool], dict[Vertex, bool]] = {}, {}
        """Decisions to reject vertices: for those new to the graph, and for repeated ones."""

    def adopt(self, start: Graph) -> None:
        """Begin with a concrete graph, and grow around it."""
        self.growth.adopt(start)
        self.goal += len(start.nodes)

    def grow_from(self, start: Graph | None, target: CoverageTarget | None) -> None:
        """Begin with the graph `start`, or with the target's operator, if either is given."""
        if start:
            self.adopt(start)
        elif target:
            self.begin(target)
        self.grow()

    def begin(self, coverage_target: CoverageTarget) -> None:
        """Insert the first operator; a few targets have no instance within the limits."""
        for attempt in range(ATTEMPTS_PER_COVERAGE_TARGET):
            signature = weighted(self.draw, coverage_target.signatures)
            if self._begin(coverage_target.spec, signature, coverage_target.rank, attempt):
                return

    def grow(self) -> None:
        """Insert operators until the graph has as many as configured."""
        places = self._places()
        if self.config.sizes.least_first and not self.growth.graph.nodes:
            # Before any motif, since the first value of a motif is not large.
            any(self._start(self.catalog.pick(self.draw)) for _ in range(ATTEMPTS_PER_NODE))
        while len(self.growth.graph.nodes) < self.goal:
            if places and places[0] <= len(self.growth.graph.nodes):
                places.pop(0)
                if self.plant():
                    continue
            for attempt in range(ATTEMPTS_PER_NODE):
                self._picky = attempt < PICKY_ATTEMPTS
                if self._place(self.catalog.pick(self.draw)):
                    break
            else:
                return

    def finish(self, like: Graph | None = None) -> Graph:
        """The finished graph: placeholders become inputs or weights, values without reader outputs.

        At least one placeholder becomes an input. A value with readers is also an output with a
        small probability, which prevents its fusion. like: an earlier graph, whose inputs and
        weights remain so.
        """
        growth, draw, graph = self.growth, self.draw, self.growth.graph
        inputs = set(like.inputs) if like else set()
        nodes = graph.nodes
        reader = {name: i for i in reversed(range(len(nodes))) for name in nodes[i].inputs}
        constant: dict[int, bool] = {}
        """Per node, by position: whether its parameters are weights, all of them or none."""
        for name, placeholder in growth.placeholders.items():
            if name not in reader:  # a near miss removed its reader
                del graph.values[name]
                continue
            if like and name in like.values:
                (graph.inputs if name in inputs else graph.weights).append(name)
                if name in like.prescribed:
                    graph.prescribed[name] = like.prescribed[name]
                continue
            if placeholder.range is not None:
                graph.weights.append(name)
                graph.prescribed[name] = placeholder.range
                continue
            if placeholder.constant or placeholder.given:
                weight = placeholder.constant
            elif placeholder.weight:
                if reader[name] not in constant:
                    constant[reader[name]] = draw.chance(PARAMETERS)
                weight = constant[reader[name]]
            else:
                weight = draw.chance(self.config.weights)
            (graph.weights if weight else graph.inputs).append(name)
        if not graph.inputs:
            free = [name for name in graph.weights if name not in graph.prescribed]
            open_ = [
                n for n in free if n in growth.placeholders and not growth.placeholders[n].constant
            ]
            promoted = draw.choice(open_ or free)
            graph.weights.remove(promoted)
            graph.inputs.append(promoted)
        extra = EXTRA_OUTPUT * min(1.0, SMALL / len(graph.nodes))
        graph.outputs = [
            name
            for node in graph.nodes
            for name in node.outputs
            if name in growth.loose
            or name in growth.exposed
            or (name not in growth.inner and draw.chance(extra))
        ]
        return graph

    def _place(self, spec: type[OpSpec]) -> bool:
        if not self.growth.graph.nodes:
            return self._start(spec)
        ways = {True: self._backward, False: self._forward}
        for attempt in range(ATTEMPTS_PER_OPERATOR):
            backward = self.draw.chance(self.config.backward)
            last = attempt == ATTEMPTS_PER_OPERATOR - 1
            for direction in (backward, not backward):
                done = ways[direction](spec, attempt) if direction in ways else None
                if done:
                    return True
                if done is None:
                    ways.pop(direction, None)
                elif self.growth.store.immediate and not (direction or last):
                    break  # the next attempt is cheaper than the other direction
            if not ways:
                break
        return False

    def _start(self, spec: type[OpSpec]) -> bool:
        signature = self.catalog.pick_signature(self.draw, spec)
        lo, hi = spec.inputs[0].ranks
        rank = min(max(self.draw.choice(START_RANKS), lo), hi)
        return any(self._begin(spec, signature, rank, i, True) for i in range(self._draws))

    def _begin(
        self,
        spec: type[OpSpec],
        signature: OpSignature,
        rank: int,
        attempt: int = 0,
        novel: bool = False,
    ) -> bool:
        """Insert a node that reads only placeholders. novel: whether to reject common vertices."""
        draw = self._dice(attempt)
        large = self.config.sizes.least_first > 0
        first = (large_tensor if large else Draw.tensor)(draw, signature.first, rank)
        if first is None:
            return False
        op = spec.draw(draw, first)
        dtypes = dtypes_of(spec, self._arity(spec), signature.binding)
        signature.settle(op)
        types = op.complete(draw, first, dtypes)
        if novel and self._repeats(op, types, signature):
            return False
        plan: Plan = [*placeholders(draw, spec.patterns(len(types)))]
        return self.growth.insert(op, plan, types, smt=True)

    @property
    def _draws(self) -> int:
        return len(self.growth.store.draws)

    def _dice(self, attempt: int) -> Draw:
        return self.growth.store.draws[: attempt + 1][-1]

    def _arity(self, spec: type[OpSpec]) -> int:
        lo, hi = spec.arity()
        return lo if lo == hi else self.draw.integer(lo, hi)

    # -- motifs -------------------------------------------------------------------------------

    def _places(self) -> list[int]:
        """Sizes of the graph at which a motif is to be inserted, in ascending order."""
        average = self.config.motifs if self.catalog.motifs else 0.0
        if not average:
            return []
        count = int(average) + self.draw.chance(average % 1)
        count = max(count, any(turn.motif.skeleton for turn in self._turns))
        # Every motif fits an empty graph; backward insertion puts nodes before it.
        largest = max((turn.motif.size + SPARE for turn in self._turns), default=0)
        most = max(0, min(self.config.nodes // 2, self.config.nodes - largest))
        return sorted(self.draw.integer(0, self.draw.integer(0, most)) for _ in range(count))

    def plant(self) -> bool:
        """Insert a motif that fits after some value. Returns whether one was inserted."""
        turns, self._turns = self._turns, ()
        return any(map(self._plant_turn, turns)) or self._plant_any()

    def _plant_turn(self, turn: MotifTurn) -> bool:
        """Insert the motif of a turn; returns whether it succeeded."""
        for near in turn.ways(self.draw):
            if turn.motif.name in self._unwritable:
                return False
            if self._planted(turn.motif, near):
                if turn.motif.skeleton:
                    if self.draw.chance(CLOSED):
                        self.growth.close()
                    self.goal = len(self.growth.graph.nodes) + min(AROUND, self.config.nodes)
                return True
        return False

    def _plant_any(self) -> bool:
        motifs = self.catalog.motifs_up_to(self.goal - len(self.growth.graph.nodes))
        for _ in range(ATTEMPTS_PER_MOTIF):
            if motifs is None:
                return False
            motif = motifs.pick(self.draw)
            missing = self.draw.chance(self.config.missed)
            near = drawn_miss(self.draw, motif, self.config.focus) if missing else EXACT
            if self._may_start(motif) and self._planted(motif, near):
                return True
        return False

    def _may_start(self, motif: Motif) -> bool:
        """Whether the motif's operators exist, and a value from which it can start."""
        if motif.name in self._unwritable:
            return False
        if motif.begin or not self.growth.graph.nodes:
            return True
        return bool(self.growth.named.read(motif.dtypes, *motif.ranks))

    def _planted(self, motif: Motif, near: NearMiss) -> bool:
        """Insert a motif at one of its possible starts; if none fits, nothing changes."""
        mark = self.growth.mark()
        for start_of in self._starts(motif)[: 1 if near.needed else None]:
            try:
                start = start_of(motif)
                missed = start and plant(motif, self.catalog, self.growth, start, near, self.goal)
            except MissingOperator:
                self._unwritable.add(motif.name)
                missed = None
            if missed or (missed is not None and not near.needed):
                if not missed:
                    read_last(self.catalog, self.growth)
                self.planted.append(planted_name(motif.name, missed))
                return True
            self.growth.restore(mark)
            if motif.name in self._unwritable:
                break
        return False

    def _starts(self, motif: Motif) -> Sequence[Callable[[Motif], str | None]]:
        """Functions that return a first value for a motif, in the order in which they are tried."""
        if motif.begin is None:
            return (self._start_of,)
        fresh = (self._fresh_start,) * FRESH_STARTS
        behind = self.growth.graph.nodes and not motif.skeleton and self.draw.chance(BEHIND)
        return (self._start_of, *fresh) if behind else fresh

    def _fresh_start(self, motif: Motif) -> str | None:
        """A new value that the motif creates as its first one; None if that fails."""
        weights = {dtype: self.config.dtype_weight(dtype) or 0.0 for dtype in motif.dtypes}
        type_ = motif.begin(self.draw, weights) if motif.begin else None
        if type_ is None:
            return None
        # Integers are the positions that a skeleton looks up in an embedding.
        positions = motif.skeleton and type_.dtype.is_int
        start = replace(INDEX if positions else FREE, given=motif.skeleton)
        return self.growth.place(type_, start)

    def _start_of(self, motif: Motif) -> str | None:
        """An existing value from which a motif can start (in an empty graph a new one), or None."""
        growth, draw = self.growth, self.draw
        lo, hi = motif.ranks
        if not growth.graph.nodes:
            rank = min(max(draw.choice(START_RANKS), lo), hi)
            weights = [self.config.dtype_weight(d) or 0.0 for d in motif.dtypes]
            if not any(weights):
                return None
            dtype = draw.rng.choices(motif.dtypes, weights)[0]
            # Smaller sizes, which a tensor with one more axis may have, too.
            dims = (self._dice(0).dim(rank + 1) for _ in range(rank))
            return growth.place(TensorType(dtype, tuple(dims)))
        kinds = [kind for kind in growth.named.kinds(lo, hi) if kind[0] in motif.dtypes]
        loose = draw.chance(self.config.chain)
        return (growth.loose.pick(draw, kinds) if loose else None) or growth.named.pick(draw, kinds)

    # -- forward ------------------------------------------------------------------------------

    def _forward(self, spec: type[OpSpec], attempt: int = 0) -> bool | None:
        """Insert the operator after existing values. False if that fails, None if none can be
        read."""
        growth, draw = self.growth, self._dice(attempt)
        there = growth.named.read(self.catalog.reads(spec), *spec.inputs[0].ranks)
        if not there:
            return None
        signature = self.catalog.pick_reading(draw, spec, list(there))
        kinds = there[signature.first]
        loose = draw.chance(self.config.chain)
        name = (growth.loose.pick(draw, kinds) if loose else None) or growth.named.pick(draw, kinds)
        assert name is not None, "there is a value of every kind"
        first = growth.graph.type(name)
        op = spec.draw(draw, first)
        signature.settle(op)
        if spec.arity()[1] == 1:
            if self._repeats(op, [first], signature):
                return False
            return growth.insert(op, [name], [first], smt=draw.chance(self.config.smt))
        dtypes = dtypes_of(spec, self._arity(spec), signature.binding)
        types = [first, *op.complete(draw, first, dtypes)[1:]]
        patterns = spec.patterns(len(types))
        fresh: Plan = [name, *placeholders(draw, patterns[1:])]
        reused, reused_types = self._reuse(patterns, fresh, types)
        smt = draw.chance(self.config.smt)
        if self._repeats(op, reused_types, signature):
            return False
        if reused != fresh and growth.insert(op, reused, reused_types, smt):
            return True
        if reused != fresh and self._repeats(op, types, signature):
            return False
        return growth.insert(op, fresh, types, smt=draw.chance(self.config.smt))

    def _repeats(self, op: OpSpec, types: list[TensorType], signature: OpSignature) -> bool:
        """Whether to reject a vertex because the graph has it, or many graphs do.

        The decision is made once per graph and vertex.
        """
        if not self._picky:
            return False
        key = vertex(op, types)
        again = key in self.growth.vertices
        rejected = self._rejected[again]
        if key not in rejected:
            rejected[key] = (again and self.draw.chance(REJECTED)) or (
                rejects(self.draw, op, types, self.catalog.bits(op, signature))
            )
        return rejected[key]

    def _reuse(
        self, patterns: tuple[In, ...], plan: Plan, types: list[TensorType]
    ) -> tuple[Plan, list[TensorType]]:
        """The plan with some placeholders replaced by existing values that seem compatible."""
        plan, types = list(plan), list(types)
        for i, pattern in enumerate(patterns):
            reuse = 0.1 if pattern.weight else self.config.reuse  # computed weights are rare
            source = plan[i]
            open_ = isinstance(source, Placeholder) and not source.closed
            if i == 0 or not open_ or not self.draw.chance(reuse):
                continue
            name = self._partner(types[i])
            if name is not None:
                plan[i] = name
                types[i] = self.growth.graph.type(name)
        return plan, types

    def _partner(self, wanted: TensorType) -> str | None:
        """An existing value of the given type, or at least of its dtype and rank; None if none."""
        names = self.growth.named.of((wanted.dtype, wanted.rank))
        if not names:
            return None
        if len(names) > PARTNERS:
            names = self.draw.rng.sample(names, PARTNERS)
        types = self.growth.graph.values
        matching = [n for n in names if self._matches(types[n].type, wanted)]
        pool = matching or (names if self.draw.chance(self.config.smt) else [])
        return self.draw.choice(pool) if pool else None

    def _matches(self, have: TensorType, wanted: TensorType) -> bool:
        known = self.growth.store.known
        for a, b in zip(have.shape, wanted.shape):
            if a is not b:
                value = known(b)
                if value is not None and value != known(a):
                    return False
        return True

    # -- backward -----------------------------------------------------------------------------

    def _backward(self, spec: type[OpSpec], attempt: int = 0) -> bool | None:
        """Insert the operator before a placeholder. False if that fails, None if none can be its
        output."""
        growth, draw = self.growth, self._dice(2 * attempt)
        outputs = self.catalog.outputs(spec)
        lo, hi = spec.inputs[0].ranks
        same_rank = spec.input_rank.__func__ is OpSpec.input_rank.__func__  # type: ignore[attr-defined]
        there = growth.free.read(outputs, *((lo, hi) if same_rank else ANY_RANK))
        if not there:
            return None
        target = growth.free.pick(draw, [kind for kinds in there.values() for kind in kinds])
        assert target is not None, "there is a placeholder of every kind"
        wanted = growth.graph.type(target)
        signature = self.catalog.pick_computing(draw, spec, wanted.dtype)
        rank = spec.input_rank(draw, wanted.rank)
        if signature is None or rank is None or not lo <= rank <= hi:
            return False
        first = draw.tensor(signature.first, rank)
        op = spec.draw_backward(draw, first, wanted)
        signature.settle(op)
        dtypes = dtypes_of(spec, self._arity(spec), signature.binding)
        types = op.infer_input_types(draw, first, dtypes, wanted)
        if self._repeats(op, types, signature):
            return False
        return growth.precede(op, types, target, smt=draw.chance(self.config.smt))
