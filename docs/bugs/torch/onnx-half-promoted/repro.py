#!/usr/bin/env python3
"""torch.onnx.export(dynamo=True): abs, sum, prod, amax and cumsum of float16 become float32

Needs torch 2.13.0+cpu, onnxscript 0.7.2, onnxruntime 1.31.1; no other file. Found while
`-b exporter-dynamo` was made: a Cast to float32 stands in front, and none back.

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import onnxruntime
import torch


class Module(torch.nn.Module):
    def forward(self, x):
        return torch.abs(x)


x = torch.tensor([1.5, -2.0], dtype=torch.float16)
model = torch.onnx.export(Module(), (x,), dynamo=True, verbose=False).model_proto
print(", ".join(node.op_type for node in model.graph.node))
session = onnxruntime.InferenceSession(model.SerializeToString())
(found,) = session.run(None, {model.graph.input[0].name: x.numpy()})
print(f"returns {found.dtype}, PyTorch returns {Module()(x).dtype}")
sys.exit(found.dtype != "float16")
