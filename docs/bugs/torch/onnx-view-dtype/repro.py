#!/usr/bin/env python3
"""torch.onnx.export(dynamo=False): view(dtype) ends in an internal assertion of alias_analysis.cpp

Needs torch 2.13.0+cpu; no other file. Found with `nnfuzz fuzz -b exporter-torchscript`: the dtype
becomes an int for which no overload of aten::view is left.

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import io
import sys

import torch


class Module(torch.nn.Module):
    def forward(self, x):
        return x.view(torch.int64) + 1


try:
    torch.onnx.export(Module(), (torch.zeros(2, dtype=torch.float64),), io.BytesIO(), dynamo=False)
except RuntimeError as error:
    print(str(error)[:200])
    sys.exit("INTERNAL ASSERT FAILED" in str(error))
except Exception as error:  # that it is not supported would be an honest answer
    print(type(error).__name__, error)
