"""Attacks nnfuzz at random on every surface that others reach; exits with 1 on any trouble.

Trouble is a traceback, a hang, a wrong exit code, or a file written outside of its folder. Each
attack depends on the seed, its surface and its number, by which it can be repeated alone.

    python -m scripts.torment.attack --count 10000
    python -m scripts.torment.attack --surface frames --seed 3 --first 812 --count 1
"""

from __future__ import annotations

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
    chosen = [known[name] for name in surface or known]
    tallies = attacked(chosen, seed, first, count)
    show(tallies, seed)
    raise typer.Exit(any(tally.trouble for tally in tallies.values()))


def attacked(chosen: list[Surface], seed: int, first: int, count: int) -> dict[str, Tally]:
    whole = sum(surface.share for surface in chosen)
    counts = {s.name: max(1, round(count * s.share / whole)) for s in chosen}
    tallies = {}
    with steps("attacking", sum(counts.values())) as advance:
        for surface in chosen:
            tallies[surface.name] = run(surface, seed, first, counts[surface.name], advance)
    return tallies


def show(tallies: dict[str, Tally], seed: int) -> None:
    table = Table("surface", "attacks", "seconds", "trouble", title=f"seed {seed}")
    for name, tally in tallies.items():
        table.add_row(name, *map(str, (tally.attacks, round(tally.seconds), len(tally.trouble))))
    Console().print(table)
    for name, tally in tallies.items():
        for number, problem in list(tally.trouble.items())[:MOST]:
            last = "\n".join(problem.splitlines()[-LINES:])
            print(f"\n--surface {name} --seed {seed} --first {number} --count 1:\n{last}")


if __name__ == "__main__":
    typer.run(main)
