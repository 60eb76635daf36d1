"""Regions: consecutive nodes that leave the main graph, with their inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import onnx

from nnfuzz.materialize.emit import rename_in_place
from nnfuzz.materialize.walk import reads
from nnfuzz.rewrite.draft import Draft

MOST_NODES = 4


@dataclass(frozen=True)
class Region:
    """Nodes `start` to `stop` of the main graph, which topological order makes convex.

    inputs: values from outside that the nodes or their sub-graphs read. outputs: values that later
    nodes read.
    """

    start: int
    stop: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def nodes(self, draft: Draft) -> list[onnx.NodeProto]:
        """Copies of the nodes."""
        own = draft.graph.node[self.start : self.stop]
        return [onnx.NodeProto.FromString(node.SerializeToString()) for node in own]

    def replaced(self, draft: Draft, nodes: Sequence[onnx.NodeProto]) -> None:
        """Replaces the region by other nodes."""
        all_ = [*draft.graph.node]
        draft.set_nodes([*all_[: self.start], *nodes, *all_[self.stop :]])


def known_regions(draft: Draft) -> list[Region]:
    """All regions of up to MOST_NODES nodes whose outputs have known types."""
    count = len(draft.graph.node)
    spans = [(i, j) for i in range(count) for j in range(i + 1, min(i + MOST_NODES, count) + 1)]
    regions = (region(draft, *span) for span in spans)
    return [r for r in regions if r.outputs and all(name in draft.types for name in r.outputs)]


def region(draft: Draft, start: int, stop: int) -> Region:
    nodes = draft.graph.node[start:stop]
    made = [name for node in nodes for name in node.output if name]
    read = dict.fromkeys(name for node in nodes for name in reads(node))
    ends = [
        n for n in made if n in draft.outputs or any(i >= stop for i in draft.readers.get(n, ()))
    ]
    return Region(start, stop, tuple(n for n in read if n not in made), tuple(ends))


def renamed_nodes(
    draft: Draft, region: Region, names: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The region's nodes with fresh names for all that they compute, and the output names.

    names: of values that the nodes read, in their place.
    """
    nodes = region.nodes(draft)
    fresh = {name: draft.fresh("in") for node in nodes for name in node.output if name}
    return [kept_name(n, {**names, **fresh}) for n in nodes], [fresh[n] for n in region.outputs]


def kept_name(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """The node, changed in place, with other names for values, but its own name."""
    label = node.name
    rename_in_place(node, names)
    node.name = label
    return node
