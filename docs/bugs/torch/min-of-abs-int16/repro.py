#!/usr/bin/env python3
"""torch: exception in compile (inductor only): InductorError: no matching function for call to \u2018min_propagate_nan(int&, short int&)\u2019

Needs torch 2.13.0+cpu, torch, numpy; no other file.

    python repro.py [LEVEL]        levels: eager, inductor; default: inductor

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
import base64  # noqa: F401

import torch
from torch import device, inf, nan  # noqa: F401

INPUTS = {
    'v4_1': np.array([0], 'int16'),
}


class Module(torch.nn.Module):
    inputs = {'v4_1': 'int16'}  # name: dtype
    outputs = {'v4_6': 'int16'}

    def __init__(self):
        super().__init__()

    def forward(self, arg0_1):
        abs_1 = torch.ops.aten.abs.default(arg0_1)
        minimum = torch.ops.aten.minimum.default(abs_1, arg0_1);  abs_1 = arg0_1 = None
        return (minimum,)


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


def run(model, inputs, level):  # needs a C++ compiler
    import ast

    arguments = [to_torch(inputs[name]).to('cpu') for name in model.inputs]
    outputs = model.outputs
    level, *settings = level.split("+")  # settings of Inductor: NAME=VALUE
    if level != "eager":
        backend = "aot_eager" if level == "aot_eager" else "inductor"
        pairs = [setting.split("=") for setting in settings]
        options = {name: ast.literal_eval(value) for name, value in pairs} or None
        dynamic = level == "dynamic"
        model = torch.compile(model, backend=backend, dynamic=dynamic, options=options)
    with torch.no_grad():
        found = model(*arguments)
    return {name: to_numpy(x, dtype) for (name, dtype), x in zip(outputs.items(), found)}


def load():
    return Module(), INPUTS


def main(level):
    print('Expected: the model compiles and runs. Seen at inductor, stage compile: torch._inductor.exc.InductorError: CppCompileError: C++ compile error\n\nCommand:\n~/.cache/nnfuzz/inductor/whole/g++ ~/.cache/nnfuzz/inductor/dl/cdluyx36orzh22ujqcqbnirnf4kn7nh4klnh56txvxvah2i7ikrn.main.cpp -D TORCH_INDUCTOR_CPP_WRAPPER -D STANDALONE_TORCH_HEADER -D TORCH_INDUCTOR_PRECOMPILE_HEADERS -D C10_USING_CUSTOM_GENERATED_MACROS\n[... 6160 characters left out ...]\nfrom \u2018255\u2019 to \u2018\'\\37777777777\'\u2019 [-Woverflow]\n  245 |       0xff, 0xff, 0xff, 0xff,\n      |                         ^~~~\n\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you\'re reporting a bug to PyTorch). For even more developer context, set TORCH_LOGS="+dynamo"\n', flush=True)
    model, inputs = load()
    try:
        run(model, inputs, level)
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'inductor'))
