"""The report of a finding."""

from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.base.bounds import Unusable
from nnfuzz.findings.folder import write_finding
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.report.tracker import model_text, tracker_report
from nnfuzz.testcase.identity import Probe


def test_report_tells_values_levels_and_model(finding_of, tmp_path):
    folder = write_finding(tmp_path / "f", finding_of("planted,bug=value"))
    report = (folder / "report.md").read_text()
    assert report.startswith("# planted: wrong value at Tanh after Add (O1 only)\n")
    assert "planted at O1 returns wrong values for output `y`." in report
    assert "| planted | O0 | ok | execute |" in report
    assert "| planted | O1 | mismatch | compare |" in report
    assert "| `y` | `[1, 2]` |" in report and "Tanh (h)" in report


def test_report_tells_which_test_it_was(finding_of):
    finding = finding_of("planted,bug=value")
    assert f"{finding.case.id}, exporter" in tracker_report(finding)
    probe = Probe(SupportKey.parse("direct:Add(float32)->float32"), 2)
    probed = replace(finding, case=replace(finding.case, id=probe))
    assert "probe direct:Add(float32)" in tracker_report(probed)


def test_a_model_whose_names_are_no_text_is_refused(finding_of):
    finding = finding_of("planted,bug=value")
    damaged = finding.case.model.replace(b"Tanh", b"Ta\xff\xfe")
    assert damaged != finding.case.model
    with pytest.raises(Unusable, match="the model is not valid"):
        tracker_report(replace(finding, case=replace(finding.case, model=damaged)))


def test_large_weights_are_not_printed():
    from onnx import TensorProto, helper, numpy_helper

    large = numpy_helper.from_array(np.ones(1000, np.float32), "large")
    small = numpy_helper.from_array(np.float32([0.125]), "small")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["small", "large"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1000])],
        [large, small],
    )
    shown = model_text(helper.make_model(graph).SerializeToString())
    assert "values in model.onnx: large" in shown and "float[1000] large" in shown
    assert "0.125" in shown and len(shown) < 500
