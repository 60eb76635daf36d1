"""The symbolic engine: insertion over whole-graph integer constraints (NNSmith, Algorithm 1).

Every step picks an operator and tries to attach it, in front of a placeholder (backward) or behind
existing values (forward). Dimensions and attributes stay symbolic until the graph stands; then
attribute binning moves them away from the values solvers like (Algorithm 2).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from nnfuzz.generate.catalog import Catalog, OpSignature, weighted
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.coverage_target import CoverageTarget
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.motifs import MissingOperator, plant
from nnfuzz.generate.placeholder import Placeholder, Plan
from nnfuzz.generate.resizing import Resizable
from nnfuzz.generate.splice import splice
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Bool, Expr, Var, and_
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.solve.session import Session
from nnfuzz.spec.draw import Draw
from nnfuzz.spec.motif import Motif
from nnfuzz.spec.operator import In, OpSpec, dtypes_of

BINNING_SEARCHES = 2
"""Draws of bins that propagation tries, in milliseconds each, before Z3 is asked."""
EXTRA_OUTPUT = 0.05
"""Probability that a value with readers is an output too."""
ATTEMPTS_PER_OPERATOR = 3
"""Insertions tried of a picked operator before another one is picked."""
ATTEMPTS_PER_NODE = 40
"""Operators picked for one node before the graph stays as small as it is."""
ATTEMPTS_PER_COVERAGE_TARGET = 10
ATTEMPTS_PER_MOTIF = 8
START_RANKS = (4, 2, 3, 4, 1, 3, 2, 5, 4, 0)
"""Ranks of the first value, by frequency: those of images and matrices are the most frequent."""


@dataclass(frozen=True)
class Generated:
    """A concrete graph, and what it took to make it.

    motifs: names of those in it; with "~" behind it where a motif was mutated in one place.
    resizable: the graph before it became concrete, unless it began with another one.
    """

    graph: Graph
    solver_checks: int
    attempts: int
    motifs: tuple[str, ...] = ()
    resizable: Resizable | None = None


def generate(
    catalog: Catalog,
    config: GenerateConfig,
    rng: random.Random,
    start: Graph | None = None,
    coverage_target: CoverageTarget | None = None,
) -> Generated:
    """A random graph of `config.nodes` operators, concrete and verified by construction.

    start: a concrete graph that the operators are added to, around and inside. coverage_target:
    what to begin with where there is none. The same arguments and state of `rng` give the same
    graph.
    """
    draw = Draw(rng, config.sizes)
    with Session(draw, config.solver_budget, config.resources) as session:
        engine = _Engine(catalog, config, draw, session)
        if start:
            engine.adopt(start)
        elif coverage_target:
            engine.begin(coverage_target)
        engine.grow()
        rebin(engine.growth, config.bins)
        graph = _finish(engine.growth)
        resizable = None
        if start:
            splice(graph, start.values, draw)
        else:
            resizable = Resizable(
                engine.growth.graph, session.constraints, session.env, config.sizes
            )
        planted = tuple(engine.planted)
        return Generated(graph, session.checks, engine.attempts, planted, resizable)


class _Engine:
    def __init__(
        self, catalog: Catalog, config: GenerateConfig, draw: Draw, session: Session
    ) -> None:
        self.catalog = catalog
        self.config = config
        self.draw = draw
        self.growth = Growth(draw, session, config)
        self.attempts = 0
        self.planted: list[str] = []
        self.goal = config.nodes

    def adopt(self, start: Graph) -> None:
        self.growth.adopt(start)
        self.goal += len(start.nodes)

    def begin(self, coverage_target: CoverageTarget) -> None:
        """Place the first operator; a few targets have no instance within the limits."""
        for _ in range(ATTEMPTS_PER_COVERAGE_TARGET):
            signature = weighted(self.draw, list(coverage_target.signatures))
            if self._begin(coverage_target.spec, signature, coverage_target.rank):
                return

    def grow(self) -> None:
        places = self._places()
        while len(self.growth.graph.nodes) < self.goal:
            if places and places[0] <= len(self.growth.graph.nodes):
                places.pop(0)
                if self._plant():
                    continue
            for _ in range(ATTEMPTS_PER_NODE):
                if self._place(self.catalog.pick(self.draw)):
                    break
            else:
                return

    def _place(self, spec: type[OpSpec]) -> bool:
        if not self.growth.graph.nodes:
            return self._start(spec)
        moves = [self._backward, self._forward]
        for _ in range(ATTEMPTS_PER_OPERATOR):
            self.attempts += 1
            backward_first = self.draw.chance(self.config.backward)
            if any(move(spec) for move in (moves if backward_first else reversed(moves))):
                return True
        return False

    def _start(self, spec: type[OpSpec]) -> bool:
        signature = self.catalog.pick_signature(self.draw, spec)
        if signature is None:
            return False
        lo, hi = spec.inputs[0].ranks
        return self._begin(spec, signature, min(max(self.draw.choice(START_RANKS), lo), hi))

    def _begin(self, spec: type[OpSpec], signature: OpSignature, rank: int) -> bool:
        first = self.draw.tensor(signature.first, rank)
        op = spec.draw(self.draw, first)
        dtypes = dtypes_of(spec, self._arity(spec), signature.binding)
        _fix_output(op, signature.output)
        types = op.complete(self.draw, first, dtypes)
        plan: Plan = [_placeholder(p) for p in spec.patterns(len(types))]
        return self.growth.insert(op, plan, types, smt=True)

    def _arity(self, spec: type[OpSpec]) -> int:
        return self.draw.integer(*spec.arity())

    # -- motifs -------------------------------------------------------------------------------

    def _places(self) -> list[int]:
        """Sizes of the graph at which to plant a motif, in order."""
        average = self.config.motifs if self.catalog.motifs else 0.0
        if not average:
            return []
        count = int(average) + self.draw.chance(average % 1)
        # Every motif fits an empty graph; nodes in front of it come by backward insertion.
        most = self.config.nodes // 2
        return sorted(self.draw.integer(0, self.draw.integer(0, most)) for _ in range(count))

    def _plant(self) -> bool:
        """Plant one of the motifs that fit behind one of the values, or change nothing."""
        room = self.goal - len(self.growth.graph.nodes)
        options = [m for m in self.catalog.motifs if m.size <= room]
        for _ in range(ATTEMPTS_PER_MOTIF):
            motif = weighted(self.draw, options) if options else None
            if motif is None:
                return False
            mark = self.growth.mark()
            try:
                start = self._start_of(motif)
                mutate_from = self.draw.chance(self.config.mutated) * self.draw.integer(
                    1, motif.size
                )
                mutated = (
                    plant(motif, self.catalog, self.growth, start, mutate_from) if start else None
                )
            except MissingOperator:
                mutated = None
                options = [m for m in options if m is not motif]
            if mutated is not None:
                self.planted.append(motif.name + "~" * mutated)
                return True
            self.growth.restore(mark)
        return False

    def _start_of(self, motif: Motif) -> str | None:
        """The value that a motif starts from: a placeholder in an empty graph. None: none fits."""
        growth, draw = self.growth, self.draw
        if not growth.graph.nodes:
            lo, hi = motif.ranks
            rank = min(max(draw.choice(START_RANKS), lo), hi)
            weights = [self.config.dtype_weight(d) or 0.0 for d in motif.dtypes]
            if not any(weights):
                return None
            dtype = draw.rng.choices(motif.dtypes, weights)[0]
            # Dimensions that a tensor with one axis more may have too.
            return growth.place(TensorType(dtype, tuple(draw.dim(rank + 1) for _ in range(rank))))
        fitting = [v.name for v in growth.graph.values.values() if motif.starts_at(v.type)]
        loose = [name for name in fitting if name in growth.loose]
        pool = loose if loose and draw.chance(self.config.chain) else fitting
        return draw.choice(pool) if pool else None

    # -- forward ------------------------------------------------------------------------------

    def _forward(self, spec: type[OpSpec]) -> bool:
        graph, draw = self.growth.graph, self.draw
        pattern = spec.inputs[0]
        lo, hi = pattern.ranks
        fitting = [v for v in graph.values.values() if lo <= v.type.rank <= hi]
        signature = self.catalog.pick_signature(draw, spec, {v.type.dtype for v in fitting})
        if signature is None:
            return False
        fitting = [v for v in fitting if v.type.dtype is signature.first]
        loose = [v for v in fitting if v.name in self.growth.loose]
        first = draw.choice(loose if loose and draw.chance(self.config.chain) else fitting)
        op = spec.draw(draw, first.type)
        _fix_output(op, signature.output)
        dtypes = dtypes_of(spec, self._arity(spec), signature.binding)
        types = [first.type, *op.complete(draw, first.type, dtypes)[1:]]
        fresh: Plan = [first.name, *(_placeholder(p) for p in spec.patterns(len(types))[1:])]
        reused, reused_types = self._reuse(spec, fresh, types)
        if reused != fresh and self.growth.insert(
            op, reused, reused_types, smt=draw.chance(self.config.smt)
        ):
            return True
        return self.growth.insert(op, fresh, types, smt=draw.chance(self.config.smt))

    def _reuse(
        self, spec: type[OpSpec], plan: Plan, types: list[TensorType]
    ) -> tuple[Plan, list[TensorType]]:
        """The plan with some placeholders replaced by existing values that look compatible."""
        plan, types = list(plan), list(types)
        for i, pattern in enumerate(spec.patterns(len(types))):
            reuse = 0.1 if pattern.weight else self.config.reuse  # a weight is rarely computed
            if i == 0 or pattern.fresh or not self.draw.chance(reuse):
                continue
            name = self._partner(types[i], pattern)
            if name is not None:
                plan[i] = name
                types[i] = self.growth.graph.type(name)
        return plan, types

    def _partner(self, wanted: TensorType, pattern: In) -> str | None:
        values = [
            v
            for v in self.growth.graph.values.values()
            if v.type.dtype is wanted.dtype and v.type.rank == wanted.rank
        ]
        matching = [v for v in values if self._matches(v.type, wanted)]
        pool = matching or (values if self.draw.chance(self.config.smt) else [])
        return self.draw.choice(pool).name if pool else None

    def _matches(self, have: TensorType, wanted: TensorType) -> bool:
        known = self.growth.session.known
        for a, b in zip(have.shape, wanted.shape):
            if a is not b:
                value = known(b)
                if value is not None and value != known(a):
                    return False
        return True

    # -- backward -----------------------------------------------------------------------------

    def _backward(self, spec: type[OpSpec]) -> bool:
        growth, draw = self.growth, self.draw
        targets = [n for n, p in growth.placeholders.items() if not p.fixed]
        outputs = {s.output for s in self.catalog.signatures[spec]}
        targets = [n for n in targets if growth.graph.type(n).dtype in outputs]
        if not targets:
            return False
        target = draw.choice(targets)
        wanted = growth.graph.type(target)
        signature = self.catalog.pick_signature(draw, spec, output=wanted.dtype)
        rank = spec.input_rank(draw, wanted.rank)
        lo, hi = spec.inputs[0].ranks
        if signature is None or rank is None or not lo <= rank <= hi:
            return False
        first = draw.tensor(signature.first, rank)
        op = spec.draw_backward(draw, first, wanted)
        _fix_output(op, signature.output)
        dtypes = dtypes_of(spec, self._arity(spec), signature.binding)
        types = op.infer_input_types(draw, first, dtypes, wanted)
        return growth.precede(op, types, target, smt=draw.chance(self.config.smt))


def _placeholder(pattern: In) -> Placeholder:
    return Placeholder(pattern.weight, pattern.fresh)


def _fix_output(op: OpSpec, output: DType) -> None:
    """Set the attribute that names the output's dtype, if the operator has one."""
    if isinstance(op.output, str) and op.output in op.declared:
        op.__dict__[op.output] = output


# -- attribute binning ----------------------------------------------------------------------------


def rebin(growth: Growth, bins: int = 7) -> None:
    """Give every variable a random sub-range of a random exponential bin (NNSmith, Algorithm 2).

    A search by propagation gives each variable a value that it prefers, in turn, as long as it can.
    Where that finds nothing, Z3 is asked for preferences that can hold together, by halving: while
    the system has no solution, a random half of them is dropped. A solution that makes the graph
    too expensive counts as none; the witness of the insertions is what remains in the worst case.
    """
    for _ in range(BINNING_SEARCHES):
        preferences = _preferences(growth, bins)
        if not preferences or _adopted(growth, growth.session.resettle(preferences)):
            return
    terms = [t for t in map(_within, preferences.items()) if not isinstance(t, bool)]
    while terms:
        if _adopted(growth, growth.session.model(terms)):
            return
        terms = terms[: len(terms) // 2]


def _preferences(growth: Growth, bins: int) -> dict[Var, tuple[int, int]]:
    draw = growth.draw
    found = {}
    for var in draw.shuffled(list(growth.session.env)):
        lo, hi = draw.binned(var.lo, var.hi, draw.kinds.get(var, "size"), bins)
        left = draw.integer(lo, hi)
        found[var] = left, draw.integer(left, hi)
    return found


def _within(preference: tuple[Var, tuple[int, int]]) -> Bool:
    var, (lo, hi) = preference
    return and_(var >= lo, var <= hi)


def _adopted(growth: Growth, model: dict[Var, int] | None) -> bool:
    """Take over a model, if there is one and the graph stays affordable under it."""
    if model is None:
        return False
    env = {**growth.session.env, **model}
    values: dict[Expr, int] = {}
    if not all(
        growth.affordable(
            node.op, growth.graph.types(node.inputs), growth.graph.types(node.outputs), env, values
        )
        for node in growth.graph.nodes
    ):
        return False
    growth.session.adopt(model)
    return True


# -- the end --------------------------------------------------------------------------------------


def _finish(growth: Growth) -> Graph:
    """Make the graph concrete; placeholders become inputs or weights, loose ends outputs.

    At least one placeholder becomes an input. A value with readers is an output too with a small
    probability, which keeps optimisers from fusing it away.
    """
    draw, graph = growth.draw, growth.graph
    for name, placeholder in growth.placeholders.items():
        if placeholder.range is not None:
            graph.weights.append(name)
            graph.prescribed[name] = placeholder.range
            continue
        chance = 0.8 if placeholder.weight else growth.config.weights
        (graph.weights if draw.chance(chance) else graph.inputs).append(name)
    if not graph.inputs:
        promoted = draw.choice([name for name in graph.weights if name not in graph.prescribed])
        graph.weights.remove(promoted)
        graph.inputs.append(promoted)
    readers = graph.consumers()
    graph.outputs = [
        name
        for node in graph.nodes
        for name in node.outputs
        if not readers[name] or name in growth.exposed or draw.chance(EXTRA_OUTPUT)
    ]
    return graph.concrete(growth.session.env)
