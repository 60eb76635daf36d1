"""The result of checking a model."""

from __future__ import annotations

from nnfuzz.library.model_check import Computed, Output, OutputState, _states


def test_a_node_says_nothing_of_targets_that_do_not_run():
    right, idle = Computed("a O0", OutputState.RIGHT), Computed("b O0", "exception in import")
    assert _states(Output("y", "float32[2]", 1.0, computed=(right, idle)), ["b O0"]) == "right"
