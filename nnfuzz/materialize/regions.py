"""Groups nodes of a model that have to become one opaque node, and drops those that cannot.

A value that a graph cannot hold (a sequence, a string, a tensor of open size) stays inside of a
**region**, the nodes that make and read it. Nodes that cannot be taken at all are left out: what
they would compute becomes an input where its type is known, and takes its readers along elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx

from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.facts import reads


@dataclass(frozen=True)
class Region:
    """Nodes in order; inputs, outputs: the values that others make and that others read."""

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def regions(
    nodes: Sequence[onnx.NodeProto],
    types: Mapping[str, TensorType],
    lost: Collection[int],
    outputs: Collection[str],
    constants: Collection[str],
) -> tuple[list[Region], set[int]]:
    """The groups in topological order, and the positions of all nodes that are left out.

    types: of all values that a graph can hold. lost: positions of nodes that cannot be taken;
    others follow from them. outputs: the values that the model yields. constants: what nodes
    may have inside.
    """
    parting = _Parting(nodes, types, lost, constants)
    groups = parting.sorted()
    found = [parting.region(members, outputs) for members in groups]
    idle = {i for members, r in zip(groups, found) if not r.outputs for i in members}
    return [region for region in found if region.outputs], parting.lost | idle


class _Parting:
    def __init__(
        self,
        nodes: Sequence[onnx.NodeProto],
        types: Mapping[str, TensorType],
        lost: Collection[int],
        constants: Collection[str],
    ) -> None:
        self.nodes, self.types, self.lost = nodes, types, set(lost)
        self.held = {*types, *constants}
        self.reads = [reads(node) for node in nodes]
        self._lose()
        self.maker = {
            name: i for i, n in enumerate(nodes) if i not in self.lost for name in n.output if name
        }
        self.group: dict[int, int] = {}
        """By node, the smallest position in its group."""
        self._link()

    def _lose(self) -> None:
        """Drop nodes that read values which only dropped nodes compute."""
        made = {n for i, node in enumerate(self.nodes) if i not in self.lost for n in node.output}
        for i, node in enumerate(self.nodes):
            if not all(name in self.held or name in made for name in self.reads[i]):
                self.lost.add(i)
            if i in self.lost:
                made.difference_update(node.output)

    def _link(self) -> None:
        """Group nodes that share a value without a type: no tensor, or of unknown size."""
        for i in range(len(self.nodes)):
            if i in self.lost:
                continue
            self.group[i] = i
            hidden = [n for n in self.reads[i] if n not in self.held]
            self._merge({self.group[self.maker[n]] for n in hidden} | {i})

    def _merge(self, groups: Collection[int]) -> None:
        if len(groups) > 1:
            first = min(groups)
            self.group = {i: first if g in groups else g for i, g in self.group.items()}

    def sorted(self) -> list[list[int]]:
        """The members of the groups in topological order; those on a circle become one group."""
        while True:
            before: dict[int, set[int]] = {g: set() for g in self.group.values()}
            for i, g in self.group.items():
                makers = (self.maker[name] for name in self.reads[i] if name in self.maker)
                before[g] |= {self.group[maker] for maker in makers} - {g}
            order, circular = _ordered(before)
            if not circular:
                break
            self._merge(circular)
        members: dict[int, list[int]] = {g: [] for g in order}
        for i, g in self.group.items():
            members[g].append(i)
        return list(members.values())

    def region(self, members: Sequence[int], outputs: Collection[str]) -> Region:
        inside = tuple(self.nodes[i] for i in members)
        own = dict.fromkeys(name for i in members for name in self.reads[i])
        made = [name for node in inside for name in node.output if name]
        if len(members) > 1:
            rest = (self.reads[i] for i in self.group.keys() - set(members))
            ends = {name for names in rest for name in names} | set(outputs)
            made = [name for name in made if name in ends or name not in own]
        given = tuple(name for name in own if self.maker.get(name) not in members)
        return Region(inside, given, tuple(name for name in made if name in self.types))


def _ordered(before: Mapping[int, set[int]]) -> tuple[list[int], set[int]]:
    """Topological order; and what lies on circles or between them."""
    placed: dict[int, None] = {}
    left = set(before)
    while any(before[g] <= placed.keys() for g in left):
        for g in sorted(left):
            if before[g] <= placed.keys():
                placed[g] = None
        left.difference_update(placed)
    while ends := {g for g in left if not any(g in before[other] for other in left)}:
        left -= ends
    return list(placed), left
