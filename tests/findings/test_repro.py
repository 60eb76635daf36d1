"""The script of a finding."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from nnfuzz.backend.complaint import Complaint
from nnfuzz.backend.contract import InputChanged
from nnfuzz.backend.modules import read_source
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import MODULE, Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.findings.repro import inlined, program_of
from nnfuzz.triage.signature import failures
from nnfuzz.vary.rewrite.rewriting import Step, rewritten

ROOT = Path(__file__).parents[2]


def run_repro(folder, *args, cwd=ROOT):
    return subprocess.run(
        [sys.executable, str(folder / "repro.py"), *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


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


@pytest.mark.parametrize("loads_files", [True, False])
def test_repro_of_a_model_with_external_data(
    loads_files, finding_of, registry, tmp_path, monkeypatch
):
    """It reads the files beside it; a compiler that loads none gets the model as bytes."""
    finding = onnxruntime_finding(finding_of, registry, float(np.tanh(np.float32(4))))
    proto = onnx.load_model_from_string(finding.case.model)
    proto.graph.node[-1].output[0] = "t"
    proto.graph.node.add(op_type="Add", input=["t", "zero"], output=["y"])
    weight = onnx.numpy_helper.from_array(np.zeros(1, np.float32), "zero")
    for key, value in {"location": "a/b/w.0.1", "offset": "1", "length": "4"}.items():
        weight.external_data.add(key=key, value=value)
    proto.graph.initializer.append(weight)
    case = replace(finding.case, model=proto.SerializeToString(deterministic=True))
    finding = replace(finding, case=case)
    monkeypatch.setattr(registry.get("onnxruntime"), "loads_files", loads_files)
    program = program_of(finding.backend, registry, case)
    assert ("run_whole" in program) != loads_files
    folder = write_finding(tmp_path / "f", finding, program)
    assert (folder / "a" / "b" / "w.0.1").stat().st_size == 5
    assert read_finding(folder).case.model == case.model
    shown = run_repro(folder)
    assert shown.returncode == 0, shown.stdout + shown.stderr


@pytest.mark.parametrize("rule", ["text_input", "operand_as_input"])
def test_repro_of_a_model_with_other_ends(rule, finding_of, registry, tmp_path):
    finding = onnxruntime_finding(finding_of, registry, float(np.tanh(np.float32(4))))
    proto = onnx.load_model_from_string(finding.case.model)
    whole = onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [2])
    proto.graph.input.append(whole)
    proto.graph.node.add(op_type="Reshape", input=["n", "two"], output=["m"])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2]), "two"))
    model, done = rewritten(proto.SerializeToString(), [Step(rule, 1)])
    assert done
    inputs = {**finding.case.inputs, "n": np.array([1, -2])}
    case = replace(finding.case, model=model, inputs=inputs)
    program = program_of(finding.backend, registry, case)
    assert "run_packed" in program
    folder = write_finding(tmp_path / "f", replace(finding, case=case), program)
    shown = run_repro(folder)
    assert shown.returncode == 0, shown.stdout + shown.stderr


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
        (-3.0, -0.0, 0.0, 1),
        (-3.0, 0.0, -0.0, 0),
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


@pytest.mark.parametrize(("bug", "lacking"), [("value", "numpy"), ("raise", "no_such_compiler")])
def test_repro_that_cannot_run_says_skip_to_a_bisection(bug, lacking, finding_of, tmp_path):
    program = "def run(model, inputs, level):\n    import no_such_compiler\n"
    folder = write_finding(tmp_path / "f", finding_of(f"planted,bug={bug}"), program)
    if lacking == "numpy":
        (folder / "numpy.py").write_text("raise ImportError('no numpy here')")
    shown = run_repro(folder)
    assert shown.returncode == 125, shown.stderr
    assert "cannot run: " in shown.stdout and "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    "error, code",
    [
        ("RuntimeError('planted: shape 9 at 0x7f00ab in /usr/lib/x.py')", 1),
        ("RuntimeError('planted: dtype')", 125),
        ("FileNotFoundError('planted: shape 9')", 125),
        ("MemoryError()", 125),
    ],
)
def test_repro_of_an_exception_takes_no_other_error_for_it(error, code, finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    message = "planted: shape 3 at 0x55d1c0 in ~/lib/x.py"
    outcomes = [
        replace(o, error_type="RuntimeError", message=message) if o.error_type else o
        for o in finding.outcomes
    ]
    program = f"def run(model, inputs, level):\n    raise {error}\n"
    folder = write_finding(tmp_path / "f", replace(finding, outcomes=tuple(outcomes)), program)
    shown = run_repro(folder)
    assert shown.returncode == code, shown.stdout + shown.stderr


@pytest.mark.parametrize("writes", [True, False])
def test_repro_shows_a_program_that_writes_to_its_inputs(writes, finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    error = {
        "error_type": f"{InputChanged.__module__}.{InputChanged.__name__}",
        "message": "the program has changed its input 'x'",
    }
    outcomes = [replace(o, **error) if o.error_type else o for o in finding.outcomes]
    program = f"def run(model, inputs, level):\n    inputs['x'] += {int(writes)}\n    return {{}}\n"
    folder = write_finding(tmp_path / "f", replace(finding, outcomes=tuple(outcomes)), program)
    shown = run_repro(folder)
    assert shown.returncode == int(writes), shown.stdout + shown.stderr


def test_repro_of_a_crash_takes_no_exception_for_it(finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    crash = replace(finding, failure=replace(finding.failure, kind=OutcomeKind.CRASH))
    program = "def run(model, inputs, level):\n    raise RuntimeError('no')\n"
    assert run_repro(write_finding(tmp_path / "f", crash, program)).returncode == 125


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


def test_repro_of_a_module_that_nobody_wrote_out_needs_nnfuzz(finding_of, tmp_path):
    folder = write_finding(
        tmp_path / "f", module_finding(finding_of("planted,bug=value"), ""), RUN_MODULE
    )
    assert "nnfuzz.backend.modules" in (folder / "repro.py").read_text()


def test_repro_for_tvm_is_python(registry, finding_of, tmp_path):
    finding = replace(finding_of("planted,bug=value"), backend=registry.parse("tvm"))
    for options in ({}, {"target": "cuda"}):
        spec = registry.spec("tvm", options)
        folder = write_finding(tmp_path / str(options), finding, program_of(spec, registry))
        compile((folder / "repro.py").read_text(), "repro.py", "exec")


WRONG = "def run(model, inputs, level):\n    return {}\n"


@pytest.mark.parametrize("outputs", ["{}", "{'y': np.zeros((7, 7), 'float32')}"])
def test_repro_of_a_wrong_number_takes_no_other_output_for_it(
    outputs, finding_of, registry, tmp_path
):
    finding = onnxruntime_finding(finding_of, registry, 0.9)
    (name,) = finding.case.expected
    program = WRONG.replace("{}", outputs.replace("'y'", repr(name)))
    assert run_repro(write_finding(tmp_path / "f", finding, program)).returncode == 125


@pytest.mark.parametrize(("said", "code"), [("tmpQbz: no rule", 1), ("tmpQbz: no table", 125)])
def test_repro_passes_over_words_that_change_with_every_run(said, code, finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    outcomes = [
        replace(
            o,
            error_type="RuntimeError",
            message="tmpXa: no rule",
            complaint=Complaint(subject="no rule", varies=True),
        )
        if o.error_type
        else o
        for o in finding.outcomes
    ]
    program = f"def run(model, inputs, level):\n    raise RuntimeError('{said}')\n"
    folder = write_finding(tmp_path / "f", replace(finding, outcomes=tuple(outcomes)), program)
    assert run_repro(folder).returncode == code


def test_repro_of_an_error_that_is_read_from_the_console_raises_what_was_raised(
    finding_of, tmp_path
):
    finding = finding_of("planted,bug=raise")
    raised = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in b\nRuntimeError: no result\n'
    )
    outcomes = [
        replace(o, error_type="RuntimeError", message="printed reason", traceback=raised)
        if o.error_type
        else o
        for o in finding.outcomes
    ]
    program = "def run(model, inputs, level):\n    raise RuntimeError('no result')\n"
    folder = write_finding(tmp_path / "f", replace(finding, outcomes=tuple(outcomes)), program)
    assert run_repro(folder).returncode == 1


def test_repro_that_needs_the_bytes_of_a_model_reads_its_file(finding_of, tmp_path):
    finding = finding_of("planted,bug=raise")
    assert inlined(finding)
    finding = replace(finding, origin=replace(finding.origin, verbatim=True))
    folder = write_finding(tmp_path / "f", finding, WRONG)
    script = (folder / "repro.py").read_text()
    assert inlined(read_finding(folder)) is None
    assert "MODEL = " not in script and "model.onnx" in script
