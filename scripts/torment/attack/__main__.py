"""Attacks nnfuzz at random on every surface that others reach; exits with 1 on any trouble.

Trouble is a traceback, a hang, a wrong exit code, or a file written outside of its folder. Each
attack depends on the seed, its surface and its number, by which it can be repeated alone.

    python -m scripts.torment.attack --count 1000
    python -m scripts.torment.attack --surface findings --seed 3 --first 812 --count 1
"""

from __future__ import annotations

from typing import Annotated

import typer

from scripts.torment.attack import run, surfaces

LINES = 25  # of a traceback that are shown


def main(
    count: Annotated[int, typer.Option(min=1, help="Attacks on each surface.")] = 1000,
    seed: int = 0,
    surface: Annotated[list[str] | None, typer.Option(help="Default: all.")] = None,
    first: Annotated[int, typer.Option(help="Number of the first attack on a surface.")] = 0,
) -> None:
    known = surfaces()
    unknown = set(surface or ()) - known.keys()
    if unknown:
        raise typer.BadParameter(f"no surface {min(unknown)!r}; known: {', '.join(known)}")
    whole = 0
    for name in surface or known:
        trouble = 0
        for number, problem in run(name, known[name], seed, first, count):
            if problem:
                trouble += 1
                last = "\n".join(problem.splitlines()[-LINES:])
                print(f"\n--surface {name} --seed {seed} --first {number} --count 1:\n{last}")
        print(f"{name}: {count} attacks, {trouble} with trouble", flush=True)
        whole += trouble
    raise typer.Exit(bool(whole))


if __name__ == "__main__":
    typer.run(main)
