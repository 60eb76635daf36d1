"""Attacks by files: random changes of them, and checks of the commands that read them.

Commands run in one process for all attacks. A command must end with 0, or with 2 and one line, and
write nothing outside of the folder that it was given.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from scripts.torment.attack import SECONDS, Attack, one

MEMORY_BYTES = 4 << 30
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NOTES = ("note: ",)  # lines beside an error
WITHIN = ("os.remove", "os.rmdir")  # of a folder that may be given by its descriptor
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.symlink", "os.truncate")


class Guard:
    """Records and prevents writes of this process outside of a folder, while one is set."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if (writes or event in CHANGES) and isinstance(arguments[0], str | bytes | os.PathLike):
            within = arguments[1] if event in WITHIN else -1
            beside = f"/proc/self/fd/{within}" if within != -1 else ""
            path = os.path.join(beside, os.fsdecode(arguments[0]))
            followed = event == "open" and not int(arguments[2]) & os.O_NOFOLLOW
            parent, name = os.path.split(os.path.abspath(path))
            path = os.path.realpath(path) if followed else f"{os.path.realpath(parent)}/{name}"
            inside = Path(path).is_relative_to(self.folder) or path == os.devnull
            if not inside and "__pycache__" not in path:
                self.seen.append(f"{event} {path}")
                raise PermissionError(f"{event} {path} is outside of what is attacked")

    @contextmanager
    def watching(self, folder: Path) -> Iterator[None]:
        self.seen, self.folder = [], folder.resolve()
        try:
            yield
        finally:
            self.folder = None


@cache
def _program() -> Any:
    """The command line, built once, since building it takes longer than most commands here."""
    from nnfuzz.cli.main import application

    return application()


def command(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `nnfuzz ARGUMENTS`."""
    from nnfuzz.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run(lambda: _program()([str(argument) for argument in arguments]))
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), err.getvalue()
    return -1, out.getvalue(), err.getvalue()


def judged(*arguments: object) -> str:
    """What is wrong with the result of a command; "" if nothing is."""
    code, _, err = command(*arguments)
    errors = [line for line in err.splitlines() if not line.startswith(NOTES)]
    if code not in (0, 2) or "Traceback" in err:
        return f"{arguments[0]} ended with {code}: {err}"
    if code == 2 and (len(errors) != 1 or not errors[0].startswith("error: ")):
        return f"{arguments[0]} told more than a line: {err}"
    return ""


def changed(folder: Path, rng: random.Random) -> None:
    """Changes one or two files of a folder."""
    for _ in range(rng.choice((1, 1, 2))):
        files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
        if not files:  # never write through a link: it leads out of the folder
            return
        path = rng.choice(files)
        how = rng.random()
        if path.suffix == ".json" and how < 0.6:
            with suppress(RecursionError, ValueError):  # too deep; damaged already
                value = mutated(json.loads(path.read_text()), rng)
                path.write_text(json.dumps(value), encoding="utf-8")
        elif how < 0.75:
            path.write_bytes(scrambled(path.read_bytes(), rng))
        elif how < 0.82:
            path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])
        elif how < 0.9:
            data = rng.choice(files).read_bytes()
            path.write_bytes(data) if rng.random() < 0.9 else path.unlink()
        else:
            special(path, folder, rng)


def special(path: Path, folder: Path, rng: random.Random) -> None:
    """Puts a link or a pipe in the place of a file."""
    path.unlink()
    how = rng.randrange(4)
    if how == 0:
        os.mkfifo(path)
    else:
        bait = folder.parent / "bait"  # a file outside of the folder that may be lost
        bait.write_text("precious")
        path.symlink_to(("/dev/zero", bait, path)[how - 1])


Change = Callable[[Path, random.Random], None]
Use = Callable[[Path, random.Random], str]
"""Uses a folder, and returns what went wrong."""


@contextmanager
def opened(make: Callable[[Path], object], use: Use, change: Change = changed) -> Iterator[Attack]:
    """Attacks on folders. make: writes the original folder. change: changes a copy of it. use: uses
    the copy."""
    with tempfile.TemporaryDirectory(prefix="nnfuzz-attack-") as name:
        folder = Path(name).resolve()

        def prepare() -> Attack:
            whole, guard = folder / "whole", Guard()
            if not whole.exists():
                make(whole)
            attack = partial(_attacked, whole, folder / "place", use, guard)
            if problem := attack(lambda *_: None, random.Random(0)):
                raise ValueError(f"what is unchanged fails: {problem}")
            return partial(attack, change)

        process = Mortal(prepare)

        def attack(rng: random.Random) -> str:
            nonlocal process
            if not process.alive:
                process = Mortal(prepare)
            return process.attack(rng)

        try:
            yield attack
        finally:
            process.end()


class Mortal:
    """A process that carries out attacks until it dies of one, or until one takes too long."""

    def __init__(self, prepare: Callable[[], Attack]) -> None:
        """prepare: makes the attack in that process."""
        context = multiprocessing.get_context("fork")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._ours, prepare))
        self._process.daemon = self.alive = True
        self._process.start()
        theirs.close()
        self._ours.recv()  # it is prepared, which may take long

    def attack(self, rng: random.Random) -> str:
        self._ours.send(rng)
        try:
            return str(self._ours.recv())
        except (EOFError, ConnectionError):
            self._process.join()
            self.alive = False
            return f"the process has ended with {self._process.exitcode}"
        except BaseException:  # it has taken too long
            self.end()
            raise

    def end(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.join()
        self._ours.close()


def _serve(theirs: Any, ours: Any, prepare: Callable[[], Attack]) -> None:
    """The process's main loop: sends the result of each attack."""
    ours.close()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    attack = prepare()
    theirs.send("")
    with suppress(EOFError):
        while True:
            # Then the process itself says where an attack hangs, if it can.
            theirs.send(one(attack, theirs.recv(), SECONDS / 2))


def _attacked(
    whole: Path, place: Path, use: Use, guard: Guard, change: Change, rng: random.Random
) -> str:
    """Uses a changed copy of a folder; returns what went wrong."""
    shutil.rmtree(place, ignore_errors=True)  # of an attack of which its process has died
    copy = shutil.copytree(whole, place / "copy")
    try:
        change(copy, rng)
        with guard.watching(copy):
            problem = use(copy, rng)
        return problem or "\n".join(guard.seen)
    finally:
        shutil.rmtree(place)


# -- changes of JSON values and of bytes that often break readers ------------------------------

TEXTS = (
    *("", " ", "\x00", "\x1b[2J\x1b]0;title\x07", "\udcff", "\u202e\u2066", "é" * 300, "V8"),
    *("../../victim", "/etc/passwd", '"""', "'\n", "<script>", "{{7*7}}", "%s%n", "a@b/c:d", "-1"),
    *("NaN", "1e999", "none", "ok", "crash", "compare", "O", "M8[ns]", "i4,f4", "a" * 70_000),
)
VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), [], {}, [[]], [None], {"": ""}, [0] * 5000),
)
BYTES = (
    *(b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\xff" * 8, b"{", b"}", b"[" * 3000, b'"'),
    b"\\ud800",
)


def mutated(value: Any, rng: random.Random) -> Any:
    """A copy of a JSON value with one to four places changed."""
    try:
        changed = copy.deepcopy(value)
    except RecursionError:  # an earlier change has nested it as deeply as can be
        return value
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        changed = _changed(changed, rng)
    return changed


def _changed(value: Any, rng: random.Random) -> Any:
    """Changes the value at a random place."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        named = isinstance(value, dict)
        place = rng.choice(list(value)) if named else rng.randrange(len(value))
        if rng.random() < 0.1:
            del value[place]
        elif rng.random() >= 0.1:
            value[place] = _changed(value[place], rng)
        elif named:
            value[rng.choice(TEXTS)] = value.pop(place)
        else:
            value.insert(place, rng.choice(value))
        return value
    return replacement(value, rng)


def replacement(value: Any, rng: random.Random) -> Any:
    """Another value, often of the same type."""
    if isinstance(value, str) and rng.random() < 0.6:
        text = rng.choice(TEXTS)
        return rng.choice((text, value + text, text + value, value[: len(value) // 2]))
    if type(value) in (int, float) and rng.random() < 0.6:
        return rng.choice((value + 1, -value, value * 2**40, value / 2, value - 1))
    if rng.random() < 0.05:
        return nested(rng.choice((50, 400, 3000)), rng)
    return copy.deepcopy(rng.choice((*VALUES, *TEXTS)))


def nested(depth: int, rng: random.Random) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def scrambled(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with up to eight places changed."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        place = rng.randrange(len(out) + 1)
        how = rng.randrange(6)
        if how == 0 and out:
            out[place % len(out)] ^= 1 << rng.randrange(8)
        elif how == 1:
            out[place:place] = rng.choice(BYTES)
        elif how == 2:
            del out[place : place + rng.choice((1, 4, 64, 1000))]
        elif how == 3:
            piece = rng.choice(BYTES)
            out[place : place + len(piece)] = piece
        elif how == 4:
            out[place:place] = out[place : place + rng.choice((8, 200))]
        else:
            out[place : place + 8] = rng.randbytes(8)
    return bytes(out)
