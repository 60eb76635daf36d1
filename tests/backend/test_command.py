"""Compilers that are programs: files go in and out, stderr is the message, a signal is a crash."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnfuzz.backend.command import CommandBackend
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner

PLUGIN = Path(__file__).parent / "program_backend.py"
X = np.array([1.0, -2.0], np.float32)


@pytest.fixture(scope="module")
def runner():
    registry = BackendRegistry.discover([PLUGIN])
    with BackendRunner(registry.spec("program"), registry) as made:
        yield made


def ran(runner, op):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])  # noqa: E731
    node = helper.make_node(op, ["x/1"], ["y/1"])
    graph = helper.make_graph([node], "g", [value("x/1")], [value("y/1")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (outcome,) = runner.run(model.SerializeToString(), {"x/1": X}, ["O0"])
    return outcome


def test_a_program_computes(runner):
    outcome = ran(runner, "Relu")
    assert outcome.ok, outcome.message
    assert outcome.outputs["y/1"].tolist() == [1.0, 0.0]


def test_what_a_program_says_is_the_message(runner):
    outcome = ran(runner, "Neg")
    assert outcome.kind is OutcomeKind.EXCEPTION
    assert outcome.message == "Neg: no entry in the table"


def test_a_program_that_a_signal_ends_is_a_crash(runner):
    outcome = ran(runner, "Abs")
    assert (outcome.kind, outcome.signal) == (OutcomeKind.CRASH, "SIGSEGV")
    assert "table of signs: overrun" in outcome.captured


def test_a_program_that_is_absent_is_said_to_be():
    absent = type("Absent", (CommandBackend,), {"command": ("no-such-program", "{model}")})
    assert absent.missing() == "there is no program 'no-such-program' on PATH"
