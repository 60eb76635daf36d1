#!/usr/bin/env python3
"""torch.onnx.export(dynamo=True): a right shift of uint8 returns int8

Needs torch 2.13.0+cpu, onnxscript 0.7.2, onnxruntime 1.31.1; no other file. Found by nnfuzz's
checks of its operator specs.

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import onnxruntime
import torch


class Module(torch.nn.Module):
    def forward(self, x):
        return torch.bitwise_right_shift(x, 1)


x = torch.tensor([200, 3], dtype=torch.uint8)
model = torch.onnx.export(Module(), (x,), dynamo=True, input_names=["x"], verbose=False).model_proto
(found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x.numpy()})
print(f"returns {found.dtype} {found.tolist()}, PyTorch {Module()(x)}")
sys.exit(found.dtype != "uint8")
