"""What a report tells of numbers, levels and paths."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Accuracy, Distance, Verdict
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.findings.report import clauses, reference_value, tracker_report
from nnfuzz.findings.text import from_portable, impersonal, portable
from nnfuzz.records.finding import Origin
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import ForeignId, Numbered


def test_a_small_model_is_told_in_full(finding_of):
    report = tracker_report(finding_of("planted,bug=value"))
    assert "input x: float32[2, 3]\n[[-1.  -0.6 -0.2]\n [ 0.2  0.6  1. ]]" in report
    assert "weight w: float32[3]\n[1. 2. 3.]" in report
    assert "expected y (PyTorch): float32[2, 3]" in report
    assert "actual y (planted O0): float32[2, 3]" in report


def test_arrays_of_a_large_model_are_left_out(finding_of):
    finding = finding_of("planted,bug=value")
    large = {"x": np.zeros((50, 50), np.float32)}
    finding = replace(finding, case=replace(finding.case, inputs=large))
    assert "## Inputs and outputs" not in tracker_report(finding)


def test_every_target_is_held_against_the_reference(finding_of):
    finding = finding_of("planted,bug=value")
    low, high = (outcome.target for outcome in finding.outcomes)
    rows = {PYTORCH: (0.5, 0.0, 0.0), low: (0.5, 1e-9, 0.25), high: ("nan",) * 3}
    told = Accuracy(0.5, {target: Distance(*row) for target, row in rows.items()})
    waived = {"y": "It negates. Tanh-13: tangent"}
    verdict = replace(finding.verdict, accuracy={high: {"y": told}}, waived=waived)
    assert read(Verdict, as_json(verdict)) == verdict
    report = tracker_report(replace(finding, verdict=verdict))
    assert "| reference (float64) | `0.5` |" in report
    assert "| PyTorch (float32) | `0.5` | `0` | `0` |" in report
    assert "| planted O0 | `0.5` | `1e-09` | `0.25` |" in report
    assert "| planted O1 | `nan` | `nan` | `nan` |" in report
    assert "for this element.\nIt negates. Tanh-13: tangent\n" in report


def test_levels_are_told_only_where_there_are_several(finding_of):
    finding = finding_of("planted,bug=value")
    report = tracker_report(finding)
    assert "## Levels" in report
    alone = replace(finding, outcomes=finding.outcomes[1:])
    report = tracker_report(alone)
    assert "## Levels" not in report and "planted returns wrong values" in report


def test_no_path_of_this_machine_is_in_a_folder(finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    private = (str(Path.home()), str(Path.cwd()), tempfile.gettempdir(), np.__file__)
    leaky = " ".join(f'File "{path}/a.py", line 3' for path in private)
    outcomes = [
        replace(o, traceback=leaky, message=leaky, captured=leaky) for o in finding.outcomes
    ]
    localisation = {"party": "kernel", "evidence": [leaky], "levels": {}, "level": "O1"}
    origin = Origin(right_in=leaky)
    config = {**finding.config, "plugins": [str(Path.cwd() / "plugin.py")]}
    finding = replace(
        finding, outcomes=tuple(outcomes), config=config, origin=origin,
        localisation=localisation,
    )  # fmt: skip
    folder = write_finding(tmp_path / "f", finding)
    texts = [folder / name for name in ("report.md", "finding.json", "repro.py")]
    for path in (*private[:3], "site-packages"):
        assert not any(f"{path}/" in text.read_text() for text in texts), path
    assert json.loads(texts[1].read_text())["backend"]["plugins"] == ["planted.py"]
    back = read_finding(folder, lambda plugin: plugin)
    assert back.backend == replace(finding.backend, plugins=(str(folder / "planted.py"),))
    assert back.config == json.loads(json.dumps(config))


@pytest.mark.parametrize(
    "text, shown",
    [
        (f"{sys.path[-1]}/torch/x.py", "torch/x.py"),
        ("'/home/me/models/m.onnx'", "'~/models/m.onnx'"),
        ("at /tmp/tmpab12/a.so: bad", "at TMP: bad"),
        ("a / b, /usr/lib/libc.so.6", "a / b, /usr/lib/libc.so.6"),
    ],
)
def test_paths_are_told_without_their_machine(text, shown):
    assert impersonal(text) == shown


def test_files_are_found_again_by_their_portable_path():
    for path in (Path.cwd() / "a/b.py", Path.home() / "x.py", Path("/opt/p.py")):
        assert from_portable(portable(str(path))) == str(path)
    assert portable(str(Path.cwd() / "a/b.py")) == "a/b.py"


def test_a_case_without_arrays_says_nothing_of_them(finding_of):
    finding = finding_of("planted,bug=value")
    case = TestCase(Numbered(7, 4), finding.case.graph, b"", {}, {}, {}, "torchscript", 20)
    report = tracker_report(replace(finding, case=case, outcomes=(), verdict=None))
    assert "## Inputs and outputs" not in report


def test_a_model_of_a_user_is_called_that(finding_of):
    finding = finding_of("planted,bug=value")
    own = replace(finding, case=replace(finding.case, id=ForeignId(0)))
    assert "`, a model of a user, opset" in tracker_report(own)
    assert "exporter " in tracker_report(finding)


def finding(node, fault=None):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    array = np.array([-1.0, 2.0], np.float32)
    case = SimpleNamespace(
        model=model.SerializeToString(),
        fault=fault,
        inputs={"x": array},
        fed=[{"x": array}],
        weights={},
        expected={"y": array},
    )
    return SimpleNamespace(case=case)


def wrong(index):
    return SimpleNamespace(output="y", worst=SimpleNamespace(index=index))


LEAKY = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)


def test_a_clause_has_the_version_in_force_and_the_attributes_that_matter():
    assert clauses(finding(LEAKY)) == ["ONNX LeakyRelu-16, attribute alpha"]
    assert clauses(finding(LEAKY, fault="any")) == []


def test_the_reference_computes_the_worst_element():
    assert reference_value(finding(LEAKY), wrong((0,))) == "-0.5"


def test_what_the_reference_cannot_run_has_no_value():
    unknown = helper.make_node("NoSuchOperator", ["x"], ["y"])
    assert reference_value(finding(unknown), wrong((0,))) == ""
    assert clauses(finding(unknown)) == []
