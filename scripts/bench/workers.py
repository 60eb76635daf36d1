"""Measures how much faster two workers are than one, by pairs of campaigns with the same tests.

    python -m scripts.bench.workers --backend onnxruntime --tests 2000 --pairs 3

One worker and one producer have one core, two of each have two. Tests per second are those of the
last nine tenths of the tests, since starting is serial. The machine must be idle otherwise: the CPU
milliseconds per test that are printed beside should be equal.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.store.store import Store
from scripts.campaigns import run_fuzz, set_options, summary

LEFT_OUT = 0.1
"""Share of the first tests that are not counted."""


def main(
    *,
    backend: str = "onnxruntime",
    tests: Annotated[int, typer.Option(help="In each campaign.", min=20)] = 2000,
    pairs: Annotated[int, typer.Option(help="Of campaigns, each with another seed.", min=1)] = 3,
) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two cores are needed, this process may use one")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, pairs + 1):
            one, two = (
                _rate(Path(folder, f"{seed}-{workers}"), backend, tests, seed, cores[:workers])
                for workers in (1, 2)
            )
            ratios.append(two / one)
            print(f"seed {seed}: {two / one:.2f} times as fast", flush=True)
    print(f"median of {pairs}: {statistics.median(ratios):.2f}")


def _rate(out: Path, backend: str, tests: int, seed: int, cores: list[int]) -> float:
    """Tests per second of a campaign on these cores, with one worker per core."""
    count = len(cores)
    given = (
        "-b",
        backend,
        "--out",
        out,
        "--tests",
        tests,
        "--seed",
        seed,
        "--exporter",
        "direct",
        "--quiet",
    )
    given += (*set_options(workers=count, producers=count, reduce="no", probe=0),)
    os.sched_setaffinity(0, cores)  # of this thread; the campaign inherits it
    run_fuzz(*given)
    with Store.open(out, write=False) as store:
        ended = sorted(line.at for _, line in store.lines())
    first = int(LEFT_OUT * len(ended))
    rate = (len(ended) - 1 - first) / (ended[-1] - ended[first])
    spent = summary(out)["cpu_ms"]
    total = spent["own"] + spent["compilers"]
    print(f"  {count} of each: {rate:.1f} tests/s, {total:.1f} ms of CPU per test", flush=True)
    return rate


if __name__ == "__main__":
    typer.run(main)
