#!/usr/bin/env python3
"""tvm, front end for PyTorch: clamp of integers with one bound cannot be compiled

Needs tvm 0.27.0.post1, torch 2.13.0+cpu; no other file. Found by a scan of single
operators with `-b tvm,form=exported`: the other bound becomes infinity, "Cannot convert infinity to BigInt".

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import torch
import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program


class Module(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0)


program = torch.export.export(Module(), (torch.tensor([-1, 2]),))
try:
    module = from_exported_program(program, unwrap_unit_return_tuple=True)
    relax.build(module, tvm.target.Target({"kind": "llvm"}))
except Exception as error:
    print(str(error).strip().splitlines()[-1][:200])
    sys.exit(1)
