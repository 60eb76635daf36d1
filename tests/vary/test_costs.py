"""Programs that are slow or leak: planted compilers, and the way to a script that shows one."""

import gc
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from nnfuzz.backend.costs import floats32, in_float32
from nnfuzz.backend.outcome import COSTS, OutcomeKind, RunLevels
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.service import BackendService
from nnfuzz.base.threads import one_thread
from nnfuzz.base.writing import as_json
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import Experiment, reduce, save_finding
from nnfuzz.sandbox.job import Report
from tests.planted import costly

PLUGIN = Path(costly.__file__)
ROWS = ", ".join(map(str, range(32)))
MODEL = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
m (float[32, 32] x, float16[32, 32] h, double[32, 32] d)
  => (float[32, 32] y, float16[32, 32] i, double[32, 32] e) <float[32] c = {{{ROWS}}}>
{{ t = Transpose(x) r = Relu(t) m = MatMul(r, x) b = Add(m, c) y = Max(b, x) i = Relu(h)
   e = Neg(d) }}""")
X = np.random.default_rng(0).normal(size=(32, 32))
INPUTS = {"x": X.astype(np.float32), "h": X.astype(np.float16), "d": X}
SLOW = dict.fromkeys(costly.SLOW_NODES | costly.SLOW_CALLS, OutcomeKind.SLOW)
FOUND = SLOW | dict.fromkeys(costly.LEAKS, OutcomeKind.LEAK)


@pytest.fixture(scope="module", autouse=True)
def as_in_a_worker():
    gc.freeze()  # what the process holds need not be looked at again and again
    with one_thread():
        yield
    gc.unfreeze()


@pytest.mark.parametrize("name", [*costly.NODES, *costly.CALLS])
def test_what_costs_too_much_is_found_and_what_may_is_not(name):
    spec = BackendRegistry.discover([PLUGIN]).parse(f"costly,program={name}")
    report, job = Report(), RunLevels(MODEL.SerializeToString(), INPUTS, ("O0", "O1"), costs=COSTS)
    outcomes = []
    report.part = outcomes.append
    BackendService(as_json(spec)).run(job, report)
    told = {o.level: o.kind for o in outcomes if o.kind is not OutcomeKind.OK}
    levels = ("O0", "O1") if name in costly.AT_O0 else ("O1",)
    assert told == (dict.fromkeys(levels, FOUND[name]) if name in FOUND else {})


def test_a_leak_is_confirmed_reduced_and_shown_by_a_script(tmp_path):
    case = replace(case_from_onnx(MODEL, INPUTS), variations=("leak",))
    with Experiment(["costly,program=not_freed"], [PLUGIN]) as run:
        (finding,) = run.findings(run(case))
    assert finding.signature.title == "costly: leak in execute (O1 only)"
    assert finding.severity == "fails"
    smallest = reduce(finding)
    assert len(smallest.case.graph.nodes) == 1
    script = save_finding(smallest, tmp_path) / "repro.py"
    here = {**os.environ, "PYTHONPATH": str(PLUGIN.parents[2])}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=here)
    assert done.returncode == 1 and "bytes a call" in done.stdout, done.stdout + done.stderr


def test_every_float_becomes_a_float32():
    model = onnx.load_model_from_string(in_float32(MODEL.SerializeToString()))
    ends = (*model.graph.input, *model.graph.output)
    assert {v.type.tensor_type.elem_type for v in ends} == {onnx.TensorProto.FLOAT}
    assert {a.dtype.name for a in floats32(INPUTS).values()} == {"float32"}
    with pytest.raises(ValueError, match="every float"):
        in_float32(model.SerializeToString())
