#!/usr/bin/env python3
"""torch.export: run_decompositions() fails on affine_grid_generator

Needs torch 2.13.0+cpu; no other file. Found with `nnfuzz fuzz -b tvm,form=exported`, whose importer
runs the decompositions; `-b torch-export` runs them as well.

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import torch


class Module(torch.nn.Module):
    def forward(self, theta):
        return torch.nn.functional.affine_grid(theta, [2, 1, 1, 11], align_corners=False)


program = torch.export.export(Module(), (torch.zeros(2, 2, 3),))
try:
    program.run_decompositions()
except AssertionError as error:
    print(str(error)[:160])
    sys.exit(1)
