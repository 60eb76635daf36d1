"""Scripts that check: the score of triage, constraints, passes, campaigns side by side."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from nnfuzz.base.files import npz_bytes
from nnfuzz.operators.operator import ConstraintError
from scripts.campaigns import differences
from scripts.check.constraints import explained, refusal, run_both
from scripts.check.legal_nodes import KINDS, LegalNode, changed
from scripts.check.triage import Row, read_rows, score, table, variants
from tests.inputs.graphs import REGISTRY

CAUSES = {b"1": {"sin"}, b"2": {"sin"}, b"3": {"sin", "cos"}, b"4": set(), b"5": {"cos"}}


def truth(model, inputs):
    assert inputs.keys() == {"x"}
    return CAUSES[model]


@pytest.fixture
def campaign(tmp_path):
    """Five findings; the first is reduced and has swallowed the last."""

    def finding(name, model):
        folder = tmp_path / "findings" / name
        folder.mkdir(parents=True)
        (folder / "finding.json").write_text("{}")
        (folder / "model.onnx").write_bytes(model)
        (folder / "inputs.npz").write_bytes(npz_bytes({"x": np.zeros(1)}))

    listed = [
        {"signature": h, "title": f"finding {h}", "folder": f"findings/b-mismatch-{h}"}
        for h in "abcd"
    ]
    listed[0]["suspects"] = ["e", "gone"]
    for name, model in zip("abcde", (b"3", b"2", b"3", b"4", b"5")):
        finding(f"b-mismatch-{name}", model)
    finding("b-mismatch-a/reduced", b"1")
    (tmp_path / "summary.json").write_text(json.dumps({"signatures": listed}))
    return tmp_path


def test_findings_are_scored_by_their_true_causes(campaign):
    rows = read_rows(campaign)
    assert [row.reduced for row in rows] == [True, False, False, False]
    found = score(rows, truth)
    assert found.first == {"sin": "a"}
    assert found.duplicates == {"b": "a"}
    assert found.unclear == ["c"]
    assert found.unplanted == ["d"]
    assert found.buckets == {"a": ["b-mismatch-e"]}
    text = table(found, ["sin", "cos"])
    assert "| 4 | 1 | 1 of 2 | 1 | 1 | 1 | 1 |" in text
    assert "missed: cos" in text


def test_a_row_shows_its_smallest_model(tmp_path):
    row = Row({"signature": "a"}, tmp_path)
    assert row.smallest == tmp_path and not row.reduced
    (tmp_path / "reduced").mkdir()
    assert row.smallest == tmp_path / "reduced" and row.reduced


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
    from nnfuzz.check.runtimes import type_of

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


# Two campaigns are compared group by group.


ONE = {"tests": {0: ("a", "run"), 1: ("b", "run")}, "signatures": {"s": ("7:0",)}}


def test_equal_campaigns_have_no_differences():
    assert list(differences(ONE, ONE)) == []


def test_the_first_difference_of_each_group_is_reported():
    other = {"tests": {0: ("a", "run"), 1: ("c", "run"), 2: ("d", "run")}, "signatures": {}}
    tests, signatures = differences(ONE, other)
    assert tests == "2 tests differ, first 1: ('b', 'run') and ('c', 'run')"
    assert signatures == "1 signatures differ, first s: ('7:0',) and None"


def test_a_bug_is_told_once_more_with_other_names_beside_another_operator(tmp_path):
    text = "<ir_version: 8, opset_import: ['' : 17]> g (float[2] x) => (float[2] y) { y = Exp (x) }"
    model = text.replace("'", '"')
    script = f"MODEL = '''{model}'''\nINPUTS = {{'x': np.ones(2, 'float32')}}\n"
    (tmp_path / "repro.py").write_text(script)
    plain, varied = (case for _, case in variants(tmp_path))
    assert [node.op for node in plain.graph.nodes] == ["Exp"] and plain.opset == 17
    assert [node.op for node in varied.graph.nodes] == ["Exp", "Softplus"] and varied.opset == 21
    assert {*varied.inputs} == {"other_x", "x"}
