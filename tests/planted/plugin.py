"""The toy compiler as a backend: nnfuzz fuzz --plugin tests/planted/plugin.py \\
--backend planted,change=conv_group_ignored
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.contract import Backend, BackendOptions, option
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))


@backend
class Planted(Backend):
    """O0 is correct, O1 has the change."""

    name = "planted"
    levels = ("O0", "O1")
    preload = ("torch",)

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        change: str = option("", "name of the planted bug or legal variation of O1")

    def versions(self):
        import torch

        return {"torch": torch.__version__}

    def load(self, model):
        from tests.planted.program import load

        return load(model)

    def build(self, module, level):
        from tests.planted.program import run

        program = module if level == "O0" else self._changed(module)
        return lambda inputs: run(program, inputs).outputs()

    def _changed(self, program):
        from tests.planted.catalogue import LEGAL_VARIATIONS, PLANTED_BUGS

        known = {c.name: c for c in (*PLANTED_BUGS, *LEGAL_VARIATIONS)}
        if not self.options.change:
            return program
        return known[self.options.change].apply(program) or program
