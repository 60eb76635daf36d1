"""CPU time and memory of a program that is called many times.

repro.py holds the source of these functions, so that they need no other part of nnfuzz.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def cpu_seconds() -> float:
    """CPU seconds of this process, its threads and its ended children."""
    import resource

    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def cpu_of(call: Callable[[], object]) -> float:
    """CPU seconds of a call: the least of three, since other threads may still be at work."""

    def once() -> float:
        start = cpu_seconds()
        call()
        return cpu_seconds() - start

    return min(once() for _ in range(3))


def times_the_cpu(call: Callable[[], object], other: Callable[[], object]) -> float:
    """The CPU time of one call divided by that of another call, the least of five quotients.

    It is 0 unless the first call takes at least 30 times the CPU and a millisecond in each of them.
    The calls alternate. One call of each comes before, since a first call may still compile.
    """
    for first in (call, other):
        cpu_of(first)
    ratios = []
    for _ in range(5):
        mine, least = cpu_of(call), max(cpu_of(other), 1e-6)
        if mine < max(30 * least, 1e-3):
            return 0.0
        ratios.append(mine / least)
    return min(ratios)


def used_bytes() -> tuple[int, int]:
    """Two measures of the memory in use, in bytes. Raises: OSError.

    The first one is the size of all blocks that the C library and Python have handed out, or 0 if
    the C library does not say. The second one is the resident memory that no file backs. It is
    exact to a page in this file of /proc; other files lag behind by some hundred pages.
    """
    import ctypes
    import sys

    class Heap(ctypes.Structure):
        _fields_ = [(str(n), ctypes.c_size_t) for n in range(10)]

    handed = 0
    if told := getattr(ctypes.CDLL(None), "mallinfo2", None):
        told.restype = Heap
        heap = told()
        handed = getattr(heap, "4") + getattr(heap, "7") + 32 * sys.getallocatedblocks()
    with open("/proc/self/smaps_rollup") as file:
        resident = (int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous:"))
        return handed, next(resident)


def growth(call: Callable[[], object]) -> int:
    """The bytes by which a call grows the used memory; 0 if it does not.

    It does if each of six hundreds of calls leaves at least 8 bytes a call. Two hundreds come
    before, in which caches and arenas may fill. A call of more than 5 ms of CPU is not measured: 0.
    """
    import gc

    if cpu_of(call) > 5e-3:
        return 0
    before, growths = (0, 0), [0, 0]
    for hundred in range(8):
        for _ in range(100):
            call()
        gc.collect()  # it also frees what Python keeps for later objects
        now = used_bytes()
        if hundred > 1:
            steps = [b - a for a, b in zip(before, now)]
            growths = [g + s if s >= 800 and g >= 0 else -1 for g, s in zip(growths, steps)]
            if max(growths) < 0:
                return 0
        before = now
    return max(growths) // 600


def in_float32(model: bytes) -> bytes:
    """An ONNX model with float32 in place of its float16, bfloat16 and float64. Raises: ValueError
    if it has none of these.
    """
    import numpy as np
    from onnx import TensorProto, load_model_from_string, numpy_helper

    others = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    names = ("to", "dtype", "output_dtype", "precision", "stash_type")

    def retype(message: Any) -> None:
        if isinstance(message, TensorProto):
            if message.data_type in others:
                array = numpy_helper.to_array(message).astype(np.float32)
                message.CopyFrom(numpy_helper.from_array(array, message.name))
            return
        if getattr(message, "elem_type", None) in others:
            message.elem_type = TensorProto.FLOAT
        if getattr(message, "name", "") in names and getattr(message, "i", None) in others:
            message.i = TensorProto.FLOAT
        for field, value in message.ListFields():
            if field.message_type is not None:
                for inner in value if hasattr(value, "append") else [value]:
                    retype(inner)

    proto = load_model_from_string(model)
    retype(proto)
    if proto == load_model_from_string(model):
        raise ValueError("every float is a float32")
    return proto.SerializeToString(deterministic=True)


def floats32(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs for `in_float32`."""
    others = ("float16", "bfloat16", "float64")
    return {n: a.astype("float32") if str(a.dtype) in others else a for n, a in inputs.items()}
