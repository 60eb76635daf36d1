"""Patches of libraries that last for one export."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnfuzz.ir.graph import Node
from nnfuzz.materialize import dynamo, torchscript
from nnfuzz.materialize.module import GraphModule
from nnfuzz.materialize.scoped import Patch, patched, patches
from tests.materialize.test_exporters import X, graph_of, op


@pytest.mark.parametrize("export", [torchscript.TorchScriptExport(), dynamo.DynamoExport()])
def test_shortcuts_that_raise_fall_back_to_the_public_call(export):
    def fails(*args, **kwargs):
        raise TypeError("changed")

    graph = graph_of([Node(op("Neg"), ("x",), ("n",))], ["x"], [], ["n"])
    module = GraphModule(graph, {})
    call = (module.eval(), (torch.tensor(X),), ["x"], ["n"], 18)
    expected = export(*call)
    broken = type(export)()
    first = export.shortcuts[0]
    broken.shortcuts = (Patch(first.owner, first.name, fails),)
    assert broken(*call) == expected
    broken.shortcuts = ()
    assert broken(*call) == expected


def test_missing_private_names_leave_no_patch():
    def gone():
        return [Patch(np, "no_such_name", None)]

    def unimportable():
        raise ImportError("moved")

    assert patches(gone) == ()
    assert patches(unimportable) == ()


def test_patches_are_undone_after_an_exception():
    class Owner:
        value = 1

    with pytest.raises(KeyError), patched([Patch(Owner, "value", 2)]):
        assert Owner.value == 2
        raise KeyError
    assert Owner.value == 1
