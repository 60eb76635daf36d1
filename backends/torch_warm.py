"""What the first compilation of a process by Inductor sets up, done once where workers are forked.

It finds out what vectors the processor has by compiling and loading code for each, and registers
some hundred patterns: two seconds of the processor, which every fresh process would spend again.
Nothing here starts a thread. Whatever fails, or has other names in another release, is left to the
workers.
"""

from __future__ import annotations

import contextlib
import importlib

_SETUP = (
    ("torch._inductor.cpu_vec_isa", "pick_vec_isa"),
    ("torch._inductor.fx_passes.joint_graph", "lazy_init"),
    ("torch._inductor.fx_passes.post_grad", "lazy_init"),
)
_IMPORTED = ("torch._inductor.codegen.cpp", "torch.utils.cpp_extension", "sympy.physics.units")

for name in _IMPORTED:
    with contextlib.suppress(Exception):
        importlib.import_module(name)
for name, function in _SETUP:
    with contextlib.suppress(Exception):
        getattr(importlib.import_module(name), function)()
