"""Groups nodes that have to become one opaque node, and drops nodes that cannot be imported.

A graph cannot hold sequences, strings, or tensors of open size. The nodes that make and read such a
value form a **region**, and the value stays inside. Nodes that cannot be imported are left out: an
output of known type becomes an input, otherwise the nodes that read it are left out, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx

from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.walk import reads


@dataclass(frozen=True)
class NodeGroup:
    """Nodes in order. inputs: values from outside; outputs: values that are read outside."""

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def operands(self) -> Sequence[str]:
        """The inputs of a single node, in order and with repetitions; otherwise `inputs`."""
        return self.nodes[0].input if len(self.nodes) == 1 else self.inputs

    @property
    def results(self) -> Sequence[str]:
        """A single node's outputs, with "" for those that it leaves out; otherwise `outputs`."""
        return self.nodes[0].output if len(self.nodes) == 1 else self.outputs


def regions(
    nodes: Sequence[onnx.NodeProto],
    types: Mapping[str, TensorType],
    lost: Collection[int],
    outputs: Collection[str],
    constants: Collection[str],
) -> tuple[list[NodeGroup], set[int]]:
    """The groups in topological order, and the positions of all nodes that are left out.

    types: of all values that a graph can hold. lost: positions of nodes that cannot be imported.
    outputs: the model's outputs. constants: values that may stay inside of a group.
    """
    read = [reads(node) for node in nodes]
    held = {*types, *constants}
    gone = _lost(nodes, read, held, lost)
    maker = {n: i for i, node in enumerate(nodes) if i not in gone for n in node.output if n}
    readers: dict[str, set[int]] = {name: set() for name in maker}
    left = [i for i in range(len(nodes)) if i not in gone]
    for i in left:
        for name in read[i]:
            readers.setdefault(name, set()).add(i)
    found = []
    for members in _groups(maker, readers, held, left):
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
    """The given positions, and those of nodes that read a value which nothing can provide."""
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
    """Positions of the nodes of each group, in topological order of the groups.

    A value that a graph cannot hold ties its readers and its maker together: edges run both ways,
    and a group is a strongly connected component. So there is no cycle between groups.
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
