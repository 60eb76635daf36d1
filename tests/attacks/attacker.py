"""A compiler that attacks nnfuzz from its worker: a plug-in backend, and a service without one.

The model's doc_string is "HOW", the name of a function here, which is called when the model is run
at level O1; level O0 is the identity.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import stat
import struct
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnfuzz.backend.contract import Backend
from nnfuzz.sandbox import channel, wire
from nnfuzz.sandbox.job import Job, Service, does

LEVEL = "O1"
EVIL = "a\x1b[31mred\x00nul\x9b31m\u202ertl\udcff"
OUTCOME = {"kind": "ok", "stage": "execute", "target": "attacker@1/cpu/O1", "seconds": {}}
OUTPUTS = {"outputs": True}
NOTHING = {"value": None}


class Attacker(Backend):
    name = "attacker"
    levels = ("O0", "O1")

    def versions(self):
        return {"attacker": "1"}

    def load(self, model):
        import onnx

        return onnx.load_model_from_string(model).doc_string

    def build(self, module, level):
        def run(inputs):
            outputs = {"y": inputs["x"]}
            how, *arguments = module.split()
            attack = globals()[how]
            return (attack(outputs, *arguments) or outputs) if level == LEVEL else outputs

        return run


@dataclass(frozen=True)
class Attack(Job[int]):
    """Calls a function of this module; answered by the worker's process id."""

    how: str


class Attacks(Service):
    @does(Attack)
    def attack(self, job, report):
        report("compile O1")
        globals()[job.how]({})
        return os.getpid()


def service():
    return Attacks()


def nothing(outputs):
    """The identity, and no attack."""


# -- what is sent --------------------------------------------------------------------------------


def _sock() -> socket.socket:
    """The worker's end of the channel."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
    raise LookupError("no socket")


def _job() -> int:
    """The number of the job in hand, from the worker's own stack."""
    frame = sys._getframe()
    while frame.f_code.co_name != "_serve":
        frame = frame.f_back
    return frame.f_locals["number"]


def _send(kind: bytes, payload: bytes, job: int | None = None) -> None:
    channel.send(_sock(), kind, payload, _job() if job is None else job)


def _frame(index: bytes, body: bytes = b"") -> bytes:
    index += b" " * (-(8 + len(index)) % wire.ALIGNMENT)
    return wire.MAGIC + struct.pack("<I", len(index)) + index + body


def _part(header, blobs=None) -> None:
    _send(channel.PARTIAL, wire.encode({"value": {**OUTCOME, **header}}, blobs))


def _blob(entry: str, body: bytes = bytes(16)) -> None:
    _send(channel.PARTIAL, _frame(b'{"header": {}, "blobs": [' + entry.encode() + b"]}", body))


def deep_json(outputs):
    _send(channel.PARTIAL, _frame(b'{"header": ' + b'{"a":' * 90_000))


def deep_but_legal_json(outputs):
    _part({"complaint": {"kind": "error", "others": [[[[[["a"]]]]]]}})


def no_json(outputs):
    _send(channel.REPLY, _frame(b"\xff\xfe{"))


def header_is_a_list(outputs):
    _send(channel.REPLY, _frame(b'{"header": [1], "blobs": []}'))


def truncated_frame(outputs):
    _send(channel.REPLY, wire.encode({}, {"y": np.ones(100)})[:-64])


def huge_index(outputs):
    _send(channel.REPLY, _frame(b'{"header": {}, "blobs": [' + b"[]," * (6 << 20) + b"[]]}"))


def shape_lies(outputs):
    _blob('["outputs/y", "<f4", [4611686018427387904, 4], 0, 16]')


def shape_is_negative(outputs):
    _blob('["outputs/y", "<f4", [-2, -2], 0, 16]')


def shape_has_no_numbers(outputs):
    _blob('["outputs/y", "<f4", ["4"], 0, 16]')


def empty_shape_of_huge_numbers(outputs):
    _blob('["outputs/y", "<f4", [0, 1180591620717411303424], 0, 0]')


def object_dtype(outputs):
    _blob('["outputs/y", "O", [2], 0, 16]')


def struct_dtype(outputs):
    _blob('["outputs/y", "i4,f4", [2], 0, 16]')


def time_dtype(outputs):
    _blob('["outputs/y", "M8[ns]", [2], 0, 16]')


def dtype_is_a_module_attribute(outputs):
    _blob('["outputs/y", "finfo", [2], 0, 16]')


def blobs_share_their_bytes(outputs):
    """A thousand copies of the same bytes would fill the parent's memory."""
    _blob(",".join(f'["outputs/{i}", null, [], 0, 16]' for i in range(1000)))


def blob_without_a_name(outputs):
    _blob("[7, null, [], 0, 16]")


def two_blobs_of_one_name(outputs):
    _blob('["y", null, [], 0, 8], ["y", null, [], 8, 8]')


def message_is_a_number(outputs):
    _part({"message": 7})


def seconds_are_no_numbers(outputs):
    _part({"seconds": {"execute": "long"}})


def seconds_are_not_finite(outputs):
    _part({"seconds": {"execute": float("nan")}})


def unknown_field(outputs):
    _part({"surprise": 1})


def unknown_stage(outputs):
    _part({"stage": "lunch"})


def stage_that_no_worker_has(outputs):
    _part({"stage": "compare"})


def kind_that_no_worker_knows(outputs):
    _part({"kind": "mismatch"})


def another_target(outputs):
    _part({"target": "onnxruntime@1/cpu/O3"})


def no_target(outputs):
    _part({"target": "@@"})


def bytes_as_output(outputs):
    _part(OUTPUTS, {"outputs/y": b"no array"})


def one_part_too_many(outputs):
    _part({})
    _part({})


def early_reply(outputs):
    _send(channel.REPLY, wire.encode(NOTHING))


def two_replies(outputs):
    _part({})
    _send(channel.REPLY, wire.encode(NOTHING))
    _send(channel.REPLY, wire.encode(NOTHING))


def reply_to_another_job(outputs):
    _send(channel.REPLY, wire.encode(NOTHING), _job() + 7)


def ready_again(outputs):
    _send(channel.READY, b"", 0)


def unknown_kind_of_message(outputs):
    _send(b"?", b"")


def fault_without_fields(outputs):
    _send(channel.FAULT, wire.encode({"error_type": []}))


def message_of_terabytes(outputs):
    _sock().sendall(struct.pack("<cQQ", channel.REPLY, _job(), 1 << 42))


def noise(outputs):
    _sock().sendall(b"noise on the line" * 99)


# -- status page ---------------------------------------------------------------------------------


def _page():
    frame = sys._getframe()
    while frame.f_code.co_name != "_serve":
        frame = frame.f_back
    return frame.f_locals["status"]._map


def stage_is_garbage(outputs):
    page = _page()
    page[9] = 255
    page[10:265] = bytes(range(1, 256))
    os.abort()


def stage_is_blank(outputs):
    page = _page()
    page[9:12] = b"\2  "
    os.abort()


def page_is_garbage(outputs):
    page = _page()
    page[:] = b"\xee" * len(page)
    os.abort()


# -- text ----------------------------------------------------------------------------------------


def evil_text(outputs):
    error = type(EVIL.encode(errors="replace").decode().replace("\0", "0"), (Exception,), {})
    error.__qualname__ = EVIL
    os.write(2, EVIL.encode("utf-8", "surrogateescape"))
    raise error(f"Check failed: {EVIL} is wrong")


def raw_surrogates(outputs):
    """Bytes that Python's JSON reader would take for a surrogate."""
    told = '{"header": {"value": {"kind": "exception", "stage": "execute", '
    told += '"target": "attacker@1/cpu/O1",'
    index = told.encode() + b'"message": "\xed\xb3\xbf \\udcff \\ud800"}}, "blobs": []}'
    _send(channel.PARTIAL, _frame(index))
    _send(channel.REPLY, wire.encode(NOTHING))


def answer_and_linger(outputs):
    """The next job waits for a worker that is not done with this one."""
    _part({})
    _send(channel.REPLY, wire.encode(NOTHING))
    time.sleep(1)


# -- processes and files -------------------------------------------------------------------------


def remove_scratch(outputs):
    """What a cleaner of temporary files does, to every folder of the fork server."""
    shutil.rmtree(Path.cwd().parent)


def daemon(outputs):
    """A process in a session of its own, whose parents have ended."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            time.sleep(1000)
        os._exit(0)
    os.wait()


def daemon_and_abort(outputs):
    daemon(outputs)
    os.abort()


def thread_that_burns(outputs):
    """A loop of C that holds no lock of Python."""
    busy = ctypes.CDLL(None).usleep

    def burn():
        while True:
            busy(0)
            np.ones((200, 200)) @ np.ones((200, 200))

    threading.Thread(target=burn, daemon=True).start()


def break_numpy(outputs):
    np.ascontiguousarray = None


def object_output(outputs):
    return {"y": np.array([None, "text"], object)}


def text_output(outputs):
    return {"y": np.array(["text"])}


def struct_output(outputs):
    return {"y": np.zeros(2, "i4,f4")}


def no_outputs(outputs):
    return [outputs["y"]]


def empty_outputs(outputs):
    return Lying({})


def none_output(outputs):
    return {"y": None}


def renamed_output(outputs):
    return {"Y": outputs["y"]}


def numbered_output(outputs):
    return {0: outputs["y"]}


def further_output(outputs):
    return {**outputs, "z": outputs["y"]}


def listed_output(outputs):
    return {"y": [1.0]}


def generated_outputs(outputs):
    return (pair for pair in outputs.items())


class Lying(dict):
    """A mapping that is empty, and says that everything is in it."""

    def __len__(self):
        return 1

    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        return np.zeros(4, np.float32)

    def __bool__(self):
        return True


def raising_outputs(outputs):
    class Raising(dict):
        def items(self):
            raise LookupError("no items here")

    return Raising(y=outputs["y"])


def time_output(outputs):
    return {"y": np.zeros(2, "M8[s]")}


def kill_often(outputs, mark, times):
    """As somebody else may do, whenever this job has begun."""
    kills = Path(mark)
    count = len(kills.read_text()) if kills.exists() else 0
    if count < int(times):
        kills.write_text("x" * (count + 1))
        os.kill(os.getpid(), 9)


def break_more_of_numpy(outputs):
    """As a library does that puts its own functions into it."""
    np.array = np.asarray = np.ones = None


def kill_the_fork_server(outputs):
    os.kill(os.getppid(), 9)
    time.sleep(60)
