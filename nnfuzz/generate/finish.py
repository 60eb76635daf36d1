"""From a grown graph to a concrete one with inputs, weights and outputs."""

from __future__ import annotations

from nnfuzz.generate.growth import Growth
from nnfuzz.ir.graph import Graph

EXTRA_OUTPUT = 0.05


def finish(growth: Growth) -> Graph:
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
