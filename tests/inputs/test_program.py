"""Graphs as programs of tensors."""

from __future__ import annotations

import numpy as np
import torch

from nnfuzz.inputs.program import Program
from tests.inputs.graphs import chain, op
from tests.inputs.test_search import found


def test_values_keep_their_inputs_untouched_by_operators():
    graph = chain(op("Relu"), op("Exp"))
    result = found(graph)
    values = {name: torch.from_numpy(array.copy()) for name, array in result.inputs.items()}
    assert Program(graph).run(values) is None
    np.testing.assert_array_equal(values["x"].numpy(), result.inputs["x"])
