"""Standstills that are planted in a campaign, one at a time: does it say so, and what is lost?

Some process is stopped for good (SIGSTOP), an operator spec or an import never ends, or
all of it is stopped for a while. See scripts/torment/chaos.py --planted.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ABSENT_SECONDS = 45.0  # of what answers again, and of a campaign that was stopped
TESTS_BEFORE = 40  # that are recorded when a process is stopped
TOLD = re.compile(r"replaced|not gone on|goes on|was stopped|cannot|error|standstill|tests? in ")


ENDLESS = """
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import In, OpSpec, operator

@operator
class Endless(OpSpec):
    inputs = (In("T", (DType.FLOAT32,), (1, 4)),)

    def type_transfer(self, x):
        return [x]

    def torch(self, x):
        while x.shape[-1] % 16 == 5:
            pass
        return x

    def onnx(self, emit, x):
        return emit("Identity", x)
"""
IMPORTING = """
from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import backend

@backend
class Importing(Backend):
    name = "importing"
    levels = ("O0", "O3")
    preload = ("never_imported",)
    install = "never"

    def versions(self): ...
    def load(self, model): ...
    def build(self, module, level): ...
"""


@dataclass(frozen=True)
class Planted:
    """name: what stands still. stops: a kind of process, for good. arguments: further ones of
    nnfuzz fuzz, where {0} is a folder. plugin: its file. meanwhile: what happens to a campaign that
    runs. comparable: whether it makes the tests of an undisturbed one.
    """

    name: str
    stops: str = ""
    arguments: tuple[str, ...] = ()
    plugin: str = ""
    meanwhile: Callable[[Any], None] | None = None
    comparable: bool = True


def stop_all(scene: Any) -> None:
    """The parent does nothing for a while; what it has started goes on."""
    os.kill(scene.process.pid, signal.SIGSTOP)
    time.sleep(ABSENT_SECONDS)
    os.kill(scene.process.pid, signal.SIGCONT)


PLANTED = (
    Planted("a producer is stopped", "producer"),
    Planted("a compiler's worker is stopped", "worker"),
    Planted(
        "a fork server is stopped", "fork server", ("--backend", "onnxruntime,timeout=10,jobs=20")
    ),
    Planted("a reducer is stopped", "reducer", ("--tests", "900"), comparable=False),
    Planted("the parent is stopped and goes on", meanwhile=stop_all),
    Planted(
        "an operator spec loops for ever",
        arguments=("--plugin", "{0}/plugin.py", "--tests", "60", "--operators", "Endless,Relu,Add"),
        plugin=ENDLESS,
        comparable=False,
    ),
    Planted(
        "a backend's import never ends",
        arguments=("--plugin", "{0}/plugin.py", "--backend", "importing"),
        plugin=IMPORTING,
        comparable=False,
    ),
)


def files(folder: Path, planted: Planted) -> None:
    """What a campaign with it needs beside its arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugin.py").write_text(planted.plugin)
    (folder / "never_imported.py").write_text("import time\nwhile True:\n    time.sleep(1)\n")


def plant(planted: Planted, scene: Any, recorded: Callable[[Path], int]) -> bool:
    """Has it happen once the campaign runs; whether it could."""
    while scene.process.poll() is None:
        time.sleep(0.2)
        if recorded(scene.folder) < TESTS_BEFORE:
            continue
        if planted.meanwhile:
            planted.meanwhile(scene)
            return True
        if not planted.stops:
            return True
        if pids := scene.of(planted.stops):
            with suppress(ProcessLookupError):
                os.kill(scene.rng.choice(pids), signal.SIGSTOP)
                return True
    return False


def messages(log: Path) -> list[str]:
    """What the campaign says of it."""
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in dict.fromkeys(lines) if TOLD.search(line) and "[" not in line[:1]]
