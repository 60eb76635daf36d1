"""Which kinds of faults there are, and what compilers answer to them, as a table in Markdown.

python -m scripts.check.invalid                     # kinds and clauses
python -m scripts.check.invalid CAMPAIGN [...]      # answers, of nnfuzz fuzz --invalid
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.disrupt.catalogue import KINDS
from nnfuzz.disrupt.fault import LATE, NOTHING, WRONG


def kinds() -> Iterator[str]:
    yield "| kind | what is wrong | clause |"
    yield "| --- | --- | --- |"
    for kind in KINDS.values():
        yield f"| {kind.name} | {kind.text} | {kind.clause} |"


def answers(campaigns: list[Path]) -> Iterator[str]:
    """A row per kind of fault, a column per backend: tests, and what came of them if not clean."""
    table: dict[str, dict[str, Counter[str]]] = {}
    for folder in campaigns:
        for kind, backends in json.loads((folder / "summary.json").read_text())["refusals"].items():
            for backend, counts in backends.items():
                table.setdefault(backend, {}).setdefault(kind, Counter()).update(counts)
    yield f"| kind | {' | '.join(table)} |"
    yield f"| --- |{' --- |' * len(table)}"
    for kind in KINDS:
        rows = [table[backend].get(kind, Counter()) for backend in table]
        if any(rows):
            yield f"| {kind} | {' | '.join(map(cell, rows))} |"
    total = [sum(found.values(), Counter()) for found in table.values()]
    yield f"| **all** | {' | '.join(map(cell, total))} |"


def cell(counts: Counter[str]) -> str:
    """ "15: 12 clean, 1 late, 2 accepted"."""
    told = {"clean": counts["refused"] + counts["unsupported"], LATE: counts[LATE]}
    told |= {answer: counts[answer] for answer in WRONG} | {"taken": counts["ok"]}
    told["says nothing"] = counts[NOTHING]
    return f"{counts.total()}: " + ", ".join(f"{n} {name}" for name, n in told.items() if n)


def main(
    campaigns: Annotated[list[Path] | None, typer.Argument(help="Folders of campaigns.")] = None,
) -> None:
    for line in answers(campaigns) if campaigns else kinds():
        print(line)


if __name__ == "__main__":
    typer.run(main)
