"""The report of a finding."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import THREADS, TURNS, WAYS
from nnfuzz.base.untrusted import Unusable
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.compilers import examine
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.findings.reduced import reduce_folder
from nnfuzz.findings.replay import ReplayResult, replay_finding
from nnfuzz.findings.report import model_text, tracker_report
from nnfuzz.findings.repro import program_of
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import CALLED_DIRECT
from nnfuzz.records.finding import Finding, Origin
from nnfuzz.reduction.candidate import ReductionFigures
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.identity import Numbered, Probe

from .conftest import BENCH, W, X, model


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


REMEMBERING = Path(__file__).parent / "remembering_backend.py"
LONGER = np.vstack([X, X[:1]])


@pytest.fixture
def dynamic(case):
    """The test case at two sizes."""
    proto = onnx.load_from_string(model())
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n0"
    inputs = {"x": X, "x_at1": LONGER}
    expected = {"y": np.tanh(X + W), "y_at1": np.tanh(LONGER + W)}
    data = proto.SerializeToString()
    return replace(case, model=data, inputs=inputs, expected=expected, exporter=CALLED_DIRECT)


@pytest.fixture
def finding(dynamic, runner_of):
    seen = examine(dynamic, runner_of("planted,bug=value"), BENCH)
    (failure,) = seen.failures
    spec = runner_of("planted,bug=value").spec
    config = as_json(CaseConfig())
    return Finding(failure, dynamic, seen.outcomes, spec, config, seen.verdict)


def test_every_size_is_run(finding):
    for outcome in finding.outcomes:
        assert {name: a.shape for name, a in outcome.outputs.items()} == {
            "y": (2, 3),
            "y_at1": (3, 3),
        }


def test_the_finding_is_told_stored_and_replayed(finding, tmp_path, registry, runner_of):
    program = program_of(finding.backend, registry, finding.case)
    folder = write_finding(tmp_path / "finding", finding, program)
    report = (folder / "report.md").read_text()
    assert "compiled once and called 2 times, one call after the other with these sizes: " in report
    assert "`x[2, 3]`; `x[3, 3]`" in report
    again = read_finding(folder)
    assert again.case.inputs.keys() == finding.case.inputs.keys()
    assert (
        replay_finding(again, runner_of("planted,bug=value"), BENCH).answer
        is ReplayResult.REPRODUCED
    )
    assert replay_finding(again, runner_of("planted,bug=none"), BENCH).answer is ReplayResult.FIXED


@pytest.mark.parametrize("way", ["", TURNS, THREADS])
def test_the_script_runs_every_size(dynamic, runner_of, tmp_path, way):
    level, runner = "+".join(filter(None, ("O1", way))), runner_of("planted,bug=value")
    seen = examine(dynamic, runner, BENCH, ["O0", level])
    failed, config = seen.failures[0], as_json(CaseConfig())
    finding = Finding(failed, dynamic, seen.outcomes, runner.spec, config, seen.verdict)
    assert level in failed.levels
    folder = write_finding(tmp_path / "finding", finding, None)
    script = [sys.executable, str(folder / "repro.py"), level]
    assert "def run_calls(" in (folder / "repro.py").read_text()
    run = subprocess.run(script, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1, run.stderr
    assert not way or WAYS[way] in (folder / "report.md").read_text()
    assert f"{level}: y is float32[2, 3]" in run.stdout


@pytest.mark.slow
def test_a_failure_of_the_second_run_is_shown_by_one_program_for_all_sizes(tmp_path):
    registry = BackendRegistry.discover([REMEMBERING])
    spec = registry.parse("remembering")
    config = CaseConfig(nodes=2, exporter="direct", opset=18, operators=("Neg", "Add"), dynamic=1.0)
    with (
        ProducerClient(5, as_json(config)) as producer,
        BackendRunner(spec, registry) as runner,
    ):
        made = (producer.produce(Numbered(5, index)) for index in range(20))
        case = next(c for c in made if isinstance(c, TestCase) and c.exporter == CALLED_DIRECT)
        seen = examine(case, runner, producer)
    found = Finding(seen.failures[0], case, seen.outcomes, spec, as_json(config), seen.verdict)
    folder = write_finding(tmp_path / "finding", found, program_of(spec, registry, case))
    _, reduced = reduce_folder(folder, trusted=str)
    title = reduced.signature.title
    assert "only at call 2" in title and "does not reproduce" not in title
    script = folder / "reduced" / "repro.py"
    assert "def compiled(model, level):" in script.read_text()
    assert subprocess.run([sys.executable, str(script)], timeout=60).returncode == 1
    assert subprocess.run([sys.executable, str(folder / "repro.py")], timeout=60).returncode == 1


def test_what_is_reduced_and_still_dynamic_needs_to_be(finding, tmp_path):
    reduced = replace(finding, origin=Origin(reduction=ReductionFigures((2, 2))))
    folder = write_finding(tmp_path / "finding", reduced, None)
    assert "With static shapes the same graph did not fail" in (folder / "report.md").read_text()
