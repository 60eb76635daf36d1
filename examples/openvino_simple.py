"""OpenVINO by a plug-in in its simplest form, with no word on what its complaints mean.

nnfuzz fuzz --backend openvino-simple --plugin examples/openvino_simple.py

The adapter that nnfuzz ships is backends/openvino.py. This one shows what it takes to bring a
compiler with dtypes of its own and with scripts for reports; the engine's triage is measured on it.
Its levels differ in Snippets, the code generator that fuses what the plug-in for CPUs runs:
  O0  without it (SNIPPETS_MODE=DISABLE)
  O3  with it, as by default
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from nnfuzz.backend.contract import Backend, Program
from nnfuzz.backend.interface import OnnxModel
from nnfuzz.backend.outcome import Stage

# On CPUs with AMX the default hint computes float32 in bfloat16.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
# Types whose arrays NumPy knows through ml_dtypes only -> onnx.TensorProto.DataType.
_FOREIGN = {"bf16": 16, "f8e4m3": 17, "f8e5m2": 19, "u4": 21, "i4": 22}
_LEVELS = {"O0": {"SNIPPETS_MODE": "DISABLE"}, "O3": {}}
# Every error of OpenVINO is a RuntimeError: what it does not implement it says in words.
_UNSUPPORTED = re.compile(
    r"No conversion|not (yet |currently )?(supported|implemented)|unsupported|only supports?\b",
    re.IGNORECASE,
)
_REPRO = """\
def run(model, inputs, level):
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import numpy_helper

    config = {{**{exact!r}, **{levels!r}[level]}}
    core = ov.Core()
    request = core.compile_model(core.read_model(model), "CPU", config).create_infer_request()
    for port in request.model_inputs:  # an input that is not used is none
        (name,) = port.names & inputs.keys()
        raw = np.frombuffer(numpy_helper.from_array(inputs[name]).raw_data, np.uint8)
        tensor = ov.Tensor(port.element_type, inputs[name].shape)
        tensor.data.reshape(-1).view(np.uint8)[:] = raw
        request.set_tensor(name, tensor)
    request.infer()
    outputs = {{}}
    for value in onnx.load_model_from_string(model).graph.output:
        tensor = request.get_tensor(value.name)
        type_ = value.type.tensor_type.elem_type
        packed = onnx.TensorProto(data_type=type_, dims=list(tensor.shape))
        packed.raw_data = tensor.data.tobytes()
        outputs[value.name] = numpy_helper.to_array(packed)
    return outputs
"""


class OpenVinoSimple(Backend):
    """Core.read_model -> Core.compile_model -> InferRequest.infer."""

    name = "openvino-simple"
    levels = tuple(_LEVELS)
    preload = ("openvino",)
    install = 'pip install "nnfuzz[openvino]"'

    def versions(self) -> dict[str, str]:
        import openvino

        return {"openvino": openvino.__version__}

    def load(self, model: OnnxModel) -> Any:
        import openvino

        return openvino.Core().read_model(model), model.output_names

    def build(self, module: Any, level: str) -> Program:
        import openvino

        compiled = openvino.Core().compile_model(module[0], "CPU", {**_EXACT, **_LEVELS[level]})
        request = compiled.create_infer_request()

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            for port in compiled.inputs:  # it has none for an input that is not used
                name = _named(port, inputs)
                request.set_tensor(name, _tensor(inputs[name], port.element_type))
            request.infer()
            return {name: _array(request.get_tensor(name)) for name in module[1]}

        return run

    def is_unsupported(self, error: BaseException, stage: Stage) -> bool:
        return _UNSUPPORTED.search(str(error)) is not None

    def repro(self) -> str:
        return _REPRO.format(exact=_EXACT, levels=_LEVELS)


def _named(port: Any, inputs: Mapping[str, Any]) -> str:
    """The input that a port is for. Raises: RuntimeError if the compiler lost its name."""
    if known := port.names & inputs.keys():
        return str(known.pop())
    raise RuntimeError(f"the compiled model has lost an input's name: it is {sorted(port.names)}")


def _tensor(array: np.ndarray, type_: Any) -> Any:
    """An openvino.Tensor with the elements of an array of any dtype, those of 4 bits packed."""
    import openvino
    from onnx import numpy_helper

    tensor = openvino.Tensor(type_, array.shape)  # one around our array would not keep it alive
    raw = np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)
    tensor.data.reshape(-1).view(np.uint8)[:] = raw
    return tensor


def _array(tensor: Any) -> np.ndarray:
    """A copy: the request's memory is used again."""
    from onnx import TensorProto, numpy_helper

    foreign = _FOREIGN.get(tensor.element_type.get_type_name())
    if foreign is None:
        return np.array(tensor.data)
    raw = tensor.data.tobytes()
    return numpy_helper.to_array(TensorProto(dims=tensor.shape, data_type=foreign, raw_data=raw))
