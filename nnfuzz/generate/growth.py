"""The growing graph: types, placeholders, ranges of values, and its constraint store."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.knowledge import ValueRange, derive, input_ranges, unread
from nnfuzz.generate.novelty import Vertex, vertex
from nnfuzz.generate.values import FREE, Kind, Placeholder, Plan, TypedNames, placeholders
from nnfuzz.ir.expr import Bool, Expr, Int, IntExpr, Var, evaluate, variables
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.support_key import edge_key, property_keys
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import OpSpec
from nnfuzz.solve.store import ConstraintStore


@dataclass(frozen=True, eq=False)
class Mark:
    """A saved state of a `Growth`, for `Growth.restore`."""

    values: dict[str, Value]
    nodes: list[Node]
    placeholders: dict[str, Placeholder]
    known: dict[str, ValueRange]
    makers: dict[str, str]
    exposed: set[str]
    vertices: set[Vertex]
    store: tuple[int, int]


class Growth:
    """The growing graph. `insert` and `precede` either succeed or change nothing.

    Indexes keep the time of an insertion independent of the graph's size. named: values that new
    nodes may read. loose: computed values that nothing reads. free: placeholders open to `precede`.
    """

    def __init__(self, store: ConstraintStore, config: GenerateConfig) -> None:
        self.store = store
        self.config = config
        self.graph = Graph()
        self.placeholders: dict[str, Placeholder] = {}
        self.known: dict[str, ValueRange] = {}
        self.named, self.loose, self.free = TypedNames(), TypedNames(), TypedNames()
        self.makers: dict[str, str] = {}
        """Computed value -> name of the operator that computes it."""
        self.exposed: set[str] = set()
        """Values that become outputs even if something reads them."""
        self.inner: set[str] = set()
        """Values that new nodes may not read (see `close`)."""
        self.vertices: set[Vertex] = set()
        """The vertices (operator, attributes, input types) of the nodes; see
        nnfuzz.generate.novelty."""
        self._readers: defaultdict[str, list[tuple[int, Node]]] = defaultdict(list)
        """Value -> (position in topological order, which may be negative; reader) of each
        reader."""
        self._first, self._last = 0, -1
        self._fresh = 0
        self._empties = config.sizes.empty > 0
        """Whether some value may have no elements."""

    def adopt(self, start: Graph) -> None:
        """Begin with a concrete graph, whose inputs and weights become placeholders."""
        self._fresh = len(start.values)
        self._empties |= any(value.type.is_empty for value in start.values.values())
        self.graph.values.update(start.values)
        indices = set(_index_inputs(start))
        for name in (*start.inputs, *start.weights):
            range_ = start.prescribed.get(name)
            placeholder = Placeholder(name in start.weights, name in indices, range_)
            self.placeholders[name] = placeholder
            self.known[name] = placeholder.known(start.type(name))
        for node in start.nodes:
            self.graph.nodes.append(node)
            types = start.types(node.inputs)
            derived = derive(node.op, types, [self.known[n] for n in node.inputs])
            if derived is None:
                derived = map(unread, start.types(node.outputs))
            self.known.update(zip(node.outputs, derived))
            self.makers.update(dict.fromkeys(node.outputs, node.op.name))
        self.exposed.update(start.outputs)
        self._index()
        self.vertices = {vertex(node.op, start.types(node.inputs)) for node in start.nodes}

    # -- insertion ----------------------------------------------------------------------------

    def insert(self, op: OpSpec, plan: Plan, types: Sequence[TensorType], smt: bool) -> bool:
        """Forward insertion: append a node that reads existing values and placeholders.

        op, types: the operator and its input types. plan: source of each input. smt: whether Z3 may
        be asked. Returns whether the node was inserted.
        """
        if self._empties and not op.takes_empty and any([t.is_empty for t in types]):
            return False
        if self._avoided(op, types, self._edges_behind(op, plan, types)):
            return False
        constraints = _open(op.requires(*types))
        if constraints is None:
            return False
        inputs = [self.known[p] if isinstance(p, str) else p.known(t) for p, t in zip(plan, types)]
        cut = input_ranges(op, inputs)
        derived = derive(op, types, inputs, cut)
        if derived is None:
            return False
        news = {}
        if cut is not inputs:
            news = {p: c for p, k, c in zip(plan, inputs, cut) if type(p) is str and c is not k}
        known = self._revised(news) if news else {}
        if known is None:
            return False
        fresh = [t for p, t in zip(plan, types) if type(p) is not str]
        settled = self._extend(op, fresh, types, op.type_transfer(*types), constraints, smt)
        if settled is None:
            return False
        op, types, outputs = settled
        self.vertices.add(vertex(op, types))
        names = self._declare_inputs(plan, types)
        produced = [self._declare(t, "v") for t in outputs]
        self._last += 1
        node = Node(op, tuple(names), tuple(produced))
        self.graph.nodes.append(node)
        self._read(self._last, node)
        self.known.update(zip(names, cut), **known)
        self._computed(op, produced, outputs, derived)
        return True

    def place(self, type_: TensorType, placeholder: Placeholder = FREE) -> str | None:
        """The name of a new placeholder; None if it is too large. A node must read it soon."""
        free = self._new(type_.shape)
        if not self.store.extend([], free, partial(self._within_limits, [type_])):
            return None
        if self.store.immediate and free:
            type_ = type_.concrete(self.store.env)
        return self._declare_placeholder(placeholder, type_)

    def precede(self, op: OpSpec, types: Sequence[TensorType], target: str, smt: bool) -> bool:
        """Backward insertion: append a node that computes the placeholder `target`."""
        wanted = self.graph.type(target)
        if self._empties and not op.takes_empty and any([t.is_empty for t in types]):
            return False
        constraints = _open(op.requires(*types))
        if constraints is None:
            return False
        outputs = op.type_transfer(*types)
        output = outputs[0]
        if output.dtype is not wanted.dtype or output.rank != wanted.rank:
            return False
        equal = _open(a == b for a, b in zip(output.shape, wanted.shape))
        if equal is None or self._avoided(op, types, self._edges_before(op, target)):
            return False
        derived = derive(op, types, [unread(t) for t in types])
        if derived is None:
            return False
        computed = next(derived)
        news = {} if computed.same(unread(wanted)) else {target: computed}
        known = self._revised(news)
        settled = None
        if known is not None:
            settled = self._extend(op, types, types, outputs, [*constraints, *equal], smt)
        if known is None or settled is None:
            return False
        op, types, outputs = settled
        self.vertices.add(vertex(op, types))
        plan: Plan = [*placeholders(self.store.draws[-1], op.patterns(len(types)))]
        names = self._declare_inputs(plan, types)
        produced = [target, *(self._declare(t, "v") for t in outputs[1:])]
        self._first -= 1
        node = Node(op, tuple(names), tuple(produced))
        self.graph.nodes.insert(0, node)
        self._read(self._first, node)
        self.known.update(known)
        self.known.update(zip(names, input_ranges(op, [self.known[name] for name in names])))
        self._computed(op, produced[1:], outputs[1:], derived)
        self.makers[target] = op.name
        del self.placeholders[target]
        self.free.discard(target)
        return True

    def _extend(
        self,
        op: OpSpec,
        fresh: Sequence[TensorType],
        types: Sequence[TensorType],
        outputs: list[TensorType],
        constraints: list[Bool],
        smt: bool,
    ) -> tuple[OpSpec, Sequence[TensorType], list[TensorType]] | None:
        """The operator and its types, once its constraints are added; None if they cannot hold."""
        if op.refusal(self.config.exporter, self.config.opset, *types):
            return None
        # A signature states the first output only; the dtype of a further one may be excluded.
        for further in outputs[1:]:
            if self.config.dtype_weight(further.dtype) is None:
                return None
        limits = self._limits(outputs, 0 if op.takes_empty and self.store.immediate else 1)
        if limits is None:
            return None
        free: list[Var] = []
        if self.store.draws[-1].kinds:  # otherwise there is no variable that it might have
            free = self._new((*(d for t in fresh for d in t.shape), *_symbols(op)))
        accept = partial(self.affordable, op, types, outputs, fresh=fresh)
        if not self.store.extend([*constraints, *limits], free, accept, smt):
            return None
        if self.store.immediate and free:
            memo: dict[Any, Any] = {}
            op = op.concrete(self.store.env, memo)
            types = [t.concrete(self.store.env, memo) for t in types]
            outputs = op.type_transfer(*types)
        return op, types, outputs

    def _new(self, expressions: Iterable[Int]) -> list[Var]:
        """The variables of expressions that have no value yet."""
        open_ = [e for e in expressions if not isinstance(e, int)]
        return [v for v in variables(*open_) if v not in self.store.env] if open_ else []

    def _limits(self, outputs: Sequence[TensorType], least: int) -> list[Bool] | None:
        """Conditions that keep sizes within the limits; None if a plain dimension exceeds them.

        least: the least admitted plain size; symbolic sizes are at least 1.
        """
        found: list[Bool] = []
        for type_ in outputs:
            shape = type_.shape
            top = self.config.sizes.dim(len(shape))
            for dim in shape:
                if dim.__class__ is int:
                    if not least <= dim <= top:
                        return None
                    self._empties = self._empties or dim == 0
                else:
                    open_ = _open((dim >= 1, dim <= top))
                    if open_ is None:
                        return None
                    found += open_
        return found

    def affordable(
        self,
        op: OpSpec,
        types: Sequence[TensorType],
        outputs: Sequence[TensorType],
        env: dict[Var, int],
        memo: dict[Expr, int],
        fresh: Sequence[TensorType] = (),
    ) -> bool:
        """Whether a node stays within the size and cost limits. env: values of the variables. memo:
        cache of expressions' values. fresh: types of its new inputs."""
        if not self._small((*types, *outputs), env, memo):
            return False
        if self.config.sizes.max_total and not self._spares((*fresh, *outputs), env, memo):
            return False
        if env:
            op, types = op.concrete(env, memo), [t.concrete(env, memo) for t in types]
        elif type(op).cost is OpSpec.cost:  # one per output element, and outputs are small
            return True
        return op.cost(*types) <= self.config.sizes.max_flops

    def _within_limits(
        self, types: Sequence[TensorType], env: dict[Var, int], memo: dict[Any, Any]
    ) -> bool:
        """Whether the new values are small enough, alone and together with the existing ones."""
        if not self._small(types, env, memo):
            return False
        return not self.config.sizes.max_total or self._spares(types, env, memo)

    def _small(
        self, types: Sequence[TensorType], env: dict[Var, int], memo: dict[Any, Any]
    ) -> bool:
        most, ranks = self.config.sizes.max_numel, self.config.sizes.ranks
        if ranks and not all(t.rank in ranks for t in types):
            return False
        return not [t for t in types if _elements(t, env, memo) > most]

    def _spares(
        self, outputs: Sequence[TensorType], env: dict[Var, int], memo: dict[Any, Any]
    ) -> bool:
        """Whether all values together have few enough elements after one more node."""
        env = {**self.store.env, **env}
        types = (*outputs, *(value.type for value in self.graph.values.values()))
        return sum([_elements(t, env, memo) for t in types]) <= self.config.sizes.max_total

    # -- going back ---------------------------------------------------------------------------

    def mark(self) -> Mark:
        """The present state, for `restore`."""
        graph = self.graph
        return Mark(
            dict(graph.values),
            list(graph.nodes),
            dict(self.placeholders),
            dict(self.known),
            dict(self.makers),
            set(self.exposed),
            set(self.vertices),
            self.store.mark(),
        )

    def restore(self, mark: Mark) -> None:
        """Undo all insertions since the mark; Z3 must not have seen their constraints."""
        graph = self.graph
        if (len(graph.values), len(graph.nodes)) == (len(mark.values), len(mark.nodes)):
            return
        graph.values, graph.nodes = dict(mark.values), list(mark.nodes)
        self.placeholders, self.known = dict(mark.placeholders), dict(mark.known)
        self.makers, self.exposed = dict(mark.makers), set(mark.exposed)
        self.store.restore(mark.store)
        self._index()
        self.vertices = set(mark.vertices)

    def close(self) -> None:
        """Hide inner values: later nodes read only results and placeholders in `free`."""
        closed = [n for n in self.named if n not in self.loose and n not in self.free]
        self.inner.update(closed)
        for name in closed:
            self.named.discard(name)

    def _index(self) -> None:
        """Builds the indexes from the graph."""
        self.named, self.loose, self.free = TypedNames(), TypedNames(), TypedNames()
        self._readers = defaultdict(list)
        kinds = {n: (v.type.dtype, len(v.type.shape)) for n, v in self.graph.values.items()}
        for name, kind in kinds.items():
            if name not in self.inner:
                self.named.add(name, kind)
        for name in self.makers:
            self.loose.add(name, kinds[name])
        for name, placeholder in self.placeholders.items():
            if not placeholder.closed:
                self.free.add(name, kinds[name])
        self._first, self._last = 0, len(self.graph.nodes) - 1
        for place, node in enumerate(self.graph.nodes):
            self._read(place, node)

    def _read(self, place: int, node: Node) -> None:
        """Record what a node reads; place: its position in topological order."""
        for name in dict.fromkeys(node.inputs):
            self.loose.discard(name)
            self._readers[name].append((place, node))

    def _computed(
        self,
        op: OpSpec,
        names: Sequence[str],
        types: Sequence[TensorType],
        derived: Iterator[ValueRange],
    ) -> None:
        """Record values that a new node computes and that nothing reads yet."""
        for name, type_, known in zip(names, types, derived):
            self.known[name] = known
            self.makers[name] = op.name
            self.loose.add(name, _kind(type_))

    # -- what to keep away from --------------------------------------------------------------

    def _avoided(self, op: OpSpec, types: Sequence[TensorType], edges: Iterable[str]) -> bool:
        """Whether a new node has a property, or makes an edge, in `config.avoid`."""
        avoid, rank = self.config.avoid, types[0].rank
        keys = (*property_keys(op.name, op.attributes, rank), *edges) if avoid else ()
        return not avoid.isdisjoint(keys)

    def _edges_behind(self, op: OpSpec, plan: Plan, types: Sequence[TensorType]) -> Iterator[str]:
        """The edges to a new node that reads existing values."""
        for p, t in zip(plan, types):
            if isinstance(p, str) and p in self.makers:
                yield edge_key(self.makers[p], op.name, t.dtype.value)

    def _edges_before(self, op: OpSpec, target: str) -> Iterator[str]:
        """The edges from a new node that computes a placeholder."""
        dtype = self.graph.type(target).dtype.value
        for _, node in self._readers.get(target, ()):
            yield edge_key(op.name, node.op.name, dtype)

    # -- numbers ------------------------------------------------------------------------------

    def _revised(self, news: dict[str, ValueRange]) -> dict[str, ValueRange] | None:
        """Ranges of all values that new ranges affect; None if a node has no valid input left."""
        found = dict(news)
        queue = [reader for name in news for reader in self._readers.get(name, ())]
        heapq.heapify(queue)
        done = self._first - 1
        while queue:
            place, node = heapq.heappop(queue)
            if place == done:
                continue
            done = place
            inputs = [found.get(name) or self.known[name] for name in node.inputs]
            derived = derive(node.op, self.graph.types(node.inputs), inputs)
            if derived is None:
                return None
            cut = zip(node.inputs, inputs, input_ranges(node.op, inputs))
            changed = {name: known for name, before, known in cut if known is not before}
            for name, known in zip(node.outputs, derived):
                if not known.same(found.get(name) or self.known[name]):
                    changed[name] = known
            found.update(changed)
            for name in changed:
                for reader in self._readers.get(name, ()):
                    if reader[0] > place:
                        heapq.heappush(queue, reader)
        return found

    # -- names --------------------------------------------------------------------------------

    def _declare(self, type_: TensorType, stem: str) -> str:
        name = f"{stem}{self._fresh}"
        while name in self.graph.values:  # the graph to begin with may have any names
            self._fresh += 1
            name = f"{stem}{self._fresh}"
        self._fresh += 1
        self.graph.values[name] = Value(name, type_)
        self.named.add(name, (type_.dtype, len(type_.shape)))
        return name

    def _declare_inputs(self, plan: Plan, types: Sequence[TensorType]) -> list[str]:
        return [
            source if isinstance(source, str) else self._declare_placeholder(source, type_)
            for source, type_ in zip(plan, types)
        ]

    def _declare_placeholder(self, placeholder: Placeholder, type_: TensorType) -> str:
        name = self._declare(type_, "p")
        self.placeholders[name] = placeholder
        self.known[name] = placeholder.known(type_)
        if not placeholder.closed:
            self.free.add(name, _kind(type_))
        return name


def _index_inputs(graph: Graph) -> Iterator[str]:
    """Values whose elements a shape limits (indices), and integers that opaque nodes read."""
    for node in graph.nodes:
        for name, pattern in zip(node.inputs, node.op.patterns(len(node.inputs))):
            if pattern.fresh or (not node.op.weight and not graph.type(name).dtype.is_float):
                yield name


def _elements(type_: TensorType, env: dict[Var, int], memo: dict[Any, Any]) -> int:
    """The number of elements, with the values of variables in `env`."""
    sizes: Sequence[Any] = [evaluate(d, env, memo) for d in type_.shape] if env else type_.shape
    return math.prod(sizes)


def _kind(type_: TensorType) -> Kind:
    return type_.dtype, len(type_.shape)


def _open(constraints: Iterable[Bool]) -> list[Bool] | None:
    """The constraints that are not plainly true; None if one is plainly false.

    Constraints after a false one are not evaluated, since they may not be well defined.
    """
    found: list[Bool] = []
    for constraint in constraints:
        if constraint is False:
            return None
        if constraint is not True:
            found.append(constraint)
    return found


def _symbols(op: OpSpec) -> list[IntExpr]:
    found = []
    for value in op.attributes.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, IntExpr):
                found.append(item)
    return found
