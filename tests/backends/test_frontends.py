"""Front ends for programs of torch.export: the contract, whom a flip accuses, the scripts."""

import numpy as np
import pytest

import nnfuzz
from nnfuzz.backend.conformance import check_backend, standard_probes
from nnfuzz.backend.contract import Backend
from nnfuzz.backend.modules import read_source
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import EXPORTED, Target
from nnfuzz.compare.flip import Blame, Coordinate

NAMES = ("tvm", "openvino")
PROBES = {probe.name: probe for probe in standard_probes()}
BOTH = PROBES["two outputs, one used inside"]


def made(name: str) -> Backend:
    backend = BackendRegistry.discover().get(name)
    if reason := backend.missing():
        pytest.skip(reason)
    return backend(form=EXPORTED)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_conformance(name):
    made(name)
    probes = [PROBES["add"], BOTH, PROBES["input not used"]]
    assert set(check_backend(f"{name},form=exported", probes=probes).values()) == {"ok"}


@pytest.mark.filterwarnings("ignore")  # of torch and openvino
@pytest.mark.parametrize("name", NAMES)
def test_the_script_for_reports_runs_alone(name):
    backend = made(name)
    code, names = read_source(BOTH.model).code(), {}
    exec("import base64\nimport numpy as np\nimport torch\n" + code + backend.repro(), names)
    found = names["run"](names["Module"](), BOTH.inputs, "O0")
    for output, array in BOTH.expected.items():
        np.testing.assert_array_equal(found[output], array)


@pytest.mark.slow
def test_the_same_compiler_has_targets_of_two_forms():
    made("tvm")
    case = nnfuzz.case_from_onnx(PROBES["add"].model, inputs=PROBES["add"].inputs)
    with nnfuzz.Experiment(["tvm/O0", "tvm/O0:exported"]) as run:
        outcomes = run(case).outcomes
    assert {o.target.form for o in outcomes} == {"direct", "exported"}
    assert all(o.ok and o.target.compiler == "tvm" for o in outcomes)


def test_what_is_right_in_one_form_alone_accuses_the_importer_of_the_other():
    right, wrong = (
        Target("c", pipeline="O0", form="direct"),
        Target("c", pipeline="O0", form=EXPORTED),
    )
    assert Blame(Coordinate.COMPILER, right, wrong).accused == "importer of exported"
    assert Blame(Coordinate.COMPILER, None, wrong).accused == "importer or kernel"
