"""Attacks on `nnfuzz mine`: a good model among models and Python files that are hostile.

Every file must cost one line that names it and says why, and its neighbours nothing: the pattern of
the good model is found, nothing is written but patterns, no process stays behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import onnx
from onnx import helper

from nnfuzz.sandbox.zygote import remove_tree
from scripts.torment.attack import Attack, Surface
from scripts.torment.attack.confined import confined
from scripts.torment.attack.mutations import scrambled
from scripts.torment.attack.output import trouble_of_text
from scripts.torment.attack.programs import program
from tests.attacks.bombs import BOMBS, model, node

FILES, PROGRAMS = 12, 8
"""Hostile models and scripts of an attack."""
SECONDS, MEMORY_BYTES = 5.0, 1 << 30
"""Limits of a model and of a script, lower than for users."""
CPU_SECONDS = 100
HUGE = 3 << 30
KILL_SECONDS = 5.0
LINE = 600
"""Characters of a line about a file, whose path has some hundred."""
MARK = "NNFUZZ_TORMENT"
"""Variable in the environment of all processes of an attack."""

Write = Callable[[Path, random.Random], None]


# -- models ---------------------------------------------------------------------------------------


def damaged(file: Path, rng: random.Random) -> None:
    data = good().SerializeToString()
    how = rng.randrange(4)
    cut = data[: rng.randrange(len(data) - 20)]
    file.write_bytes((b"", cut, rng.randbytes(rng.randrange(9000)), b"\xff" + data)[how])


def changed(file: Path, rng: random.Random) -> None:
    """Bytes of a model are changed, so that it may be damaged, senseless, or another one."""
    file.write_bytes(scrambled(good().SerializeToString(), rng))


def bomb(file: Path, rng: random.Random) -> None:
    """A small model that means too much, or nothing."""
    name = rng.choice(list(BOMBS))
    file.write_bytes(BOMBS[name](rng.choice((31, 37, 47, 62))).SerializeToString())


def sparse(file: Path, rng: random.Random) -> None:
    with file.open("wb") as opened:
        opened.truncate(HUGE)


def many_nodes(file: Path, rng: random.Random) -> None:
    names = ["x", *(f"a{i}" for i in range(200_000)), "y"]
    nodes = [node(rng.choice(("Neg", "Abs")), a, to=b) for a, b in pairwise(names)]
    file.write_bytes(model(nodes).SerializeToString())


def deep(file: Path, rng: random.Random) -> None:
    """If in If, deeper than protobuf reads or, mostly, than Python walks."""
    attribute = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH)
    head, body = attribute.SerializeToString(), onnx.GraphProto(node=[node("Neg", "x")])
    data = body.SerializeToString()
    for _ in range(rng.choice((40, 200, 5000))):
        inner = node("If", "t").SerializeToString() + _field(5, head + _field(6, data))
        data = _field(1, inner)
    file.write_bytes(onnx.ModelProto(ir_version=8).SerializeToString() + _field(7, data))


def _field(number: int, message: bytes) -> bytes:
    """A message as a field of another one, as protobuf writes it."""
    size, length = len(message), b""
    while size >= 128:
        size, low = divmod(size, 128)
        length += bytes([low | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + message


def outside(file: Path, rng: random.Random) -> None:
    """A weight in a file that is not of the model, or is no file."""
    made = good()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    inside = {
        "pipe.bin": os.mkfifo,
        "link.bin": partial(os.symlink, "/etc/passwd"),
        "zero.bin": partial(os.symlink, "/dev/zero"),
        "circle.bin": partial(os.symlink, "circle.bin"),
        "folder.bin": os.mkdir,
        "none.bin": str,
    }
    places = ("/etc/passwd", "../../bait", "../" * 9 + "etc/passwd", "/dev/zero", "", ".", "a\0b")
    place = rng.choice((*places, *inside))
    if place in inside and not os.path.lexists(file.parent / place):
        inside[place](str(file.parent / place))
    tensor.external_data.add(key="location", value=place)
    if rng.random() < 0.3:
        offset = rng.choice(("-1", "1e9", str(2**63), "x"))
        tensor.external_data.add(key="offset", value=offset)
    file.write_bytes(made.SerializeToString())


def special(file: Path, rng: random.Random) -> None:
    """What is no file, or a link to something else."""
    targets = ("/dev/zero", "/dev/stdin", "/etc/passwd", file.name, "nowhere", "../bait")
    target = rng.choice(("", *targets))
    file.symlink_to(target) if target else os.mkfifo(file)


def pickled(file: Path, rng: random.Random) -> None:
    """A pickle that writes a file, by itself and as PyTorch keeps it."""
    import torch

    loaded = _Loaded(str(file.parent / "executed"))
    if rng.random() < 0.5:
        torch.save(loaded, file)
    else:
        file.write_bytes(pickle.dumps(loaded))


class _Loaded:
    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return open, (self.file, "w")


def misnamed(file: Path, rng: random.Random) -> None:
    """Names that are no UTF-8, lead elsewhere or steer a terminal, of values and operators."""
    names = ("../../bait", "/etc/passwd", "\x1b[2J", "é" * 300, "a\nb", "")
    name = rng.choice(names)
    made = model([helper.make_node(name, ["x"], [name]), node("Neg", name)])
    made.graph.name = made.producer_name = name
    data = made.SerializeToString()
    if rng.random() < 0.5:
        data = data.replace(b"Neg", b"\xff\xfe\xfd")
    file.write_bytes(data)


def text(file: Path, rng: random.Random) -> None:
    """Nonsense in ONNX's text formats."""
    texts = ("graph { node { op_type: 'Relu' input: }", "graph {" * 5000, "\0", "< 1 > g () { }")
    file.write_text(rng.choice(texts))


MODELS: dict[Write, tuple[str, ...]] = {
    **dict.fromkeys((damaged, outside, special, pickled), (".onnx",)),
    **dict.fromkeys((changed, bomb, sparse, many_nodes, deep, misnamed), (".onnx",)),
    text: (".prototxt", ".onnxtxt", ".pbtxt"),
}
"""How a hostile model is written, with the suffixes that it may have."""
FREE = frozenset((changed, bomb, many_nodes, misnamed, special))
"""Ways that may leave a model that can be read, and costs no line."""


# -- scripts --------------------------------------------------------------------------------------

HEAD = "import onnx.helper, os, sys, time, socket, signal, threading, subprocess, atexit\n"
SCRIPTS = {
    "forever": "while True: pass",
    "sleep": "time.sleep(10000)",
    "deaf": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 60))\nwhile True: pass",
    "fork": "os.fork()",
    "forks": "for _ in range(200):\n  if not os.fork(): time.sleep(10000)\ntime.sleep(10000)",
    "daemon": "os.fork() or (os.setsid(), os.fork() or time.sleep(10000))",
    "thread": "threading.Thread(target=time.sleep, args=(10000,)).start()",
    "memory": "held = [bytearray(1 << 20) for _ in range(2048)]\ntime.sleep(10000)",
    "shared": "import mmap\nm = mmap.mmap(-1, 2 << 30)\n"
    "for i in range(0, 2 << 30, 4096): m[i] = 1\ntime.sleep(10000)",
    "memfd": "f = os.memfd_create('x')\nfor _ in range(2048): os.write(f, bytes(1 << 20))",
    "write": "open(BAIT, 'w').write('spoilt')",
    "remove": "os.remove(BAIT)",
    "link": "os.symlink(BAIT, 'x.onnx')\nopen('x.onnx', 'w').write('spoilt')",
    "shell": "subprocess.run(['sh', '-c', f'echo spoilt > {BAIT}; rm {BAIT}'])\nraise ValueError",
    "disk": "f = open('x', 'wb')\nfor _ in range(2048): f.write(bytes(1 << 20))",
    "deep": "for _ in range(3000): os.mkdir('d'); os.chdir('d')",
    "locked": "os.makedirs('d/e'); os.chmod('d', 0)",
    "pipe": "os.mkfifo('x.onnx')",
    "connect": "socket.create_connection(('127.0.0.1', PORT), 5).send(b'hello')",
    "datagram": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', PORT))",
    "listen": "s = socket.socket(); s.bind(('', 0)); s.listen(); raise ValueError",
    "leave": "os._exit(CODE)",
    "exit": "sys.exit(CODE)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "parent": "os.kill(os.getppid(), signal.SIGKILL)",
    "crash": "import ctypes\nctypes.string_at(0)",
    "atexit": "atexit.register(lambda: open(BAIT, 'w').write('spoilt'))",
    "print": "for _ in range(3000): print('x' * (1 << 20))",
    "escapes": "print('\\x1b[2J::error::x')\nraise ValueError('\\x1b[2J\\n::error::y')",
    "raise": "raise type('E', (BaseException,), {'__str__': lambda self: 1 / 0})",
    "recursion": "f = lambda: f()\nf()",
    "syntax": "def (",
    "channel": "for f in range(3, 99):\n  try: os.write(f, os.urandom(99))\n  except OSError: pass",
    "closed": "os.closerange(0, 99)",
    "modules": "sys.modules.clear()\nsys.path.clear()",
    "patched": "import builtins\nbuiltins.open = builtins.len = None",
    "nothing": "pass",
    "tests": "import pytest\ndef test_a(): os._exit(CODE)",
    "broken tests": "raise ImportError('nothing of it')\ndef test_a(): pass",
}
"""Python files, by what they do."""
MAKES = (
    "from onnx import helper, TensorProto\n"
    "make = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3])\n"
    "ops = [('Ceil', 'x', 'a'), ('Sinh', 'a', 'b'), ('Softsign', 'b', 'y')]\n"
    "nodes = [helper.make_node(o, [i], [j]) for o, i, j in ops]\n"
    "helper.make_model(helper.make_graph(nodes, 'g', [make('x')], [make('y')]))\n"
)
"""A script that makes a model; what it does afterwards must not cost the model."""


def script(name: str, bait: Path, port: int, rng: random.Random) -> str:
    names = f"BAIT, PORT, CODE = {str(bait)!r}, {port}, {rng.choice((0, 1, 3, 255))}\n"
    return HEAD + MAKES + names + SCRIPTS[name] + "\n"


def special_script(file: Path, rng: random.Random) -> str:
    """What is no Python file, or not of its folder."""
    how = rng.randrange(4)
    if how == 0:
        sparse(file, rng)
    elif how == 1:
        file.write_bytes(b"import onnx.helper\n\xff\xfe = 1\n")
    else:
        file.symlink_to(("../elsewhere.py", "/dev/zero")[how - 2])
    return ("sparse", "bytes", "link", "device")[how]


QUIET = frozenset("fork daemon thread deep locked pipe exit atexit nothing".split())
"""Scripts that cost no line: what else they do is prevented, and they come to their end."""
EITHER = frozenset("channel closed modules patched print".split())
"""Scripts that may cost a line or none."""
MAKE_NONE = frozenset(("syntax", "sparse", "bytes", "link", "device"))
"""Files that make no model."""


# -- an attack --------------------------------------------------------------------------------


def good() -> onnx.ModelProto:
    from tests.mine.models import attention

    return attention()


def attack(folder: Path, sockets: Sequence[socket.socket], rng: random.Random) -> str:
    """Mines a folder of hostile files; returns what went wrong."""
    place = folder / "place"
    remove_tree(place)
    source, out, temporary, bait = (place / n for n in ("source", "out", "temporary", "bait"))
    for made in (source, temporary):
        made.mkdir(parents=True)
    bait.write_text("precious")
    (place / "elsewhere.py").write_text(HEAD + MAKES)
    onnx.save(good(), source / "good.onnx")
    port = sockets[0].getsockname()[1]
    files = {**models(source, rng), **scripts(source, bait, port, rng)}
    before = snapshot(place)
    code, _, err = program(
        temporary, "mine", source, "--python", "--out", out, cpu_seconds=CPU_SECONDS
    )
    problems = [*wrong_lines(files, err), *wrong_patterns(files, out)]
    if code:
        problems.append(f"exit code {code}")
    if (after := snapshot(place, out)) != before:
        problems.append(f"files have changed: {sorted(set(after.items()) ^ set(before.items()))}")
    if (source / "executed").exists():
        problems.append("a pickle was loaded")
    if any(reached(opened) for opened in sockets):
        problems.append("a script has reached a port of this machine")
    if left := remaining():
        problems.append(f"processes stay behind: {left}")
    remove_tree(place)
    return "\n".join([*problems, err]) if problems else ""


def models(source: Path, rng: random.Random) -> dict[str, bool | None]:
    """Writes hostile models. By name, whether a line is due; None if one may be there or not."""
    files: dict[str, bool | None] = {}
    for number in range(FILES):
        write = rng.choice(list(MODELS))
        file = source / f"m{number}-{write.__name__}{rng.choice(MODELS[write])}"
        write(file, rng)
        files[file.name] = None if write in FREE else True
    return files


def scripts(source: Path, bait: Path, port: int, rng: random.Random) -> dict[str, bool | None]:
    files: dict[str, bool | None] = {}
    for number in range(PROGRAMS):
        name = rng.choice(list(SCRIPTS))
        file = source / f"s{number}.py"
        if rng.random() < 0.1:
            name = special_script(file, rng)
        else:
            file.write_text(script(name, bait, port, rng))
        file = file.rename(source / f"s{number}-{name.replace(' ', '-')}.py")
        files[file.name] = None if name in EITHER else name not in QUIET
    return files


def snapshot(folder: Path, *without: Path) -> dict[str, tuple[int, int]]:
    """Sizes and times of everything below a folder."""
    paths = (p for p in folder.rglob("*") if not any(p.is_relative_to(w) for w in without))
    found = {str(p): p.lstat() for p in paths if not p.is_dir()}
    return {name: (about.st_size, about.st_mtime_ns) for name, about in found.items()}


def wrong_lines(files: Mapping[str, bool | None], err: str) -> Iterator[str]:
    notes = [line for line in err.splitlines() if line.startswith("note: ")]
    if "Traceback" in err or trouble_of_text(err):
        yield f"stderr: {trouble_of_text(err) or 'a traceback'}"
    for name, due in files.items():
        lines = [line for line in notes if name in line and f"{name}, model " not in line]
        if len(lines) > 1 or due not in (None, bool(lines)):
            yield f"{name} costs {len(lines)} lines"
        yield from (f"an unclear line: {line}" for line in lines if unclear(line, name))
    for line in notes:
        if not any(name in line for name in files):
            yield f"a line about no file: {line}"


def unclear(line: str, name: str) -> bool:
    reason = line.partition(name)[2] or line
    return len(line) > LINE or len(reason) < 8 or "worker ended" in line


def wrong_patterns(files: Mapping[str, bool | None], out: Path) -> Iterator[str]:
    names = [path.name for path in out.glob("*")] if out.is_dir() else []
    wanted = ["mined_Reshape_Transpose_Mul_Softmax_"]
    if any(f.endswith(".py") and f[3:-3] not in MAKE_NONE for f in files):
        wanted.append("mined_Ceil_Sinh_Softsign_")
    for pattern in wanted:
        if not any(name.startswith(pattern) for name in names):
            yield f"{pattern} is lost"
    yield from (f"{name} is written" for name in names if not name.endswith(".json"))


def reached(opened: socket.socket) -> bool:
    """Whether something has arrived at a socket that waits for no longer than a moment."""
    with contextlib.suppress(BlockingIOError):
        if opened.type is socket.SOCK_DGRAM:
            opened.recv(9)
        else:
            opened.accept()[0].close()
        return True
    return False


def remaining() -> list[str]:
    """Command lines of the processes of an attack that live on."""
    end = time.monotonic() + KILL_SECONDS
    while (found := list(_marked())) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _marked() -> Iterator[str]:
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={os.environ[MARK]}\0".encode() in (place / "environ").read_bytes():
                yield (place / "cmdline").read_text().replace("\0", " ")[:200]


@contextmanager
def opened() -> Iterator[Attack]:
    with tempfile.TemporaryDirectory(prefix="nnfuzz-attack-") as name:
        folder = Path(name).resolve()

        def prepare() -> Attack:
            from nnfuzz.mine import mining

            os.environ[MARK] = name
            for limits in ("READING", "RUNNING"):
                low = {"seconds": SECONDS, "memory_bytes": MEMORY_BYTES}
                setattr(mining, limits, replace(getattr(mining, limits), **low))
            stream, datagram = (
                socket.create_server(("127.0.0.1", 0)),
                socket.socket(type=socket.SOCK_DGRAM),
            )
            datagram.bind(stream.getsockname())
            for made in (stream, datagram):
                made.setblocking(False)
            return partial(attack, folder, (stream, datagram))

        with confined(folder, prepare, SURFACE.seconds) as made:
            yield made


SURFACE = Surface("mining", 0.02, opened, "models and scripts that are mined", seconds=1200)
SURFACES = (SURFACE,)
