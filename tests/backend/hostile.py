"""Things that compilers do to their host process, as a service and as a plug-in backend."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nnfuzz.backend.contract import Backend
from nnfuzz.sandbox.job import Job, Service, does

CHUNK = 64 << 20
LEAKED = []


def misbehave(how: str) -> None:
    """Does the named thing; returns if it is survivable."""
    globals()[f"_{how}"]()


def _nothing() -> None:
    pass


def _segfault() -> None:
    ctypes.string_at(0)


def _abort() -> None:
    ctypes.CDLL(None).abort()


def _say_and_abort() -> None:
    os.write(2, b"the last words\n")
    _abort()


def _say_and_segfault() -> None:
    os.write(2, b"the last words\n")
    _segfault()


def _fpe() -> None:
    os.kill(os.getpid(), signal.SIGFPE)


def _hang() -> None:
    ctypes.CDLL(None).sleep(1000)  # in C


def _hang_holding_the_gil() -> None:
    ctypes.PyDLL(None).sleep(1000)


def _spin() -> None:
    while True:
        pass


def _allocate() -> None:
    hoard = []
    while True:
        hoard.append(np.ones(CHUNK, np.uint8))


def _swell() -> None:
    """Takes 256 MB in a second."""
    hoard, start = [], time.monotonic()
    while True:
        while len(hoard) * (1 << 20) < (time.monotonic() - start) * (256 << 20):
            hoard.append(np.ones(1 << 20, np.uint8))
        time.sleep(0.005)


def _leak() -> None:
    """Keeps for ever more than a quarter of what one job may take."""
    LEAKED.append(np.ones(CHUNK + CHUNK // 8, np.uint8))


def _allocate_in_a_child() -> None:
    if os.fork() == 0:
        _allocate()
    os.wait()


def _allocate_in_c() -> None:
    """Touches malloc'ed memory and ignores that malloc fails, as C programs do."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    while True:
        libc.memset(libc.malloc(CHUNK), 1, CHUNK)


def _print_megabytes() -> None:
    print("the first line")
    for _ in range(64):
        os.write(2, b"x" * 65536)
    print("the last line")


def _print_much() -> None:
    for _ in range(256):
        os.write(1, b"much\n" * 200_000)


def _print_forever() -> None:
    while True:
        os.write(1, b"forever\n" * 8192)


def _raise() -> None:
    raise ValueError("the compiler dislikes this model")


def _lack_a_locale() -> None:
    raise RuntimeError("no locale: locale::facet::_S_create_c_locale name not valid")


def _raise_unsupported() -> None:
    raise NotImplementedError("no such kernel")


def _raise_memory_error() -> None:
    raise MemoryError


def _bad_alloc() -> None:
    raise RuntimeError("std::bad_alloc")


def _os_exit() -> None:
    os._exit(3)


def _sys_exit() -> None:
    sys.exit(4)


def _panic() -> None:
    class PanicException(BaseException):
        pass

    raise PanicException("index out of bounds")


def _close_stdout() -> None:
    sys.stdout.close()
    os.close(1)


def _scribble() -> None:
    """Writes into every socket of the process, as a stray descriptor number may."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), b"garbage" * 10)
        except OSError:
            continue


def _forked_child_holds_pipes() -> None:
    """A grandchild keeps all descriptors open for ever, and the worker dies."""
    if os.fork() == 0:
        time.sleep(1000)
    os.kill(os.getpid(), signal.SIGSEGV)


def _daemon() -> None:
    """A descendant in a session of its own outlives the job."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    os.wait()


def _die_later() -> None:
    """The answer is sent; then the process dies before its next job."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    signal.setitimer(signal.ITIMER_REAL, 0.05)


@dataclass(frozen=True, eq=False)
class Arrays:
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Done(Arrays):
    how: str
    pid: int


@dataclass(frozen=True, eq=False)
class Misbehave(Job[Done]):
    """Does the named thing. say: before that. partial: whether the arrays are sent ahead."""

    how: str = "nothing"
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    say: str = ""
    partial: bool = False

    part = Arrays

    @property
    def parts(self) -> int:
        return int(self.partial)


class HostileService(Service):
    @does(Misbehave)
    def misbehave(self, job, report):
        report("compile here")
        if job.say:
            os.write(2, job.say.encode() + b"\n")
        if job.partial:
            report.part(Arrays(job.arrays))
            report("execute there")
        misbehave(job.how)
        return Done(job.arrays, job.how, os.getpid())


def make(fail: str = "") -> HostileService:
    if fail:
        misbehave(fail)
    return HostileService()


class Hostile(Backend):
    """Computes the identity; the initializer `how.STAGE.LEVEL` of a model says what goes wrong.

    The model's doc_string is "HOW STAGE LEVEL": at that stage of that level, HOW happens.
    """

    name = "hostile"
    levels = ("O0", "O1", "O2")

    def versions(self):
        return {"hostile": "1"}

    def load(self, model):
        import onnx

        how, stage, level = onnx.load_model_from_string(model).doc_string.split()
        if stage == "import":
            misbehave(how)
        return how, stage, level

    def changed_passes(self, module, level):
        return ["tidy", "fold"]

    def known_passes(self, module, level):
        return ["tidy", "fold", "tile"]

    def build(self, module, level):
        how, stage, where = module
        if (stage, where) == ("compile", level):
            misbehave(how)

        def run(inputs):
            if (stage, where) == ("execute", level):
                if how == "garbage":
                    return {"y": "not an array"}
                if how == "negate":
                    return {"y": -inputs["x"]}
                if how == "lose":
                    return {}
                if how == "huge":
                    return {"y": np.zeros((300 << 20) // 4, np.float32)}
                if how == "slip":
                    return {"y": inputs["absent"]}
                misbehave(how)
            return {"y": inputs["x"]}

        return run
