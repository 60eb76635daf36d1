"""What is printed by compilers is captured; their interfaces are read."""

from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend.complaint import ComplaintKind
from nnfuzz.backend.interface import InputError, OnnxModel, TensorSpec
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import AdapterFault, BackendRunner
from tests.models import chain

INPUTS = {"x": np.arange(4, dtype=np.float32)}


@pytest.fixture(scope="module")
def registry():
    return BackendRegistry.discover([Path(__file__).parent / "mumbling_backend.py"])


@pytest.fixture
def runner(registry, server):
    with BackendRunner(registry.parse("mumbling,timeout=10"), registry, server) as runner:
        yield runner


def model(how, stage, rows=4):
    return chain("Identity", shape=(rows,), about=f"{how} {stage}")


@pytest.mark.parametrize("stage", [Stage.IMPORT, Stage.COMPILE])
@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("refuse", OutcomeKind.UNSUPPORTED, "Foo is not supported"),
        ("slip", OutcomeKind.EXCEPTION, "3 is not 4"),
        ("say nothing", OutcomeKind.EXCEPTION, "compilation failed"),
    ],
)
def test_the_printed_reason_is_the_message_at_every_level(runner, how, kind, message, stage):
    for outcome in runner.run(model(how.split()[0], stage), INPUTS):
        assert (outcome.kind, outcome.stage, outcome.message) == (kind, stage, message)
        assert outcome.complaint.subject == message
        refused = outcome.complaint.kind is ComplaintKind.UNSUPPORTED
        assert refused is (kind is OutcomeKind.UNSUPPORTED)


def test_a_reason_is_that_of_its_own_level_and_test_case(runner):
    runner.run(model("slip", "import"), INPUTS)
    for outcome in runner.run(model("say", "import"), INPUTS):
        assert outcome.message == "compilation failed"
    assert all(outcome.ok for outcome in runner.run(model("nothing", "x"), INPUTS))


def test_a_death_keeps_what_was_printed_and_is_no_reason(runner):
    (first, *_) = runner.run(model("die", "compile"), INPUTS)
    assert (first.kind, first.signal) == (OutcomeKind.CRASH, "SIGABRT")
    assert "3 is not 4" in first.captured and "Fatal Python error: Aborted" in first.captured
    assert first.message == "killed by SIGABRT"


def test_a_hook_that_fails_is_the_adapters_fault(registry, server):
    with (
        BackendRunner(registry.parse("stumbling"), registry, server) as runner,
        pytest.raises(AdapterFault, match=r"console\(\) failed: AttributeError"),
    ):
        runner.run(model("slip", "compile"), INPUTS)


# Inputs and outputs of a model.


def test_a_model_tells_its_interface_and_is_bytes():
    data = model("x", "y", rows="n")
    known = OnnxModel(data)
    assert known == data and isinstance(known, bytes)
    assert known.inputs == {"x": TensorSpec(np.dtype(np.float32), (None,))}
    assert [*known.outputs] == ["y"] and known.outputs["y"].dtype == np.float32
    with pytest.raises(InputError, match="not an ONNX model"):
        OnnxModel(b"\xff").inputs  # noqa: B018
