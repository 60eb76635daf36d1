from __future__ import annotations

import random

import numpy as np
import pytest

from nnfuzz.operators.operator import ConstraintError
from nnfuzz.operators.registry import OpRegistry
from scripts.check.constraints import Group, Tally, explained, page, refusal, run_both
from scripts.check.legal_nodes import KINDS, LegalNode, changed

REGISTRY = OpRegistry.load()


def pool(**attributes):
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    given = {"kernel_shape": [2, 2], **attributes}
    return LegalNode("AveragePool", 22, given, (x,), (False,), (True,))


def test_an_admitted_node_has_no_refusal():
    node = pool(strides=[2, 2])
    model = node.model()
    assert run_both(model.SerializeToString(), node.given) == (True, True)
    assert refusal(node, model, REGISTRY) is None


def test_a_refusal_is_explained_by_the_line_and_the_comment_above_it():
    node = pool(ceil_mode=1, strides=[2, 2], pads=[0, 0, 1, 1])
    with pytest.raises(ConstraintError) as caught:
        spec = REGISTRY.get("AveragePool")
        given = {"auto_pad": "NOTSET", "count_include_pad": 0}
        types = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (2, 2, 0, 0), "ceil_mode": 0}
        spec(**given, **types).check(node_type(node))
    what, reason = explained(caught.value)
    assert what.startswith("opspecs/pool.py: `yield before < window")
    assert "ONNX Runtime" in reason


def node_type(node):
    from nnfuzz.check.reference_implementations import type_of

    return type_of(node.inputs[0])


def test_changes_keep_the_form_of_a_node():
    rng = random.Random(0)
    made = 0
    for _ in range(200):
        try:
            node = changed(pool(strides=[1, 1], pads=[0, 0, 0, 0]), rng)
        except (LookupError, ValueError):
            continue
        made += 1
        assert len(node.inputs) == len(node.constant)
    assert made > 100
    assert len(KINDS) > 8


def test_the_page_has_a_row_per_group_that_two_runtimes_agree_on():
    tally = Tally()
    tally.groups["Add", "a"] = Group("Add", "a | b", "because", 2, 2, "Add-14(x)")
    tally.groups["Sub", "c"] = Group("Sub", "c", "", 2, 0, "Sub-14(x)")
    text = page(tally)
    assert "| `Add` | a \\| b | because | `Add-14(x)` |" in text
    assert "Sub" not in text
