"""PyTorch front ends of compilers, which import a program of torch.export without ONNX in between.

A backend uses its front end with the option `form=exported`. Targets of one compiler then differ in
the form only, so a result that is wrong here and right from ONNX accuses the front end.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping
from typing import Any

import numpy as np

from nnfuzz.backend.contract import Program

FORM = "what is imported: onnx, or a program of torch.export"
VALUE = "to_numpy(torch.from_numpy(value.numpy()), model.outputs[name])"
"""For repro scripts: an expression for an output of TVM in its declared dtype."""
_EXPORT = """\
    tensors = tuple(to_torch(inputs[name]) for name in model.inputs)
    program = torch.export.export(model, tensors, strict=False)"""
REPRO_RELAX = f"""\
    from tvm.relax.frontend.torch import from_exported_program

{_EXPORT}
    module = from_exported_program(program, unwrap_unit_return_tuple=True)
    names, outputs = list(model.inputs), list(model.outputs)
    inputs = dict(zip(names, (tensor.numpy() for tensor in tensors)))"""
REPRO_OPENVINO = f"""\
{_EXPORT}
    graph = ov.convert_model(program)
    name_ports(graph, model.inputs, model.outputs)
    inputs = dict(zip(model.inputs, (tensor.numpy() for tensor in tensors)))"""
OPENVINO_RESULTS = """\
    for name, dtype in model.outputs.items():
        tensor = torch.from_numpy(request.get_tensor(name).data.copy())
        outputs[name] = to_numpy(tensor, dtype)"""


def to_array(tensor):
    """A tensor as an array; bfloat16 as a dtype of ml_dtypes."""
    import ml_dtypes
    import torch

    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def to_tensor(array: np.ndarray) -> Any:
    """The inverse of to_array."""
    from nnfuzz.operators import carriers

    return carriers.tensor(np.asarray(array))


def carried(source: Any, program: Program) -> Program:
    """A program over the declared dtypes, from one over the dtypes that the module uses for them
    (nnfuzz.operators.carriers). source: an nnfuzz.backend.modules.TorchSource."""

    def run(inputs: dict[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        tensors = zip(source.graph.inputs, source.arguments(inputs))
        results = program({name: to_array(tensor) for name, tensor in tensors})
        return source.results([to_tensor(results[name]) for name in source.outputs])

    return run


def relax_module(source: Any) -> Any:
    """The program as a Relax module of TVM.

    Raises: NotImplementedError if torch.export's own decompositions fail (nnfuzz fuzz -b
    torch-export tests them); errors of TVM's importer.
    """
    from tvm.relax.frontend.torch import from_exported_program

    program = source.exported()
    try:
        return from_exported_program(program, unwrap_unit_return_tuple=True)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if any(frame.name == "run_decompositions" for frame in frames):
            raise NotImplementedError(f"torch.export does not decompose it: {error}") from error
        raise


def openvino_model(source: Any) -> Any:
    """The program as an openvino.Model."""
    import openvino

    model = openvino.convert_model(source.exported())
    name_ports(model, source.graph.inputs, source.outputs)
    return model


def name_ports(model, inputs, outputs):
    """Gives the inputs and outputs of an openvino.Model these names, by position."""
    for ports, names in ((model.inputs, inputs), (model.outputs, outputs)):
        if len(ports) != len(names):
            raise RuntimeError(f"the model has {len(ports)} ports for {len(names)} names")
        for port, name in zip(ports, names):
            port.get_tensor().add_names({name})


NAMED = inspect.getsource(name_ports) + "\n\n"
"""For repro scripts: the source of name_ports."""
