"""Attacks nnfuzz at random on every surface that others reach; exits with 1 on any trouble.

Trouble is a traceback, a hang, a wrong exit code, or a file written outside of its folder. Each
attack depends on the seed, its surface and its number, by which it can be repeated alone.

    python -m scripts.torment.attack --count 10000
    python -m scripts.torment.attack --surface frames --seed 3 --first 812 --count 1
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nnfuzz.cli.progress import steps
from scripts.torment.attack import Surface, Tally, run, surfaces

LINES = 25  # of a traceback that are shown
MOST = 5  # troubles of a surface that are shown


def main(
    count: Annotated[int, typer.Option(min=1, help="Attacks in all.")] = 10_000,
    seed: int = 0,
    surface: Annotated[list[str] | None, typer.Option(help="Default: all.")] = None,
    first: Annotated[int, typer.Option(help="Number of the first attack on a surface.")] = 0,
) -> None:
    known = surfaces()
    unknown = set(surface or ()) - known.keys()
    if unknown:
        raise typer.BadParameter(f"no surface {min(unknown)!r}; known: {', '.join(known)}")
    tallies = {name: Tally() for name in surface or known}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    try:
        attack({known[name]: tally for name, tally in tallies.items()}, seed, first, count)
    finally:  # of attacks that are interrupted too
        show(tallies, seed)
    raise typer.Exit(any(tally.trouble for tally in tallies.values()))


def attack(tallies: dict[Surface, Tally], seed: int, first: int, count: int) -> None:
    """Attacks the surfaces in turn; prints each trouble when it occurs."""
    whole = sum(surface.share for surface in tallies)
    counts = {s: max(1, round(count * s.share / whole)) for s in tallies}
    with steps("attacking", sum(counts.values())) as advance:
        for surface, tally in tallies.items():
            for number, problem in run(surface, seed, first, counts[surface], tally):
                advance(surface.name)
                if problem and len(tally.trouble) <= MOST:
                    print(described(surface.name, seed, number, problem), flush=True)


def show(tallies: dict[str, Tally], seed: int) -> None:
    table = Table("surface", "attacks", "seconds", "trouble", title=f"seed {seed}")
    for name, tally in tallies.items():
        table.add_row(name, *map(str, (tally.attacks, round(tally.seconds), len(tally.trouble))))
    Console().print(table)


def described(surface: str, seed: int, number: int, problem: str) -> str:
    """How an attack is repeated, and the end of what went wrong."""
    last = "\n".join(problem.splitlines()[-LINES:])
    return f"\n--surface {surface} --seed {seed} --first {number} --count 1:\n{last}"


if __name__ == "__main__":
    typer.run(main)
