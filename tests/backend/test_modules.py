"""Modules, interfaces and packed inputs of backends."""

from pathlib import Path

import numpy as np
import pytest
import torch

from nnfuzz.backend.interface import InputError, from_bytes, onnx_dtype, packed_bytes, to_bytes
from nnfuzz.backend.modules import read_source
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import EXPORTED, MODULE, ONNX
from nnfuzz.ir.dtypes import INT4S, DType
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from tests.models import chain

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def cases() -> list[TestCase]:
    producer = Producer(1, CaseConfig(nodes=5, exporter="direct", opset=21))
    made = [producer.produce(index) for index in range(4)]
    return [case for case in made if isinstance(case, TestCase)]


def same(found, expected):
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name].astype(float), array.astype(float))


def test_a_case_is_the_same_as_a_module_and_as_an_exported_program(cases):
    assert cases
    for case in cases:
        source = read_source(case.source(MODULE))
        assert list(source.inputs) == list(case.graph.inputs)
        with torch.no_grad():
            same(source.results(source.module(*source.arguments(case.inputs))), case.expected)
            program = source.exported().module()
            same(source.results(program(*source.arguments(case.inputs))), case.expected)


def test_the_source_text_alone_computes_the_same(cases):
    written = 0
    for case in cases:
        source = read_source(case.source(EXPORTED))
        if not (text := source.code()):
            continue
        written += 1
        space: dict = {"torch": torch, "np": np}
        exec("import base64\nfrom torch import device, inf, nan\n" + text, space)
        module = space["Module"]()
        with torch.no_grad():
            found = module(*(space["to_torch"](case.inputs[name]) for name in module.inputs))
        told = zip(module.outputs.items(), found)
        same({n: space["to_numpy"](x, dtype) for (n, dtype), x in told}, case.expected)
    assert written


def test_a_backend_that_reads_onnx_gets_the_model(cases):
    assert cases[0].source(ONNX) == cases[0].model


def test_a_model_of_onnx_becomes_a_module():
    source = read_source(chain("Tanh"))
    x = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    found = source.results(source.module(*source.arguments({"x": x})))
    np.testing.assert_allclose(found["y"], np.tanh(x), rtol=1e-6)


def test_what_is_no_graph_of_specs_is_refused():
    with pytest.raises(InputError, match="not an ONNX model"):
        read_source(b"not a model")
    with pytest.raises(InputError, match="no test case"):
        read_source(b"NNF1....")
    with pytest.raises(NotImplementedError, match="no graph of PyTorch"):
        read_source(chain("Nonsense"))


@pytest.fixture(scope="module")
def runner():
    registry = BackendRegistry.discover([HERE / "module_backend.py"])
    with BackendRunner(registry.parse("reader"), registry) as runner:
        yield runner


def test_a_runner_says_what_its_backend_reads_and_runs_frames(runner, cases):
    assert runner.reads == MODULE
    case = cases[0]
    (outcome,) = runner.run(case.source(MODULE), case.inputs, ["O0"], form=MODULE)
    assert outcome.target.form == MODULE
    same(outcome.outputs, case.expected)
    assert "class Module" in runner.code(chain("Tanh"))


def test_what_cannot_be_a_module_is_unsupported(runner):
    (outcome,) = runner.run(chain("Nonsense"), {"x": np.ones((2, 3), np.float32)}, ["O0"])
    assert (outcome.kind, outcome.stage) == (OutcomeKind.UNSUPPORTED, Stage.IMPORT)


def test_a_program_without_a_device_is_well_as_far_as_it_was_built():
    registry = BackendRegistry.discover([HERE / "module_backend.py"])
    with BackendRunner(registry.parse("nowhere"), registry) as runner:
        for outcome in runner.run(chain("Tanh"), {"x": np.ones((2, 3), np.float32)}):
            assert (outcome.kind, outcome.stage) == (OutcomeKind.OK, Stage.COMPILE)
            assert outcome.outputs is None


# Arrays of every dtype survive the way through a compiler's bytes.


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_there_and_back(dtype, shape):
    array = (np.arange(np.prod(shape, dtype=int)) % 5).reshape(shape).astype(dtype.numpy)
    raw = to_bytes(array)
    bits = 4 if dtype in INT4S else 8 * dtype.itemsize
    assert len(raw) == (array.size * bits + 7) // 8 == packed_bytes(onnx_dtype(array), shape)
    back = from_bytes(raw, onnx_dtype(array), shape)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, shape, array.tobytes())


def test_the_first_of_two_elements_is_in_the_low_half():
    assert to_bytes(np.array([1, -2, 7]).astype(DType.INT4.numpy)) == b"\xe1\x07"


def test_columns_are_put_in_the_order_of_c():
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    assert from_bytes(to_bytes(array), onnx_dtype(array), (3, 2)).tolist() == array.tolist()
