"""ONNX Runtime as two backends: `awake`, and `sleepy`, which never returns from one model in sixty.

Which models these are follows from their bytes; one of those by which a compiler is asked for its
habits is among them. Each is noted in the file that the option `log` names, so that a campaign's
summary can be held against it.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backends.onnxruntime import OnnxRuntime

from nnfuzz.execute.backend import option
from nnfuzz.execute.registry import backend

ONE_IN, MARK = 60, 4


@backend
class Awake(OnnxRuntime):
    name = "awake"


@backend
class Sleepy(OnnxRuntime):
    name = "sleepy"

    @dataclass(frozen=True, kw_only=True)
    class Options(OnnxRuntime.Options):
        log: str = option("", "file that is told of every model that hangs")

    def load(self, model):
        mark = zlib.crc32(model)
        if mark % ONE_IN == MARK:
            with Path(self.options.log).open("a") as log:
                log.write(f"{mark}\n")
            time.sleep(10_000)
        return super().load(model)
