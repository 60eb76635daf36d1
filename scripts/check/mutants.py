"""Measures what the tests are worth: the share of random one-line faults of the product they catch.

    python -m scripts.check.mutants --count 200 --seed 1 --json after.json
    python -m scripts.check.mutants --survivors after.json --tests OTHER_CHECKOUT

A mutant changes one place of a file of nnfuzz/, opspecs/ or backends/: a comparison, an operator of
arithmetic or logic, a number, a truth value, a condition, or a statement that is left out. Tests of
the file's room run on a copy of the checkout until one of them fails. A mutant that is caught by
a smaller set of tests is caught by a larger one, so --survivors runs only those that were not.
Some mutants have the meaning of the original, and survive.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import typer

ROOT = Path(__file__).parents[2]
PRODUCT = ("nnfuzz", "opspecs", "backends")
SECONDS = 600
"""Time limit of the tests of one mutant; a mutant that makes them hang is caught."""
NEXT = {"Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "==", "Is": "is not"}
NEXT |= {"IsNot": "is", "In": "not in", "NotIn": "in", "Add": "-", "Sub": "+", "Mult": "+"}
NEXT |= {"Div": "*", "FloorDiv": "*", "Mod": "+", "BitAnd": "|", "BitOr": "&", "LShift": ">>"}
NEXT |= {"RShift": "<<", "And": "or", "Or": "and"}
"""What takes the place of an operator."""


@dataclass(frozen=True)
class Mutant:
    """A change of one place. start, end: in the file's text. caught: None before the tests ran."""

    file: str
    line: int
    start: int
    end: int
    text: str
    before: str
    caught: bool | None = None

    @property
    def tests(self) -> str:
        """The folder with the tests of the file's room."""
        parts = Path(self.file).parts
        room = parts[1] if parts[0] == "nnfuzz" and len(parts) > 2 else parts[0]
        return f"tests/{room}" if (ROOT / "tests" / room).is_dir() else "tests/library"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before!r} -> {self.text!r}"


def mutants(count: int, seed: int) -> list[Mutant]:
    """Random mutants; files are drawn by their length."""
    rng = random.Random(seed)
    files = sorted(path for top in PRODUCT for path in (ROOT / top).rglob("*.py"))
    weights = [path.stat().st_size for path in files]
    drawn: dict[tuple[str, int, str], Mutant] = {}
    while len(drawn) < count:
        path = rng.choices(files, weights)[0]
        if places := list(changes(path)):
            mutant = rng.choice(places)
            drawn.setdefault((mutant.file, mutant.start, mutant.text), mutant)
    return list(drawn.values())


def changes(path: Path) -> Iterator[Mutant]:
    """All changes of a file that this module knows."""
    text = path.read_text("utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def at(line: int, column: int) -> int:
        """The position in the text; `ast` counts columns in bytes."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def change(node: ast.expr | ast.stmt, new: str) -> Mutant:
        start = at(node.lineno, node.col_offset)
        end = at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        name = path.relative_to(ROOT).as_posix()
        return Mutant(name, node.lineno, start, end, new, text[start:end])

    def between(left: ast.expr, right: ast.expr, op: ast.AST) -> Iterator[Mutant]:
        """The operator's own place, where only spaces stand around it."""
        start = at(left.end_lineno or 0, left.end_col_offset or 0)
        end = at(right.lineno, right.col_offset)
        new = NEXT.get(type(op).__name__)
        if new and not {*"()\n#"} & {*text[start:end]}:
            name = path.relative_to(ROOT).as_posix()
            yield Mutant(name, left.lineno, start, end, f" {new} ", text[start:end])

    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left, [op], [right]):
                yield from between(left, right, op)
            case ast.BinOp(left, op, right):
                yield from between(left, right, op)
            case ast.BoolOp(op, [left, right]):
                yield from between(left, right, op)
            case ast.Constant(bool() as value):
                yield change(node, str(not value))
            case ast.Constant(int() as value):
                yield change(node, str(value + 1))
            case ast.UnaryOp(ast.Not(), operand):
                yield change(node, f"bool({ast.unparse(operand)})")
            case ast.If(test) | ast.IfExp(test) if ast.unparse(test) != "TYPE_CHECKING":
                yield change(test, f"(not ({ast.unparse(test)}))")
            case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise():
                yield change(node, "pass")


# -- running --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """Copies of a checkout, one for each process."""

    copies: SimpleQueue[Path]

    def judge(self, mutant: Mutant) -> Mutant:
        """Runs the tests of the mutant's room."""
        copy = self.copies.get()
        file = copy / mutant.file
        original = file.read_text("utf-8")
        changed = original[: mutant.start] + mutant.text + original[mutant.end :]
        try:
            file.write_text(changed, encoding="utf-8")
            caught = not passes(copy, mutant.tests)
        finally:
            file.write_text(original, encoding="utf-8")
            self.copies.put(copy)
        return replace(mutant, caught=caught)


def passes(copy: Path, tests: str) -> bool:
    """Whether the tests of a folder pass within the time limit."""
    options = ["-q", "-x", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    command = [copy / ".venv" / "bin" / "python", "-m", "pytest", *options, tests]
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def copied(place: Path, tests: Path) -> Path:
    """A copy of this checkout with the tests of another one, and an environment in which it is
    installed; all other packages are those of this environment.
    """
    left_out = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".mypy_cache")
    shutil.copytree(ROOT, place, ignore=left_out)
    if tests != ROOT:
        shutil.rmtree(place / "tests")
        shutil.copytree(tests / "tests", place / "tests", ignore=left_out)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / ".venv"], check=True)
    (packages,) = (place / ".venv").glob("lib/python*/site-packages")
    here = Path(sysconfig.get_path("purelib"))
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    for file in here.glob("__editable__*nnfuzz*"):
        moved = file.read_text().replace(str(ROOT), str(place))
        (packages / file.name).write_text(moved)
    for about in here.glob("nnfuzz-*.dist-info"):
        shutil.copytree(about, packages / about.name)
    return place


def main(
    count: int = 200,
    seed: int = 1,
    jobs: Annotated[int, typer.Option(help="Processes of pytest at a time.")] = 2,
    survivors: Annotated[
        Path | None, typer.Option(help="Run those that this file says were not caught.")
    ] = None,
    tests: Annotated[Path, typer.Option(help="The checkout whose tests are run.")] = ROOT,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the results here.")] = None,
) -> None:
    if survivors:
        drawn = [Mutant(**row) for row in json.loads(survivors.read_text())]
        caught_before = [m for m in drawn if m.caught]
        drawn = [m for m in drawn if not m.caught]
    else:
        drawn, caught_before = mutants(count, seed), []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copied(Path(scratch) / str(number) / "nnfuzz", tests.resolve()))
        bench, done = Bench(copies), list(caught_before)
        with ThreadPoolExecutor(jobs) as pool:
            for mutant in pool.map(bench.judge, drawn):
                done.append(mutant)
                print("caught  " if mutant.caught else "SURVIVED", mutant, flush=True)
    caught = sum(bool(mutant.caught) for mutant in done)
    print(f"{caught} of {len(done)} caught ({caught / len(done):.1%})")
    if json_:
        json_.write_text(json.dumps([asdict(mutant) for mutant in done], indent=1))


if __name__ == "__main__":
    typer.run(main)
