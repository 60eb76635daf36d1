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
from nnfuzz.materialize.walk import reads


@dataclass(frozen=True)
class NodeGroup:
    """Nodes in order; inputs, outputs: the values that others make and that others read."""

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def operands(self) -> Sequence[str]:
        """The inputs, as often and in the order in which a single node reads them."""
        return self.nodes[0].input if len(self.nodes) == 1 else self.inputs

    @property
    def results(self) -> Sequence[str]:
        """The outputs, with "" for those that a single node leaves out."""
        return self.nodes[0].output if len(self.nodes) == 1 else self.outputs


def regions(
    nodes: Sequence[onnx.NodeProto],
    types: Mapping[str, TensorType],
    lost: Collection[int],
    outputs: Collection[str],
    constants: Collection[str],
) -> tuple[list[NodeGroup], set[int]]:
    """The groups in topological order, and the positions of all nodes that are left out.

    types: of all values that a graph can hold. lost: positions of nodes that cannot be taken;
    others follow from them. outputs: the values that the model yields. constants: what nodes
    may have inside.
    """
    read = [reads(node) for node in nodes]
    held = {*types, *constants}
    gone = _lost(nodes, read, held, lost)
    maker = {n: i for i, node in enumerate(nodes) if i not in gone for n in node.output if n}
    readers: dict[str, set[int]] = {name: set() for name in maker}
    for i in set(range(len(nodes))) - gone:
        for name in read[i]:
            readers.setdefault(name, set()).add(i)
    found = []
    for members in _groups(maker, readers, held, set(range(len(nodes))) - gone):
        inside = [nodes[i] for i in sorted(members)]
        own = dict.fromkeys(name for i in sorted(members) for name in read[i])
        made = [name for node in inside for name in node.output if name in types]
        ends = tuple(n for n in made if n in outputs or n not in own or readers[n] - members)
        given = tuple(name for name in own if maker.get(name) not in members)
        if ends:
            found.append(NodeGroup(tuple(inside), given, ends))
        else:
            gone |= members
    return found, gone


def _lost(
    nodes: Sequence[onnx.NodeProto],
    read: Sequence[Sequence[str]],
    held: Collection[str],
    lost: Collection[int],
) -> set[int]:
    """The given positions, and those of nodes that read what only such nodes compute."""
    gone = set(lost)
    made = {n for i, node in enumerate(nodes) if i not in gone for n in node.output}
    for i, node in enumerate(nodes):
        if not all(name in held or name in made for name in read[i]):
            gone.add(i)
        if i in gone:
            made.difference_update(node.output)
    return gone


def _groups(
    maker: Mapping[str, int],
    readers: Mapping[str, Collection[int]],
    held: Collection[str],
    kept: Collection[int],
) -> list[set[int]]:
    """Positions of nodes that belong together, in topological order of the groups.

    A value that a graph cannot hold ties its readers and its maker to each other: both directions
    are edges, and a group is a strongly connected component. So it has no circle with another one.
    """
    if all(name in held for name in maker):
        return [{position} for position in sorted(kept)]
    import networkx as nx

    flow = nx.DiGraph()
    flow.add_nodes_from(kept)
    for name, source in maker.items():
        flow.add_edges_from((source, reader) for reader in readers[name])
        if name not in held:
            flow.add_edges_from((reader, source) for reader in readers[name])
    groups = nx.condensation(flow)
    members = groups.nodes(data="members")
    order = nx.lexicographical_topological_sort(groups, key=lambda group: min(members[group]))
    return [members[group] for group in order]
