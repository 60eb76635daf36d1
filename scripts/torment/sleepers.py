"""ONNX Runtime as three backends: `awake`; `sleepy`, which never returns from one model in sixty;
and `sick`, which never returns from one in sixty, dies of one, and loses the outputs of one.

The bytes of a model decide; one of the models that ask a compiler for its habits is among them.
Each such model is recorded in the file that the option `log` names, to be compared with the
campaign's summary.
"""

from __future__ import annotations

import os
import signal
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backends.onnxruntime import OnnxRuntime

from nnfuzz.backend.contract import option
from nnfuzz.backend.registry import backend

ONE_IN, MARK = 60, 4
HANG, DIE, LOSE = "hang", "die", "lose"
ILLS = {MARK: HANG, MARK + 20: DIE, MARK + 40: LOSE}


@backend
class Awake(OnnxRuntime):
    name = "awake"


class Ill(OnnxRuntime):
    """A backend that misbehaves on models by their bytes."""

    ills = ILLS

    @dataclass(frozen=True, kw_only=True)
    class Options(OnnxRuntime.Options):
        log: str = option("", "file that is told of every model that is not run as it should be")

    def load(self, model):
        mark = zlib.crc32(model)
        self._ill = self.ills.get(mark % ONE_IN, "")
        if self._ill:
            with Path(self.options.log).open("a") as log:
                log.write(f"{mark}:{self._ill}\n")
        if self._ill == HANG:
            time.sleep(10_000)
        if self._ill == DIE:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().load(model)

    def build(self, module, level):
        program = super().build(module, level)
        return (lambda inputs: {}) if self._ill == LOSE else program


@backend
class Sleepy(Ill):
    name = "sleepy"
    ills = {MARK: HANG}


@backend
class Sick(Ill):
    name = "sick"
