"""Connected cuts of 2 to 8 nodes of a graph, in a canonical order."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.operators.motif_file import PatternNode

LEAST, MOST = 2, 8
"""Nodes of a pattern."""
MOST_A_SIZE = 40
"""Cuts of one size that are taken of a graph; of more, a random choice."""
MOST_READERS = 4
"""Two nodes that read the same value are neighbours if it has no more readers than that."""

Fresh = Callable[[NodeView], Sequence[bool]]
"""For each input of a node, whether nothing may compute it (`In.fresh`)."""


@dataclass(frozen=True)
class Cut:
    """A connected part of a graph.

    form: digest of its operators and edges. structure: of the same without the kinds of the values
    that enter, by which known motifs are recognised. part: the nodes and values, named canonically:
    two cuts of one form have the same names. start: an input that an existing value can take the
    place of. larger: forms of the cuts with one node more. whole: whether it is all of a connected
    graph.
    """

    form: str
    structure: str
    part: GraphView
    start: str
    larger: tuple[str, ...] = ()
    whole: bool = False

    @property
    def nodes(self) -> tuple[PatternNode, ...]:
        """The nodes without their attributes."""
        return tuple(PatternNode(n.op, n.inputs, n.outputs) for n in self.part.nodes)


def cuts(graph: GraphView, fresh: Fresh, rng: random.Random, most: int = MOST) -> list[Cut]:
    """The cuts of a graph of up to `most` nodes each. Operators with bodies are in none."""
    usable = [i for i, node in enumerate(graph.nodes) if _is_plain(node)]
    near = _neighbours(graph, usable)
    level, found = {frozenset({i}) for i in usable}, dict[frozenset[int], Cut]()
    larger: dict[frozenset[int], set[frozenset[int]]] = {}
    for _ in range(LEAST, most + 1):
        grown = {part | {i} for part in level for i in _around(part, near)}
        sampled = sorted(grown, key=sorted)
        if len(sampled) > MOST_A_SIZE:
            sampled = rng.sample(sampled, MOST_A_SIZE)
        for part in sampled:
            cut = _cut(graph, part, fresh)
            if cut is not None:
                found[part] = cut
            for i in part:
                larger.setdefault(part - {i}, set()).add(part)
        level = set(sampled)
    return [_completed(cut, part, found, larger, near) for part, cut in found.items()]


def whole(graph: GraphView) -> Cut | None:
    """The cut of all nodes of a graph, which starts from an input; None where an operator has a
    body.
    """
    if not all(map(_is_plain, graph.nodes)):
        return None
    entering = {*graph.inputs, *graph.weights}
    return _named(graph, graph.nodes, entering, set(graph.weights))


def _completed(
    cut: Cut,
    part: frozenset[int],
    found: Mapping[frozenset[int], Cut],
    larger: Mapping[frozenset[int], Collection[frozenset[int]]],
    near: Mapping[int, Collection[int]],
) -> Cut:
    forms = {found[other].form for other in larger.get(part, ()) if other in found}
    whole = not _around(part, near)
    return Cut(cut.form, cut.structure, cut.part, cut.start, tuple(sorted(forms)), whole)


def _is_plain(node: NodeView) -> bool:
    """Whether all attributes are numbers, texts, dtypes, or lists of them; bodies are objects."""
    return node.op not in ("Opaque", "Expanded") and all(map(_is_value, node.attributes.values()))


def _is_value(value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) == {"dtype"}
    return not isinstance(value, list | tuple) or all(map(_is_value, value))


def _neighbours(graph: GraphView, usable: Collection[int]) -> dict[int, set[int]]:
    """Nodes by neighbour: one reads an output of the other, or both an input with few readers."""
    readers: dict[str, list[int]] = {}
    maker: dict[str, int] = {}
    for i in usable:
        for name in graph.nodes[i].inputs:
            readers.setdefault(name, []).append(i)
        maker.update(dict.fromkeys(graph.nodes[i].outputs, i))
    near: dict[int, set[int]] = {i: set() for i in usable}
    weights = set(graph.weights)
    for name, nodes in readers.items():
        joined = {*nodes} if len(nodes) <= MOST_READERS and name not in weights else set()
        pairs = [(i, j) for i in joined for j in joined if i != j]
        pairs += [(maker[name], j) for j in nodes if name in maker]
        for i, j in pairs:
            near[i].add(j)
            near[j].add(i)
    return near


def _around(part: frozenset[int], near: Mapping[int, Collection[int]]) -> set[int]:
    return {j for i in part for j in near[i]} - part


def _cut(graph: GraphView, part: frozenset[int], fresh: Fresh) -> Cut | None:
    """The cut with canonical names; None if it is not convex or has no value to start from."""
    nodes = [graph.nodes[i] for i in sorted(part)]
    made = {name for node in nodes for name in node.outputs}
    entering = {name for node in nodes for name in node.inputs} - made
    if _returns(graph, part, made, entering):
        return None
    fixed = {name for node in nodes for name, is_fresh in zip(node.inputs, fresh(node)) if is_fresh}
    shared = [n for n in fixed & entering if sum(n in node.inputs for node in nodes) > 1]
    starts = entering - fixed - set(graph.weights)
    if not starts or fixed & made or any(name not in graph.prescribed for name in shared):
        return None
    return _named(graph, nodes, entering, entering & {*graph.weights, *fixed})


def _returns(
    graph: GraphView, part: frozenset[int], made: Collection[str], entering: Collection[str]
) -> bool:
    """Whether a value that enters the part depends on one that the part computes."""
    behind = set(made)
    for i, node in enumerate(graph.nodes):
        if i not in part and not behind.isdisjoint(node.inputs):
            behind.update(node.outputs)
    return not behind.isdisjoint(entering)


def _named(
    graph: GraphView, nodes: Sequence[NodeView], entering: Collection[str], weights: Collection[str]
) -> Cut:
    kinds = {n: _kind(n, weights, graph.prescribed) for n in entering}
    ordered = _ordered(nodes, kinds)
    names: dict[str, str] = {}
    for node in ordered:
        for name in (*node.inputs, *node.outputs):
            names.setdefault(name, f"{'x' if name in entering else 'v'}{len(names)}")
    renamed = tuple(
        NodeView(
            n.op,
            tuple(names[i] for i in n.inputs),
            tuple(names[o] for o in n.outputs),
            n.attributes,
        )
        for n in ordered
    )
    values = {v.name: v for v in graph.values}
    held = tuple(ValueView(names[n], values[n].dtype, values[n].shape) for n in names)
    inputs = [n for n in names if n in entering]
    prescribed = {names[n]: graph.prescribed[n] for n in inputs if kinds[n] == "constant"}
    part = GraphView(
        held,
        renamed,
        tuple(names[n] for n in inputs if n not in weights),
        tuple(names[n] for n in inputs if n in weights),
        tuple(names[o] for n in ordered for o in n.outputs),
        prescribed,
    )
    structure = [(n.op, n.inputs, n.outputs) for n in renamed]
    form = _digest([structure, [kinds[n] for n in inputs]])
    return Cut(form, structure_of(nodes, entering), part, part.inputs[0])


def structure_of(nodes: Sequence[NodeView], entering: Collection[str]) -> str:
    """The digest of operators and edges alone."""
    return _digest(edges_of(_ordered(nodes, dict.fromkeys(entering, "value"))))


def edges_of(nodes: Sequence[NodeView]) -> tuple[tuple[str, tuple[int, ...], int], ...]:
    """For each node its operator, the numbers of its inputs and outputs, and how many are outputs.

    Values are numbered in the order in which they first occur.
    """
    numbers: dict[str, int] = {}
    return tuple(
        (
            node.op,
            tuple(numbers.setdefault(n, len(numbers)) for n in (*node.inputs, *node.outputs)),
            len(node.outputs),
        )
        for node in nodes
    )


def _kind(
    name: str, weights: Collection[str], prescribed: Mapping[str, tuple[float, float]]
) -> str:
    if name not in weights:
        return "value"
    lo, hi = prescribed.get(name, (0.0, 1.0))
    return "constant" if lo == hi else "weight"


def _ordered(nodes: Sequence[NodeView], kinds: Mapping[str, str]) -> list[NodeView]:
    """The nodes in a topological order that depends on operators and edges alone.

    Nodes get colours by Weisfeiler and Leman's refinement; of those that are ready, the one of the
    least colour comes first. Nodes that the colours do not separate are symmetric in graphs this
    small.
    """
    colours = {id(node): node.op for node in nodes}
    makers = {name: (node, i) for node in nodes for i, name in enumerate(node.outputs)}
    for _ in range(len(nodes)):
        colours = {id(n): _colour(n, nodes, makers, kinds, colours) for n in nodes}
    ordered: list[NodeView] = []
    defined, left = set(kinds), list(nodes)
    while left:
        ready = [node for node in left if defined.issuperset(node.inputs)]
        first = min(ready, key=lambda node: (colours[id(node)], _places(node, ordered)))
        left.remove(first)
        ordered.append(first)
        defined.update(first.outputs)
    return ordered


def _places(node: NodeView, ordered: Sequence[NodeView]) -> list[int]:
    """Where the inputs of a node come from among the nodes that are placed already."""
    names = [name for other in ordered for name in (*other.inputs, *other.outputs)]
    return [names.index(name) if name in names else len(names) for name in node.inputs]


def _colour(
    node: NodeView,
    nodes: Sequence[NodeView],
    makers: Mapping[str, tuple[NodeView, int]],
    kinds: Mapping[str, str],
    colours: Mapping[int, str],
) -> str:
    read: list[object] = []
    for name in node.inputs:
        if name in makers:
            maker, output = makers[name]
            read.append((colours[id(maker)], output))
        else:
            others = sorted(_readings(name, nodes, colours))
            read.append((kinds[name], others))
    readers = [sorted(_readings(name, nodes, colours)) for name in node.outputs]
    return _digest([node.op, read, readers])


def _readings(
    name: str, nodes: Sequence[NodeView], colours: Mapping[int, str]
) -> Iterator[tuple[str, int]]:
    for node in nodes:
        for position, read in enumerate(node.inputs):
            if read == name:
                yield colours[id(node)], position


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
