#!/usr/bin/env python3
"""torch.onnx.export: both exporters compute Celu of float64 in float32, and do not say so

Needs torch 2.13.0+cpu, onnxscript 0.7.2, onnxruntime 1.31.1; no other file. Found with
`nnfuzz fuzz -b exporter-torchscript`. ONNX's Celu takes float32 only; Elu, Mul and Div take float64.

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import io
import sys

import onnxruntime
import torch


class Module(torch.nn.Module):
    def forward(self, x):
        return torch.celu(x)


def torchscript(x):
    buffer = io.BytesIO()
    torch.onnx.export(Module(), (x,), buffer, dynamo=False, input_names=["x"])
    return buffer.getvalue()


def dynamo(x):
    program = torch.onnx.export(Module(), (x,), dynamo=True, input_names=["x"], verbose=False)
    return program.model_proto.SerializeToString()


x, wrong = torch.tensor(1.2, dtype=torch.float64), 0
for export in (torchscript, dynamo):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (found,) = onnxruntime.InferenceSession(export(x), options).run(None, {"x": x.numpy()})
    print(f"{export.__name__}: {found!r}, expected 1.2")
    wrong |= abs(found - 1.2) > 1e-12
sys.exit(int(wrong))
