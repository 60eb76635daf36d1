"""Arrangements hold the operators of a focus, joined in many ways."""

from __future__ import annotations

import random

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.arrangements import FIRST, Arrangement, PlainDraw, arrangements
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import engine
from tests.inputs.graphs import REGISTRY

SPECS = REGISTRY.specs()


def graphs(focus: tuple[str, ...], count: int = 60):
    """Graphs of a single motif, the arrangement of a focus."""
    config = admitted_by_schema(GenerateConfig(nodes=6, focus=focus), SPECS)
    catalog = Catalog(SPECS, config)
    catalog.motifs = tuple(m for m in catalog.motifs if isinstance(m.write, Arrangement))
    assert len(catalog.motifs) == 1
    for seed in range(count):
        made = engine("direct", catalog, config).next(random.Random(seed))
        made.graph.verify()
        if made.motifs:
            yield made.graph


def edges(graph):
    """Operators with those that read them."""
    makers = graph.producer()
    pairs = ((makers.get(n), node) for node in graph.nodes for n in node.inputs)
    return {(maker.op.name, node.op.name) for maker, node in pairs if maker}


@pytest.mark.parametrize("focus", [("Cast", "Div", "Mul"), ("Conv", "Pad"), ("Split",)])
def test_every_operator_is_there_and_reads_the_others_in_any_order(focus):
    made = list(graphs(focus))
    assert len(made) >= 30
    assert all({*focus} <= {node.op.name for node in graph.nodes} for graph in made)
    joined = set().union(*map(edges, made))
    others = {(a, b) for a in focus for b in focus if a != b}
    assert others <= joined


def test_some_nodes_are_twins_and_some_values_have_several_readers():
    twins = readers = 0
    for graph in graphs(("Slice",)):
        nodes = [(n.inputs[0], str(n.op.attributes)) for n in graph.nodes if n.op.name == "Slice"]
        twins += len(nodes) > len(set(nodes))
        read = [n.inputs[0] for n in graph.nodes if n.op.name == "Slice"]
        readers += len(read) > len(set(read))
    assert twins and readers > twins


def test_operands_are_folded_constants_at_times():
    def folded(graph):
        fixed = {*graph.weights}
        return any(n.op.name == "Div" and {*n.inputs} <= fixed for n in graph.nodes)

    assert sum(map(folded, graphs(("Div", "Mul", "Identity")))) >= 3


def test_plain_dice_prefer_the_first_option():
    draw = PlainDraw(random.Random(1))
    chosen = [draw.choice("abcd") for _ in range(400)]
    assert FIRST - 0.1 < chosen.count("a") / 400 < 1.0 and {*chosen} == {*"abcd"}


def test_without_operators_there_is_no_arrangement():
    assert arrangements(SPECS, (), 1.0) == []
    assert arrangements(SPECS, ("NoOperator",), 1.0) == []
