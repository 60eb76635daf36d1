from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog, OpSignature
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import engine
from nnfuzz.generate.pairs import DECLARED, PLAIN, SHARE, Pair, pairs
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.motif import load_motifs
from nnfuzz.operators.operator import OpSpec
from tests.inputs.graphs import REGISTRY

CONFIG = admitted_by_schema(GenerateConfig(nodes=6, motifs=1.0), REGISTRY.specs())
CATALOG = Catalog(REGISTRY.specs(), CONFIG, load_motifs())
MADE = {m.name: m for m in CATALOG.motifs if isinstance(m.write, Pair)}
WANTED = """
    Clip+Clip DequantizeLinear+QuantizeLinear QuantizeLinear+DequantizeLinear Transpose+Transpose
    Reshape+Reshape Mul+Sqrt Pow+Sqrt Expand+ReduceSum Pad+MaxPool Pad+Conv Split+Concat Cast+Cast
    Slice+Slice Unsqueeze+Squeeze Squeeze+Unsqueeze Div+Mul Mul+Div Conv+BatchNormalization
""".split()


def graphs(name: str, count: int = 40):
    """Graphs with a pair, and the two nodes of each of its places."""
    catalog = Catalog(REGISTRY.specs(), CONFIG, load_motifs())
    catalog.motifs = (MADE[name],)
    front, behind = name.split("+")
    for seed in range(count):
        graph = engine("direct", catalog, CONFIG).next(random.Random(seed)).graph
        graph.verify()
        makers = graph.producer()
        for node in graph.nodes:
            before = makers.get(node.inputs[0])
            if node.op.name == behind and before is not None and before.op.name == front:
                yield graph, before, node


@pytest.mark.parametrize("name", WANTED)
def test_pairs_are_made_and_differ(name):
    found = list(graphs(name))
    assert len(found) >= 10
    if found[0][1].op.declared:
        settings = {str((a.op.attributes, b.op.attributes)) for _, a, b in found}
        assert len(settings) > len(found) / 2


def test_every_operator_of_which_it_is_said_is_there():
    for spec in REGISTRY.specs():
        for name in spec.merges:
            assert name in REGISTRY, f"{spec.name} merges with {name}"
            takes = spec.executes is OpSpec.executes and spec in CATALOG.signatures
            assert not takes or f"{name}+{spec.name}" in MADE


def test_what_compilers_merge_is_more_frequent_than_the_rest():
    written = sum(m.weight for m in CATALOG.motifs if m.name not in MADE)
    assert sum(m.weight for m in MADE.values()) == pytest.approx(SHARE * written)
    ratio = MADE["Clip+Clip"].weight / MADE["Sin+Sin"].weight
    assert ratio == pytest.approx(DECLARED / PLAIN)
    assert MADE["Pad+Conv"].weight < MADE["Clip+Clip"].weight


def test_an_operator_of_a_plug_in_gets_its_pairs():
    class Twice(OpSpec):
        operator_name = name = "Twice"
        merges = ("Half",)

    class Half(OpSpec):
        operator_name = name = "Half"

    number = OpSignature({}, DType.FLOAT32, DType.FLOAT32, "", 1.0)
    made = {m.name: m for m in pairs({Twice: (number,), Half: (number,)}, 10.0)}
    assert set(made) == {"Half+Twice", "Twice+Twice", "Half+Half"}
    assert made["Half+Twice"].dtypes == (DType.FLOAT32,)
    assert not pairs({Twice: (number,)}, 0.0)


def test_parts_come_in_another_order_and_the_first_dtype_comes_back():
    orders = Counter(split.outputs == joined.inputs for _, split, joined in graphs("Split+Concat"))
    assert orders[True] and orders[False]
    back = [
        graph.type(first.inputs[0]).dtype is graph.type(second.outputs[0]).dtype
        for graph, first, second in graphs("Cast+Cast")
    ]
    assert 0.3 < sum(back) / len(back) < 0.9


def test_operands_are_shared_or_not():
    shared = Counter(a.inputs[1] == b.inputs[1] for _, a, b in graphs("Div+Mul", 60))
    assert shared[True] > 5 and shared[False] > 5


def test_without_motifs_there_are_no_pairs():
    none = replace(CONFIG, motifs=0.0)
    found = engine("direct", CATALOG, none).next(random.Random(1))
    assert not found.motifs


class _Fixed:
    """Keeps every attribute of the operator in front."""

    def chance(self, share):
        return True


@pytest.mark.parametrize(
    ("front", "behind", "attributes", "kept"),
    [
        ("QuantizeLinear", "BlockQuantizeLinear", {"axis": None}, {}),
        ("Clip", "Clip", {"min": 0.0, "max": None}, {"min": 0.0, "max": None}),
    ],
)
def test_an_absent_attribute_is_kept_where_it_may_be_absent(front, behind, attributes, kept):
    front, behind = REGISTRY.get(front), REGISTRY.get(behind)
    op = SimpleNamespace(attributes=attributes, declared=front.declared)
    writer = SimpleNamespace(
        draw=_Fixed(),
        node=lambda y: SimpleNamespace(op=op),
        type=lambda value: SimpleNamespace(rank=1, dtype=DType.FLOAT32),
    )
    found = Pair(front, behind)._attributes(writer, "x", "y")
    assert {name: found[name] for name in found if name in attributes} == kept


def test_clip_keeps_a_bound_nearly_always_whichever_is_absent():
    clip, number = REGISTRY.get("Clip"), SimpleNamespace(dtype=DType.FLOAT32)
    draw = SimpleNamespace(
        chance=lambda share: share > 0.1, real=lambda lo, hi: lo, choice=lambda options: options[0]
    )
    for given in ("min", "max"):
        drawn = clip.draw_given(draw, {given: None}, number).attributes
        assert drawn.pop(given) is None and None not in drawn.values()
