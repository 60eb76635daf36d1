"""Shortcuts of the TorchScript exporter."""

from __future__ import annotations

import pytest

from nnfuzz.materialize import torchscript
from nnfuzz.materialize.scoped import patched
from tests.materialize.test_dynamo import traced
from tests.materialize.test_exporters import random_cases


@pytest.mark.parametrize(("opset", "seed"), [(13, 1), (20, 2)])
def test_torchscript_shortcuts_change_no_byte(opset, seed):
    export = torchscript.TorchScriptExport()
    assert len(export.shortcuts) == 6
    for graph, found in random_cases("torchscript", opset, 12, seed):
        call = (*traced(graph, found), opset)
        with patched(export.shortcuts):  # not through `export`, which falls back silently
            quick = torchscript.stock(*call)
        assert quick == torchscript.stock(*call)
