"""Does once, before workers are forked, the setup of Inductor's first compilation in a process.

Inductor compiles and loads code to detect the processor's vector instructions, and registers some
hundred patterns: two seconds of CPU time in every fresh process. Nothing here starts a thread.
Steps that fail, or have other names in another release, are left to the workers.
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
