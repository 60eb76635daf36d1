"""Attacks on commands as whole programs with the limits of users: small models that mean too much,
and files with texts that try to escape from their context.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sqlite3
import sys
import tempfile
from functools import partial
from pathlib import Path

from scripts.torment.attack import Surface
from scripts.torment.attack.files import changed, opened, wrong_end
from scripts.torment.attack.mutations import scrambled
from scripts.torment.attack.output import (
    HOSTILE,
    trouble_of_markdown,
    trouble_of_pages,
    trouble_of_text,
)

CPU_SECONDS = 20
"""Time limit of a command, after which it must report that it takes too long."""
SIZES = (0, 1, 2, 3, 8, 20, 31, 37, 47, 62)
MEMORY_BYTES = 1 << 30
"""Computing time of a command, lower than for users, so that an attack takes a second or two."""
_PRINTED = 1 << 24  # bytes that are read of what a command prints


def program(
    folder: Path, *arguments: object, cpu_seconds: int = CPU_SECONDS
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `nnfuzz ARGUMENTS` in a process of its own.

    folder: for its temporary files. cpu_seconds: computing time of each of its processes.
    """
    with open(os.memfd_create("out"), "rb") as out, open(os.memfd_create("err"), "rb") as err:
        pid = os.fork()
        if not pid:
            _become(folder, list(map(str, arguments)), out.fileno(), err.fileno(), cpu_seconds)
        try:
            _, status = os.waitpid(pid, 0)
        except BaseException:  # it has taken too long
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        texts = [os.pread(file.fileno(), _PRINTED, 0).decode() for file in (out, err)]
        return os.waitstatus_to_exitcode(status), *texts


def _become(folder: Path, arguments: list[str], out: int, err: int, cpu_seconds: int) -> None:
    """Replaces this process by the command; never returns."""
    code: object = 70
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        from nnfuzz.cli import limits
        from nnfuzz.cli.main import main

        tempfile.tempdir = str(folder)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        limits.MEMORY_BYTES = MEMORY_BYTES  # type: ignore[misc]
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = (open(n, "w", closefd=False) for n in (1, 2))  # noqa: SIM115
        sys.argv = ["nnfuzz", *arguments]
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 70)


def judged(folder: Path, *arguments: object) -> str:
    """What is wrong with the result and the files of a program; "" if nothing is."""
    code, out, err = program(folder, *arguments)
    found = (1,) if arguments[0] == "merge" else ()  # findings
    if problem := wrong_end(arguments, code, err, (0, 2, *found)):
        return problem
    body = out.partition("\n")[2] if arguments[0] == "file" else ""  # behind the title, plain text
    markdown = trouble_of_markdown(body)
    problem = trouble_of_text(out) or trouble_of_text(err) or markdown or trouble_of_pages(folder)
    return f"{arguments[0]}: {problem}:\n{out}\n{err}" if problem else ""


# -- models that mean too much --------------------------------------------------------------------


def change_bomb(folder: Path, rng: random.Random) -> None:
    """Replaces the model by a bomb, sometimes by a damaged one."""
    from tests.attacks.bombs import BOMBS

    data = BOMBS[rng.choice(list(BOMBS))](rng.choice(SIZES)).SerializeToString()
    if rng.random() < 0.3:
        data = scrambled(data, rng)
    (folder / "model.onnx").write_bytes(data)


def use_bomb(folder: Path, rng: random.Random) -> str:
    """Shows, draws or rewrites the model."""
    model = folder / "model.onnx"
    seed = rng.randrange(1000)
    more = ("--out", folder / "made", "--count", 2, "--seed", seed)
    ways = (("show", model), ("show", model, "--svg", folder / "a.svg"), ("rewrite", model, *more))
    return judged(folder, *rng.choice(ways))


def _model(folder: Path) -> None:
    from tests.attacks.bombs import long

    folder.mkdir()
    (folder / "model.onnx").write_bytes(long(3).SerializeToString())


# -- texts that try to leave their place ----------------------------------------------------------


def _campaign(folder: Path) -> None:
    from tests.attacks import samples

    samples.campaign(folder)
    with contextlib.closing(sqlite3.connect(folder / "campaign.sqlite")) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def change_texts(folder: Path, rng: random.Random) -> None:
    """Puts hostile texts into the database and the finding; sometimes changes other things."""
    with contextlib.closing(sqlite3.connect(folder / "campaign.sqlite")) as db:
        for _ in range(rng.choice((0, 1, 3))):
            table, column = rng.choice(_TEXTS)
            with contextlib.suppress(sqlite3.IntegrityError):
                db.execute(f"UPDATE {table} SET {column} = ?", [rng.choice(HOSTILE)])
            db.commit()
    for file in (folder / "findings").rglob("*.json"):
        text = file.read_text("utf-8")
        for word in rng.sample(_WORDS, rng.choice((0, 1, 3))):
            text = text.replace(word, _in_json(rng.choice(HOSTILE)))
        file.write_text(text, "utf-8")
    if rng.random() < 0.2:
        changed(folder, rng)


_TEXTS = (
    *(("findings", name) for name in ("title", "folder", "backend", "level", "party", "complaint")),
    *(("findings", name) for name in ("signature", "compiler", "kind", "stage", "test")),
    *(("tests", name) for name in ("outcomes", "items", "exporter", "digest", "status")),
    *(("epochs", "reasons"), ("meta", "value"), ("sessions", "sut")),
)
_WORDS = (
    "wrong value at Mul",
    "Mul",
    "Add",
    "O3",
    "ac5d9134d459",
    '"y"',
    '"w"',
    '"1.0"',
    "float32",
)


def _in_json(text: str) -> str:
    import json

    return json.dumps(text)[1:-1]


def use_texts(folder: Path, rng: random.Random) -> str:
    """Runs every command that prints a campaign or finding and starts no compiler."""
    finding = folder / "findings" / "one"
    ways = (
        *(("show", finding), ("file", finding), ("report", folder), ("metrics", folder)),
        ("merge", folder, "--out", folder / "whole"),
    )
    return judged(folder, *rng.choice(ways))


SURFACES = (
    Surface("bombs", 2, partial(opened, _model, use_bomb, change_bomb), "models without end"),
    Surface("texts", 2, partial(opened, _campaign, use_texts, change_texts), "what is printed"),
)
