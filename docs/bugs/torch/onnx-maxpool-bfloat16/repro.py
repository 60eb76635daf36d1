#!/usr/bin/env python3
"""exporter-dynamo: exception in export: InferenceError: an operator of ONNX does not take bfloat16

Needs torch 2.13.0+cpu, onnxscript 0.7.2, onnx 1.23.2, onnxruntime 1.31.1, torch, numpy; no other file.

    python repro.py [LEVEL]        levels: eager, optimised; default: optimised

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import ml_dtypes  # noqa: F401 (comes with onnx; NumPy learns bfloat16 and the like from it)
import numpy as np
import base64  # noqa: F401

import torch
from torch import device, inf, nan  # noqa: F401

INPUTS = {
    'p0': np.array([[[0.0]]], 'bfloat16'),
}


class Module(torch.nn.Module):
    inputs = {'p0': 'bfloat16'}  # name: dtype
    outputs = {'v1': 'bfloat16'}

    def __init__(self):
        super().__init__()

    def forward(self, arg0_1):
        max_pool1d = torch.ops.aten.max_pool1d.default(arg0_1, [1], [1]);  arg0_1 = None
        return (max_pool1d,)


def to_torch(array):
    """An array as PyTorch has it; unsigned integers and small types are held in wider ones."""
    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    if str(array.dtype) == "uint64":
        return torch.from_numpy(array.view(np.int64))
    wider = {}
    return torch.from_numpy(array.astype(wider.get(str(array.dtype), array.dtype)))


def to_numpy(tensor, dtype):
    tensor = tensor.detach().cpu()
    if dtype == "uint64":
        return tensor.numpy().view(np.uint64)
    array = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return array.astype(np.dtype(dtype))


def export(module, arguments, level, opset):
    import torch

    program = torch.onnx.export(
        module,
        tuple(arguments),
        input_names=[f"x{k}" for k in range(len(arguments))],
        opset_version=opset,
        dynamo=True,
        optimize=level == "optimised",
        verbose=False,
    )
    return program.model_proto.SerializeToString()


def check_exported(model, outputs):
    """Raises: ValidationError, InferenceError or ValueError if an onnx.ModelProto is not valid, or
    declares other outputs than the arrays that the module returns.
    """
    import onnx

    onnx.checker.check_model(model, full_check=True)
    if len(model.graph.output) != len(outputs):
        raise ValueError(f"the exported model has {len(model.graph.output)} outputs")
    for value, found in zip(model.graph.output, outputs):
        type_ = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]
        fits = len(sizes) == found.ndim and all(n in (None, m) for n, m in zip(sizes, found.shape))
        if dtype != found.dtype or (type_.HasField("shape") and not fits):
            raise ValueError(
                f"the exported model declares {dtype}{sizes} for an output that is "
                f"{found.dtype}{list(found.shape)}"
            )


def to_array(tensor):
    """A tensor as an array; NumPy has bfloat16 from ml_dtypes."""
    import ml_dtypes
    import torch

    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


OPTIMISATION = {'eager': 'ORT_DISABLE_ALL', 'plain': 'ORT_DISABLE_ALL', 'optimised': 'ORT_DISABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'))


def run_onnx(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in EXACT:
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]
    values = {name: to_ort(array) for name, array in inputs.items()}
    found = session.run_with_ort_values(names, values)
    return {name: from_ort(value) for name, value in zip(names, found)}


def to_ort(array):  # ONNX Runtime takes no arrays of bfloat16, float8 or int4
    import ctypes

    import onnxruntime as ort
    from onnx import numpy_helper

    tensor = numpy_helper.from_array(array)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), tensor.data_type)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def from_ort(value):
    import ctypes

    import numpy as np
    from onnx import helper, numpy_helper

    dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
    tensor = numpy_helper.from_array(np.zeros(value.shape(), dtype))
    tensor.raw_data = ctypes.string_at(value.data_ptr(), len(tensor.raw_data))
    return numpy_helper.to_array(tensor)


def run(module, inputs, level):
    import onnx

    arguments = [to_torch(inputs[name]) for name in module.inputs]
    with torch.no_grad():
        found = [to_array(tensor) for tensor in module(*arguments)]
    if level != "eager":
        model = export(module, arguments, level, None)
        proto = onnx.load_model_from_string(model)
        check_exported(proto, found)
        given = {f"x{k}": to_array(x) for k, x in enumerate(arguments)}
        fed = {value.name: given[value.name] for value in proto.graph.input}
        returned = run_onnx(model, fed, level)
        found = [returned[value.name] for value in proto.graph.output]
    outputs = {}
    for (name, dtype), array in zip(module.outputs.items(), found):
        same = dtype == "uint64"
        outputs[name] = array.view(np.uint64) if same else array.astype(np.dtype(dtype))
    return outputs


def load():
    return Module(), INPUTS


def main(level):
    print(('Expected: the model compiles and runs. Seen at optimised, stage export: '
 'onnx.onnx_cpp2py_export.shape_inference.InferenceError: [ShapeInferenceError] '
 '(op_type:MaxPool, node name: node_max_pool1d): X typestr: T, has unsupported type: '
 'tensor(bfloat16)'), flush=True)
    model, inputs = load()
    try:
        run(model, inputs, level)
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'optimised'))
