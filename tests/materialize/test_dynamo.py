"""Shortcuts of the dynamo exporter."""

from __future__ import annotations

import pytest

from nnfuzz.materialize import dynamo
from nnfuzz.materialize.module import GraphModule, tensors
from nnfuzz.materialize.scoped import patched
from tests.materialize.test_exporters import random_cases


def traced(graph, found):
    module = GraphModule(graph, found.weights).eval()
    inputs = tensors({n: found.inputs[n] for n in graph.inputs})
    return module, tuple(inputs.values()), module.input_names, module.output_names


@pytest.mark.slow
def test_dynamo_shortcuts_change_no_byte():
    export = dynamo.DynamoExport()
    assert len(export.shortcuts) == 3
    for graph, found in random_cases("dynamo", 18, 2, 3):
        call = (*traced(graph, found), 18)
        with patched(export.shortcuts):
            quick = dynamo.stock(*call)
        assert quick == dynamo.stock(*call)
