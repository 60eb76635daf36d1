"""Finding folders: whole or absent, readable again, of use without nnfuzz."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend.modules import read_source
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import MODULE, Target
from nnfuzz.base.files import PARTIAL, atomic_folder, npz_bytes, remove_partial
from nnfuzz.base.reading import read
from nnfuzz.base.untrusted import read_npz
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.findings.folder import (
    MAX_TEXT,
    FindingError,
    folder_name,
    read_finding,
    write_finding,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.report.repro import program_of
from nnfuzz.report.tracker import model_text, tracker_report
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered, Probe
from nnfuzz.triage.signature import failures

ROOT = Path(__file__).parents[2]
FILES = {
    "model.onnx", "inputs.npz", "expected.npz", "actual.npz", "weights.npz", "finding.json",
    "report.md", "repro.py",
}  # fmt: skip


def run_repro(folder, *args, cwd=ROOT):
    return subprocess.run(
        [sys.executable, str(folder / "repro.py"), *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_everything_comes_back(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "deep" / folder_name(finding.failure), finding)
    assert {path.name for path in folder.iterdir()} == FILES | {"planted.py"}
    assert read_finding(folder).backend.plugins == ()  # nobody said that it may run
    back = read_finding(folder, lambda plugin: plugin)
    assert back.failure == finding.failure
    assert back.backend == replace(finding.backend, plugins=(str(folder / "planted.py"),))
    assert back.verdict == finding.verdict
    assert (back.config, back.origin) == (
        json.loads(json.dumps(finding.config)),
        finding.origin,
    )
    assert back.case.graph == finding.case.graph and back.case.model == finding.case.model
    for group in ("inputs", "weights", "expected"):
        for name, array in getattr(finding.case, group).items():
            np.testing.assert_array_equal(getattr(back.case, group)[name], array)
    for one, other in zip(back.outcomes, finding.outcomes, strict=True):
        assert as_json(one) == as_json(other)
        np.testing.assert_array_equal(one.outputs["y"], other.outputs["y"])
    assert list(folder.parent.iterdir()) == [folder]


def test_equal_findings_give_equal_bytes(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    one, other = (write_finding(tmp_path / name, finding) for name in "ab")
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes()


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


def test_hostile_text_stays_inside_of_its_place(finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    nasty = '"""\n```\n| a | \x1b[31mred\x07 </script> \\'
    outcomes = tuple(
        replace(o, message=nasty, captured=nasty * 9000) if not o.ok else o
        for o in finding.outcomes
    )
    (failure,) = failures(outcomes, None, finding.case.graph)
    finding = replace(finding, outcomes=outcomes, failure=failure)
    folder = write_finding(tmp_path / "f", finding, "def run(model, inputs, level): pass")
    report = (folder / "report.md").read_text()
    assert "\x1b" not in report and "\x07" not in report and len(report) < 20_000
    table = [line for line in report.splitlines() if line.startswith("| planted |")]
    assert all(line.replace("\\|", "").count("|") == 6 for line in table)
    assert report.count("````") == 2  # a longer fence than the one in the text
    compile((folder / "repro.py").read_text(), "repro.py", "exec")
    assert len(read_finding(folder).outcomes[1].captured) < MAX_TEXT + 100


def test_an_existing_folder_is_left_alone(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "f", finding)
    before = (folder / "finding.json").stat().st_mtime_ns
    with pytest.raises(FileExistsError):
        write_finding(folder, finding)
    assert (folder / "finding.json").stat().st_mtime_ns == before
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_kill_leaves_no_half_folder(tmp_path):
    killed = (
        "import os, sys; from pathlib import Path\n"
        "from nnfuzz.base.files import atomic_folder\n"
        f"with atomic_folder(Path({str(tmp_path / 'f')!r})) as made:\n"
        "    (made / 'model.onnx').write_bytes(b'half'); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert [p.name.startswith(PARTIAL) for p in tmp_path.iterdir()] == [True]
    remove_partial(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), atomic_folder(tmp_path / "f") as made:
        (made / "x").write_text("x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_exporter_failure_has_no_model(finding_of, tmp_path):
    from nnfuzz.triage.signature import export_failure

    finding = finding_of("planted,bug=value")
    case = TestCase(Numbered(7, 4), finding.case.graph, b"", {}, {}, {}, "torchscript", 20)
    failure = export_failure("torchscript", "SomeError", "no cosh")
    finding = replace(finding, failure=failure, case=case, outcomes=(), verdict=None, backend=None)
    folder = write_finding(tmp_path / "f", finding)
    assert not (folder / "model.onnx").exists() and not (folder / "repro.py").exists()
    assert "The exporter failed" in (folder / "report.md").read_text()
    assert read_finding(folder).failure == failure


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1}'])
def test_damaged_findings_are_refused(text, tmp_path):
    (tmp_path / "finding.json").write_text(text)
    with pytest.raises(FindingError):
        read_finding(tmp_path)


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


def test_npz_of_any_name(tmp_path):
    arrays = {"file": np.arange(3), "/a/b": np.float16(2).reshape(()), "é": np.zeros((0, 2), bool)}
    arrays |= {f"a@{d.value}": np.arange(2).astype(d.numpy) for d in DType}
    (tmp_path / "a.npz").write_bytes(npz_bytes(arrays))
    back = read_npz(tmp_path / "a.npz")
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()
    with pytest.raises(ValueError):
        npz_bytes({"x": np.array([object()])})


@pytest.mark.parametrize("bug", ["value", "shape", "raise"])
def test_repro_without_a_program_uses_nnfuzz(bug, finding_of, registry, tmp_path):
    finding = finding_of(f"planted,bug={bug}")
    program = program_of(finding.backend, registry)
    assert program is None
    folder = write_finding(tmp_path / "f", finding, program)
    shown = run_repro(folder)
    assert shown.returncode == 1, shown.stderr
    assert "Traceback" not in shown.stderr
    assert run_repro(folder, "O0").returncode == 0


def test_repro_of_a_crash_dies_by_the_signal(finding_of, tmp_path):
    folder = write_finding(tmp_path / "f", finding_of("planted,bug=abort"))
    shown = run_repro(folder)
    assert shown.returncode == -6
    assert "killed by SIGABRT" in shown.stdout
    assert "SIGABRT ends it" in (folder / "repro.py").read_text()


def onnxruntime_finding(finding_of, registry, value):
    """A finding that claims ONNX Runtime to be wrong, unless tanh(4) is `value`."""
    finding = finding_of("planted,bug=value")
    spec = registry.parse("onnxruntime")
    (wrong,) = finding.verdict.mismatches[finding.failure.targets[0]]
    worst = replace(wrong.worst, expected=value, lo=value - 1e-5, hi=value + 1e-5)
    verdict = Verdict({Target("onnxruntime", pipeline="O3"): (replace(wrong, worst=worst),)})
    outcomes = tuple(
        Outcome(
            OutcomeKind.OK,
            Stage.EXECUTE,
            Target("onnxruntime", pipeline=level),
            outputs=finding.case.expected,
        )
        for level in ("O0", "O3")
    )
    (failure,) = failures(outcomes, verdict, finding.case.graph)
    return replace(finding, failure=failure, outcomes=outcomes, verdict=verdict, backend=spec)


@pytest.mark.parametrize("value, code", [(0.9, 1), (float(np.tanh(np.float32(4))), 0)])
def test_repro_for_onnxruntime_needs_no_nnfuzz(value, code, finding_of, registry, tmp_path):
    finding = onnxruntime_finding(finding_of, registry, value)
    folder = write_finding(tmp_path / "f", finding, program_of(finding.backend, registry))
    script = (folder / "repro.py").read_text()
    assert "import nnfuzz" not in script and "from nnfuzz" not in script
    # Whoever imports nnfuzz in spite of that fails.
    (folder / "nnfuzz.py").write_text("raise ImportError('not here')")
    shown = run_repro(folder)
    assert shown.returncode == code, shown.stderr
    assert "element (1, 2): actual 0.9993" in shown.stdout


def test_repro_does_not_round_the_bounds(finding_of, registry, tmp_path):
    import onnxruntime

    case = finding_of("planted,bug=value").case
    session = onnxruntime.InferenceSession(case.model)
    (name,) = case.expected
    actual = float(session.run([name], case.inputs)[0][1, 2])
    # What is admitted ends less than half a unit below it.
    value = actual - 1e-5 - 1.3 * 2.0**-24
    finding = onnxruntime_finding(finding_of, registry, value)
    folder = write_finding(tmp_path / "f", finding, program_of(finding.backend, registry))
    assert run_repro(folder).returncode == 1


@pytest.mark.parametrize(
    "x, expected, actual, code",
    [
        (np.nan, "nan", 1.0, 0),
        (0.5, "nan", 1.0, 1),
        (np.inf, 1.0, "nan", 0),
        (-3.0, -0.0, 0.0, 1),
        (-3.0, 0.0, -0.0, 0),
        (0.5, 0.0, -0.0, 1),
    ],
)
def test_repro_at_edges_holds_all_it_needs(
    x, expected, actual, code, finding_of, registry, tmp_path
):
    """Of tanh(x + 3): NaN for NaN, and a zero that is wrong by its sign alone."""
    finding = onnxruntime_finding(finding_of, registry, 0.0)
    inputs = {"x": finding.case.inputs["x"].copy()}
    inputs["x"][1, 2] = x
    numbers = {"expected": expected, "actual": actual, "lo": expected, "hi": expected}
    told = as_json(finding.verdict)
    for mismatches in told["mismatches"].values():
        for mismatch in mismatches:
            mismatch["worst"] |= numbers
    changed = replace(
        finding, case=replace(finding.case, inputs=inputs), verdict=read(Verdict, told)
    )
    folder = write_finding(tmp_path / "f", changed, program_of(finding.backend, registry))
    for name in ("inputs.npz", "model.onnx"):
        (folder / name).unlink()
    shown = run_repro(folder)
    assert shown.returncode == code, shown.stdout + shown.stderr
    assert "element (1, 2)" in shown.stdout
    assert ("the sign of zero differs" in shown.stdout) == (x == -3.0 and code == 1)


@pytest.mark.parametrize("bug", ["value", "raise"])
@pytest.mark.parametrize("lacking", ["no_such_compiler", "numpy"])
def test_repro_that_cannot_run_says_skip_to_a_bisection(bug, lacking, finding_of, tmp_path):
    program = "def run(model, inputs, level):\n    import no_such_compiler\n"
    folder = write_finding(tmp_path / "f", finding_of(f"planted,bug={bug}"), program)
    if lacking == "numpy":
        (folder / "numpy.py").write_text("raise ImportError('no numpy here')")
    shown = run_repro(folder)
    assert shown.returncode == 125, shown.stderr
    assert "cannot run: " in shown.stdout and "Traceback" not in shown.stderr


RUN_MODULE = """
def run(model, inputs, level):
    found = model(*(to_torch(inputs[name]) for name in model.inputs))
    wrong = level == "O1"
    return {n: to_numpy(x, d) + wrong for (n, d), x in zip(model.outputs.items(), found)}
"""


def module_finding(finding, code):
    """The same finding, as if a backend had failed that reads PyTorch."""
    targets = tuple(replace(t, form=MODULE) for t in finding.failure.targets)
    failure = replace(finding.failure, targets=targets)
    localisation = {"party": "optimiser", "level": "O1", "evidence": [], "module": code}
    wrong = {replace(t, form=MODULE): w for t, w in finding.verdict.mismatches.items()}
    verdict = replace(finding.verdict, mismatches=wrong)
    return replace(finding, failure=failure, localisation=localisation, verdict=verdict)


def test_repro_of_a_module_is_written_in_pytorch(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    code = read_source(finding.case.source(MODULE)).code()
    folder = write_finding(tmp_path / "f", module_finding(finding, code), RUN_MODULE)
    script = (folder / "repro.py").read_text()
    assert "nnfuzz" not in script and "onnx" not in script
    assert "torch.ops.aten.tanh" in (folder / "report.md").read_text()
    assert "to_numpy" not in (folder / "report.md").read_text()
    assert run_repro(folder).returncode == 1
    assert run_repro(folder, "O0").returncode == 0


def test_repro_of_a_module_that_nobody_wrote_out_needs_nnfuzz(finding_of, tmp_path):
    folder = write_finding(
        tmp_path / "f", module_finding(finding_of("planted,bug=value"), ""), RUN_MODULE
    )
    assert "nnfuzz.backend.modules" in (folder / "repro.py").read_text()


def test_repro_for_tvm_is_python(registry, finding_of, tmp_path):
    finding = replace(finding_of("planted,bug=value"), backend=registry.parse("tvm"))
    for options in ({}, {"target": "cuda"}, {"exec_mode": "compiled"}):
        spec = registry.spec("tvm", options)
        folder = write_finding(tmp_path / str(options), finding, program_of(spec, registry))
        compile((folder / "repro.py").read_text(), "repro.py", "exec")
