from __future__ import annotations

import random

import numpy as np
from onnx import helper

from nnfuzz.materialize.importing import import_onnx
from nnfuzz.mine.cuts import cuts
from nnfuzz.mine.generalise import generalised
from nnfuzz.operators.registry import OpRegistry
from tests.mine.models import attention, model

REGISTRY = OpRegistry.load()


def variant(made, fresh=lambda node: [False] * len(node.inputs)):
    view = import_onnx(made, REGISTRY, 21).graph.view()
    whole = next(cut for cut in cuts(view, fresh, random.Random(0)) if cut.whole)
    return whole, generalised(whole, REGISTRY.get, random.Random(0))


def test_equal_sizes_stay_equal_and_products_products():
    _, found = variant(attention())
    shape = found.inputs["x0"].shape
    split = [leaf["size"] for leaf in found.attributes[0]["shape"]]
    batch, length, channels = map(str, shape)
    assert split[:2] == [batch, length]
    assert sorted(channels.split("*")) == sorted(split[2:])
    assert found.attributes[1] == {"perm": [0, 2, 1, 3]}
    assert len(found.sizes) == 4


def test_constants_and_dtypes():
    _, found = variant(attention())
    assert [value.constant for value in found.inputs.values()] == [None, 0.25]
    assert len({value.dtype for value in found.inputs.values()}) == 1
    assert "float16" in found.dtypes[found.inputs["x0"].dtype]


def test_what_has_to_be_a_number_stays_one():
    weight = np.ones((6, 4, 3, 3), np.float32)
    conv = model(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["y"]),
        ],
        {"x": [1, 4, 8, 8]},
        {"y": [1, 6, 4, 4]},
        {"w": weight},
    )
    cut, found = variant(conv)
    assert [node.op for node in cut.part.nodes] == ["Conv", "Relu"]
    assert found.attributes[0]["strides"] == [2, 2]
    names = {name: [str(size) for size in v.shape] for name, v in found.inputs.items()}
    data, kernel = names["x0"], next(v for n, v in names.items() if n != "x0")
    assert data[1] == kernel[1]  # channels
    assert data[2] == data[3]


def test_large_sizes_become_small():
    _, found = variant(attention(heads=12, size=64, batch=1))
    assert all(usual <= 16 for usual, _ in found.sizes.values())
