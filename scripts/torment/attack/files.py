"""Attacks by files: changes of files, and checks of the commands that read them.

Commands run in one process for all attacks. A command must end with 0, or with 2 and one line, and
write nothing outside of the folder that it was given.
"""

from __future__ import annotations

import contextlib
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
from scripts.torment.attack.mutations import mutated, scrambled

MEMORY_BYTES = 4 << 30
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NOTES = ("note: ",)  # lines beside an error
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
            path = os.fsdecode(arguments[0])
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
