"""Rules for nodes that compute every slice along a batch axis by itself."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from nnfuzz.materialize.walk import reads
from nnfuzz.rewrite.axis_laws import Law, law
from nnfuzz.rewrite.draft import Draft, Nodes
from nnfuzz.rewrite.rule import models
from nnfuzz.rewrite.rules.identities import MOST_ELEMENTS, MOVED, ints

FAMILY = "batch laws"
_ENDS = 0.1  # the chance of a node that could take part to be left out
_PAST = (1 << 63) - 1


@dataclass(frozen=True, order=True)
class Batch:
    """A value with an axis along which the nodes that follow do not mix slices."""

    value: str
    axis: int

    def extent(self, draft: Draft) -> int:
        return draft.types[self.value].sizes[self.axis]


def batches(draft: Draft, unsized: bool = False) -> list[Batch]:
    """Values with an axis along which some node that reads them does not mix slices.

    unsized: whether to leave out nodes with an operand of sizes, in which 0 has its own meaning.
    """
    return [
        Batch(name, axis)
        for name in draft.flowing()
        if _movable(draft, name)
        for axis in range(draft.rank(name))
        if any(
            _node_law(draft, draft.graph.node[i], {name: axis}, unsized)
            for i in draft.readers.get(name, ())
        )
    ]


def _movable(draft: Draft, name: str) -> bool:
    type_ = draft.types.get(name)
    return type_ is not None and type_.dtype in MOVED and type_.elements <= MOST_ELEMENTS


def _node_law(
    draft: Draft, node: onnx.NodeProto, axes: Mapping[str, int], unsized: bool
) -> Law | None:
    """The law of a node some of whose operands have a batch axis.

    None if it mixes slices, if the axes of its operands contradict each other, or if the node
    depends on something that cannot be moved.
    """
    places = {place: axes[name] for place, name in enumerate(node.input) if name in axes}
    if not places or {*reads(node)} != {*filter(None, node.input)}:
        return None
    own = law(draft, node, *next(iter(places.items())))
    if own is None or any(own.inputs.get(place) != axis for place, axis in places.items()):
        return None
    if unsized and own.sizes:
        return None
    moved = [node.input[place] for place in own.inputs] + [*node.output]
    return own if all(_movable(draft, name) for name in moved) else None


class Lanes:
    """Nodes with a batch axis, copied once or several times with other extents.

    A subclass says which values the copies read, and how their results are joined.
    """

    def __init__(self, draft: Draft, emit: Nodes, extents: Sequence[int]) -> None:
        self.draft, self.emit, self.extents = draft, emit, extents
        self._given: dict[tuple[str, int], list[str]] = {}

    def given(self, name: str, axis: int) -> list[str]:
        """A value from outside as the copies read it; made once for all of them."""
        if (name, axis) not in self._given:
            self._given[name, axis] = self.enter(name, axis)
        return self._given[name, axis]

    def enter(self, name: str, axis: int) -> list[str]:
        """The value that each copy reads in place of a value."""
        raise NotImplementedError

    def leave(self, names: Sequence[str], axis: int) -> str:
        """The value that the copies have computed."""
        raise NotImplementedError

    def copies(
        self, node: onnx.NodeProto, law: Law, inside: Mapping[str, list[str]]
    ) -> list[list[str]]:
        """Emits a node once for each extent; names of its outputs, by copy."""
        operands = {
            place: inside.get(node.input[place]) or self.given(node.input[place], axis)
            for place, axis in law.inputs.items()
        }
        return [self._copy(node, law, operands, k) for k in range(len(self.extents))]

    def _copy(
        self, node: onnx.NodeProto, law: Law, operands: Mapping[int, list[str]], k: int
    ) -> list[str]:
        read = [operands[p][k] if p in operands else name for p, name in enumerate(node.input)]
        for place, element in law.sizes.items():
            sizes = self.draft.value(node.input[place])
            assert sizes is not None
            extents = [*sizes[:element], self.extents[k], *sizes[element + 1 :]]
            read[place] = ints(self.emit, *extents)
        return self.emit.copied(node, read)

    def cut(self, name: str, axis: int, start: int, end: int, step: int = 1) -> str:
        numbers = (ints(self.emit, number) for number in (start, end, axis, step))
        return self.emit.one("Slice", name, *numbers)


class Stacked(Lanes):
    """One copy with twice the extent: the slices of a value, and the same in the opposite order.

    place: 0 if the original slices come first, 1 if they come second.
    """

    def __init__(self, draft: Draft, emit: Nodes, extent: int, rng: random.Random) -> None:
        super().__init__(draft, emit, [2 * extent])
        self.extent, self.place = extent, rng.randint(0, 1)

    def enter(self, name: str, axis: int) -> list[str]:
        other = self.cut(name, axis, -1, -_PAST, -1) if self.extent > 1 else name
        both = (name, other) if self.place == 0 else (other, name)
        return [self.emit.one("Concat", *both, axis=axis)]

    def leave(self, names: Sequence[str], axis: int) -> str:
        start = self.place * self.extent
        return self.cut(names[0], axis, start, start + self.extent)


class InParts(Lanes):
    """One copy for each of two parts of the batch. at: number of slices in the first part."""

    def __init__(self, draft: Draft, emit: Nodes, extent: int, at: int) -> None:
        super().__init__(draft, emit, [at, extent - at])

    def enter(self, name: str, axis: int) -> list[str]:
        first, second = self.extents
        return [self.cut(name, axis, 0, first), self.cut(name, axis, first, first + second)]

    def leave(self, names: Sequence[str], axis: int) -> str:
        return self.emit.one("Concat", *names, axis=axis)


def taken(draft: Draft, batch: Batch, rng: random.Random, unsized: bool = False) -> dict[int, Law]:
    """The nodes after a value that are copied, with their laws. unsized: see batches."""
    axes, laws = {batch.value: batch.axis}, dict[int, Law]()
    for i, node in enumerate(draft.graph.node):
        own = _node_law(draft, node, axes, unsized)
        if own is not None and (not laws or rng.random() >= _ENDS):
            laws[i] = own
            axes |= zip(node.output, own.outputs)
    return laws


def carried(draft: Draft, lanes: Lanes, laws: Mapping[int, Law]) -> None:
    """Replaces nodes by their copies; values that others read keep their names."""
    others = [node for i, node in enumerate(draft.graph.node) if i not in laws]
    wanted = {*draft.outputs, *(name for node in others for name in reads(node))}
    inside: dict[str, list[str]] = {}
    nodes: list[onnx.NodeProto] = []
    for i, node in enumerate(draft.graph.node):
        if i not in laws:
            nodes.append(node)
            continue
        own, before = laws[i], len(lanes.emit.nodes)
        results = lanes.copies(node, own, inside)
        inside |= zip(node.output, map(list, zip(*results)))
        for name, axis in zip(node.output, own.outputs):
            if name in wanted:
                lanes.leave(inside[name], axis)
                lanes.emit.nodes[-1].output[0] = name
        nodes += lanes.emit.nodes[before:]
    draft.set_nodes(nodes)
    draft.graph.initializer.extend(lanes.emit.initializers)


@models(FAMILY, batches, uses=["Concat", "Slice"], bits=False)
def batch_stacked(draft: Draft, site: Batch, rng: random.Random) -> None:
    """Nodes that compute every slice along an axis by itself -> the same on twice as many slices,
    their own and these once more in the opposite order, of whose results one half is read."""
    lanes = Stacked(draft, draft.emitter(), site.extent(draft), rng)
    carried(draft, lanes, taken(draft, site, rng))


@models(FAMILY, lambda draft: [b for b in batches(draft) if b.extent(draft) > 1],
        uses=["Concat", "Slice"], bits=False)  # fmt: skip
def batch_in_parts(draft: Draft, site: Batch, rng: random.Random) -> None:
    """Nodes that compute every slice along an axis by itself -> the same twice, on the first slices
    and on the others, and Concat of the results."""
    extent = site.extent(draft)
    lanes = InParts(draft, draft.emitter(), extent, rng.randint(1, extent - 1))
    carried(draft, lanes, taken(draft, site, rng))


RULES = (batch_stacked, batch_in_parts)
