"""Measures what each variation costs and finds: each alone against none of them.

    python -m scripts.bench.variations --tests 2000 --seed 1 --seed 2 --seed 3 -b onnxruntime

Causes are those of the findings once they are reduced; "alone" counts those that no other row met.
A share is lowered where a variation costs more than its share of the causes.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from scripts.campaigns import run_fuzz, set_options

OFF = {
    **{"dynamic": 0, "edge-share": 0, "forms": 0, "motifs": 0, "quantize": 0},
    **{"skeletons": 0, "spelled": 0, "sizes": "small", "rewrites": 0},
}
ON = {
    **{"dynamic": 0.3, "edge-share": 0.3, "forms": 0.3, "motifs": 1.5, "quantize": 0.3},
    **{"skeletons": 0.3, "spelled": 0.3, "sizes": "mixed", "rewrites": 0.3},
}
NONE = "none"


def measured(name: str, backend: str, tests: int, seed: int) -> tuple[float, set[str]]:
    """Milliseconds of our CPU for a test, and the signatures of the causes that were found."""
    settings = OFF | ({} if name == NONE else {name: ON[name]})
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "campaign"
        given = ["-b", backend, "--tests", tests, "--seed", seed, "--out", out]
        run_fuzz(*given, "--exporter", "direct", *set_options(**settings))
        summary = json.loads((out / "summary.json").read_text())
    return summary["cpu_ms"]["own"], {own["title"] for own in summary["signatures"]}


def main(
    backend: Annotated[list[str], typer.Option("--backend", "-b")],
    tests: Annotated[int, typer.Option(min=10)] = 2000,
    seed: Annotated[list[int] | None, typer.Option()] = None,
) -> None:
    seeds, causes, cost = seed or [1], dict[str, set[str]](), Counter[str]()
    runs = [(own, turn) for own in backend for turn in seeds]
    for name in (NONE, *ON):
        causes[name] = set()
        for own, turn in runs:
            ms, found = measured(name, own, tests, turn)
            cost[name] += ms / len(runs)
            causes[name] |= {f"{own}: {title}" for title in found}
        print(f"{name}: {cost[name]:.1f} ms, {len(causes[name])} causes", flush=True)
    table = Table("variation", "share", "ms a test", "more than none", "causes", "alone")
    for name, found in causes.items():
        others = set[str]().union(*(causes[other] for other in causes if other != name))
        share = "" if name == NONE else str(ON[name])
        more = cost[name] - cost[NONE]
        figures = (f"{cost[name]:.1f}", f"{more:+.1f}", str(len(found)), str(len(found - others)))
        table.add_row(name, share, *figures)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
