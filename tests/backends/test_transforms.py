"""Model optimisers: the contract, what becomes of their faults, and the built-in ones."""

from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import onnx
import pytest

import nnfuzz
from nnfuzz.backend.conformance import check_backend, standard_probes
from nnfuzz.backend.outcome import OutcomeKind, RunLevels, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.compare.flip import Coordinate

PLUGIN = Path(__file__).with_name("toy_transforms.py")
BUILT_IN = sorted(point.name for point in entry_points(group="nnfuzz.transforms"))
OFTEN = ("onnxslim", "onnxscript-version")
"""Those whose conformance every run of the tests checks; the others have their turn at night."""
CORE = [probe for probe in standard_probes() if probe.core]
ADD = CORE[0]


@pytest.fixture(scope="module")
def registry():
    return BackendRegistry.discover([PLUGIN])


def run(registry, name, **options):
    with BackendRunner(registry.spec(name), registry) as runner:
        return runner.run(ADD.model, ADD.inputs, runner.backend.levels, **options)


@pytest.mark.parametrize(
    "name",
    [n if n in OFTEN else pytest.param(n, marks=pytest.mark.slow) for n in BUILT_IN],
)
def test_conformance(name):
    missing = BackendRegistry.discover().get(name).missing()
    if missing:
        assert "pip install" in missing
        pytest.skip(missing)
    assert set(check_backend(name, probes=CORE).values()) == {"ok"}


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("raises", OutcomeKind.EXCEPTION, "cannot fuse"),
        ("refuses", OutcomeKind.UNSUPPORTED, "beyond me"),
        ("renames", OutcomeKind.EXCEPTION, "other outputs"),
        ("reshapes", OutcomeKind.EXCEPTION, "ShapeInferenceError"),
        ("retypes", OutcomeKind.EXCEPTION, ""),
        ("dies", OutcomeKind.CRASH, "SIGABRT"),
    ],
)
def test_a_fault_is_one_of_the_stage_transform_and_of_the_level_that_transforms(
    registry, name, kind, told
):
    plain, transformed = run(registry, name)
    assert plain.ok and plain.baseline
    assert (transformed.kind, transformed.stage) == (kind, Stage.TRANSFORM)
    assert told in transformed.message and not transformed.baseline


def test_passes_are_switched_off_by_name(registry):
    plain, wrong = run(registry, "toy")
    x = ADD.inputs["x"]
    np.testing.assert_array_equal(plain.outputs["y"], x + x)
    np.testing.assert_array_equal(wrong.outputs["y"], x - x)
    _, cured = run(registry, "toy", without=["add"])
    np.testing.assert_array_equal(cured.outputs["y"], x + x)
    with BackendRunner(registry.spec("toy"), registry) as runner:
        assert runner.fired_passes(ADD.model, "all") == ["neg", "add"]
    with BackendRunner(registry.spec("raises"), registry) as runner:
        assert runner.fired_passes(ADD.model, "all") is None


@pytest.mark.slow
def test_the_optimiser_is_accused_and_its_pass_found():
    case = nnfuzz.case_from_onnx(ADD.model, inputs=ADD.inputs)
    with nnfuzz.Experiment(["toy"], plugins=[PLUGIN]) as experiment:
        result = experiment(case)
        (finding,) = experiment.findings(result)
    (failure,) = result.failures
    assert str(failure.signature.title).startswith("toy: wrong value at Add")
    assert result.blame(failure).coordinate is Coordinate.PIPELINE
    reduced = nnfuzz.reduce(finding, budget=30)
    assert list(reduced.localisation["passes"]) == ["add"]


def test_a_repro_script_holds_the_optimiser(registry):
    program = registry.get("toy")().repro()
    assert "nnfuzz" not in program
    names = {}
    exec(program, names)
    x = ADD.inputs["x"]
    np.testing.assert_array_equal(names["run"](ADD.model, ADD.inputs, "none")["y"], x + x)
    np.testing.assert_array_equal(names["run"](ADD.model, ADD.inputs, "all")["y"], x - x)


def test_what_is_saved_is_what_onnxruntime_optimised():
    from nnfuzz.backends.optimisers import OrtSaved

    names = {}
    exec(OrtSaved().repro(), names)
    relu = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)'
        "{ a = Identity (x) b = Relu (a) y = Relu (b) }"
    )
    saved = names["transform"](relu, ())
    assert len(saved.graph.node) < len(relu.graph.node)


def test_a_baseline_runs_to_its_end_where_the_others_stop_at_a_stage(registry):
    # As the reducer asks: a baseline that is not known to be right would excuse every candidate.
    for until in (Stage.IMPORT, Stage.TRANSFORM):
        with BackendRunner(registry.spec("raises"), registry) as runner:
            runner.submit(RunLevels(ADD.model, ADD.inputs, runner.backend.levels, until=until))
            plain, transformed = runner.wait()
        assert plain.ok and plain.stage is Stage.EXECUTE
        assert transformed.ok == (until is Stage.IMPORT)
