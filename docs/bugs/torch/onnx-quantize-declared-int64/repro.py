#!/usr/bin/env python3
"""exporter-torchscript: exception in export: ValueError: the exported model declares int64<shape> for an output that is int32<shape>

Needs torch 2.13.0+cpu, onnx 1.23.2, onnxruntime 1.31.1, torch, numpy; no other file.

    python repro.py [LEVEL]        levels: eager, optimised; default: optimised

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
import base64  # noqa: F401

import torch
from torch import device, inf, nan  # noqa: F401

INPUTS = {
    'p4': np.array(0.10000000149011612, 'float32'),
}


class Module(torch.nn.Module):
    inputs = {'p4': 'float32'}  # name: dtype
    outputs = {'v19': 'uint16'}

    def __init__(self):
        super().__init__()

    def forward(self, arg0_1):
        div = torch.ops.aten.div.Tensor(arg0_1, arg0_1);  arg0_1 = None
        to = torch.ops.aten.to.dtype(div, torch.float32);  div = None
        round_1 = torch.ops.aten.round.default(to);  to = None
        clamp = torch.ops.aten.clamp.default(round_1, 0, 65535);  round_1 = None
        to_1 = torch.ops.aten.to.dtype(clamp, torch.int32);  clamp = None
        and_1 = torch.ops.aten.__and__.Scalar(to_1, 65535);  to_1 = None
        return (and_1,)


def to_torch(array):
    """An array as PyTorch has it; unsigned integers and small types are held in wider ones."""
    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    if str(array.dtype) == "uint64":
        return torch.from_numpy(array.view(np.int64))
    wider = {'uint16': 'int32'}
    return torch.from_numpy(array.astype(wider.get(str(array.dtype), array.dtype)))


def to_numpy(tensor, dtype):
    tensor = tensor.detach().cpu()
    if dtype == "uint64":
        return tensor.numpy().view(np.uint64)
    array = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return array.astype(np.dtype(dtype))


def export(module, arguments, level, opset):
    import io

    import torch

    buffer = io.BytesIO()
    torch.onnx.export(
        module,
        tuple(arguments),
        buffer,
        input_names=[f"x{k}" for k in range(len(arguments))],
        opset_version=opset,
        dynamo=False,
        do_constant_folding=level == "optimised",
    )
    return buffer.getvalue()


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
    return dict(zip(names, session.run(names, inputs)))


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
    print(('Expected: the model compiles and runs. Seen at optimised, stage export: ValueError: '
 'the exported model declares int64[] for an output that is int32[]'), flush=True)
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
