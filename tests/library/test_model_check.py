"""The result of checking a model."""

from __future__ import annotations

from nnfuzz.library.model_check import Computed, Output, OutputState, _of_node


def test_a_node_says_nothing_of_targets_that_do_not_run():
    computed = (
        Computed("a O0", OutputState.RIGHT),
        Computed("b O0", "exception in import"),
    )
    value = Output("y", "float32[2]", 1.0, computed=computed, operator="Add")
    assert _of_node(value, {"b O0": "exception: no"}).endswith("Add -> y float32[2]: right")
