#!/usr/bin/env python3
"""torch.onnx.export(dynamo=False): a reshape of no elements to a size with 0 divides by zero (SIGFPE)

Needs torch 2.13.0+cpu; no other file. The process dies while it reproduces; exit code 0 once it is
fixed.
"""

import io

import torch


class Module(torch.nn.Module):
    def forward(self, x):
        return x[:0].reshape(6, 0)


torch.onnx.export(Module(), (torch.zeros(5),), io.BytesIO(), dynamo=False)
print("exported")
