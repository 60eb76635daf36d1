"""Graphs as programs of tensors."""

from __future__ import annotations

import numpy as np
import torch

from nnfuzz.inputs.program import Program
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from tests.inputs.graphs import build, chain, op
from tests.inputs.test_search import found


def test_values_keep_their_inputs_untouched_by_operators():
    graph = chain(op("Relu"), op("Exp"))
    result = found(graph)
    values = {name: torch.from_numpy(array.copy()) for name, array in result.inputs.items()}
    assert Program(graph).run(values) is None
    np.testing.assert_array_equal(values["x"].numpy(), result.inputs["x"])


def test_computed_indices_that_are_out_of_range_are_a_violation():
    """Of an operator made of others, too."""
    embed = op("com.microsoft.EmbedLayerNormalization", epsilon=1e-5, summed=0)
    ids, width = TensorType(DType.INT32, (1, 2)), TensorType(DType.FLOAT32, (4,))
    table = TensorType(DType.FLOAT32, (3, 4))
    tables = {"words": table, "places": table, "scale": width, "shift": width}
    steps = [("i", op("Neg"), ["x"]), ("y", embed, ["i", *tables])]
    graph = build({"x": ids, **tables}, steps, list(tables))
    values = {name: torch.ones(graph.type(name).sizes) for name in tables}
    for start, right in ((0, True), (8, False)):
        values["x"] = torch.full((1, 2), start, dtype=torch.int32)
        assert (Program(graph).run(values) is None) is right
