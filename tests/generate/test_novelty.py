from __future__ import annotations

import random

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import engine
from nnfuzz.generate.novelty import rejects, surprise, vertex
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.features import features
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
COMMON = "Abs Add Cast Concat Exp MatMul Mul ReduceMean Relu Reshape Sigmoid Softmax Transpose"
SCALAR, IMAGE = (TensorType(DType.FLOAT32, shape) for shape in ((), (1, 3, 17, 40)))


@pytest.mark.parametrize("name", ["direct", "symbolic"])
def test_hardly_any_vertex_occurs_twice(name: str) -> None:
    specs = REGISTRY.select(COMMON.split()).specs()
    config = admitted_by_schema(GenerateConfig(nodes=10, motifs=0.0), specs)
    made_by = engine(name, Catalog(specs, config), config)
    graphs = [features(made_by.next(random.Random(i)).graph.view()) for i in range(40)]
    vertices = [node.vertex for found in graphs for node in found.nodes]
    assert len(set(vertices)) / len(vertices) > 0.93
    assert len({node.op for found in graphs for node in found.nodes}) == len(specs)


def test_a_vertex_of_a_scalar_says_less_than_one_of_an_image() -> None:
    relu = REGISTRY.get("Relu")()
    assert surprise(relu, [SCALAR]) < 4 < 16 < surprise(relu, [IMAGE])
    draw = Draw(random.Random(0))
    assert sum(rejects(draw, relu, [SCALAR], 5.0) for _ in range(200)) > 150
    assert not any(rejects(draw, relu, [IMAGE], 5.0) for _ in range(200))


def test_a_vertex_is_operator_attributes_and_types() -> None:
    transpose = REGISTRY.get("Transpose")
    one, other = transpose(perm=(0, 1)), transpose(perm=(1, 0))
    types = [TensorType(DType.FLOAT32, (2, 3))]
    assert vertex(one, types) == vertex(transpose(perm=(0, 1)), list(types))
    assert vertex(one, types) != vertex(other, types)
    assert vertex(one, types) != vertex(one, [types[0].with_dtype(DType.FLOAT64)])
