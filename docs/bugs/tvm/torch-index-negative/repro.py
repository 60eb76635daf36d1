#!/usr/bin/env python3
"""tvm, front end for PyTorch: indexing with negative numbers reads out of bounds

Needs tvm 0.27.0.post1, torch 2.13.0+cpu; no other file. Found with `nnfuzz fuzz -b
tvm,form=exported`: aten.index.Tensor becomes take without the wrap-around.

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import torch
import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program


class Module(torch.nn.Module):
    def forward(self, x, i):
        return x[:, i]


tensors = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([-1, 0])
program = torch.export.export(Module(), tensors)
module = from_exported_program(program, unwrap_unit_return_tuple=True)
executable = relax.build(module, tvm.target.Target({"kind": "llvm"}))
main = relax.VirtualMachine(executable, tvm.cpu())["main"]
found = main(*(tvm.runtime.tensor(tensor.numpy()) for tensor in tensors)).numpy()
print(f"found {found.tolist()}, expected {Module()(*tensors).tolist()}")
sys.exit(found.tolist() != Module()(*tensors).tolist())
