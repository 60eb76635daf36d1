"""Is there a smaller model with the same failure? Tries all that leave operators out.

Of a reduced finding, every set of operators is left out in turn, each bypassed by one of its inputs
or its result made an input, and the rest is run. Exits 1 if something smaller fails alike.

    python -m scripts.check.least CAMPAIGN/findings/FINDING
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from nnfuzz.reduction.case import ReduceConfig, asked
from nnfuzz.reduction.edit import Edit, Group
from nnfuzz.reduction.engine import Counter, Engine
from nnfuzz.report.finding_folder import read_finding
from nnfuzz.report.reduced import REDUCED, problem_of

BATCH = 500


def combinations(edits: Sequence[Edit]) -> Iterator[Group]:
    """Every choice of at most one edit per operator; the fewest operators left come first."""
    by_node: dict[str, list[Edit | None]] = {}
    for edit in edits:
        by_node.setdefault(edit.target, [None]).append(edit)
    chosen = itertools.product(*by_node.values())
    groups = (tuple(edit for edit in choice if edit) for choice in chosen)
    yield from sorted(filter(None, groups), key=len, reverse=True)


def main(
    finding: Annotated[Path, typer.Argument(help="Folder of a finding.")],
    workers: Annotated[int, typer.Option(help="Candidates at a time.")] = os.cpu_count() or 1,
) -> None:
    reduced = finding / REDUCED
    problem = problem_of(
        read_finding(reduced if reduced.is_dir() else finding, lambda plugin: True)
    )
    with asked(problem, ReduceConfig(workers)) as (slots, question, found, wanted):
        engine = Engine(slots, question, found, wanted, budget=10**9)
        nodes = found.measure[0]
        passes = ("bypasses", "replacements")
        groups = (group for name in passes for group in slots.propose(engine.case, name)[0])
        edits = [group[0] for group in groups if len(group) == 1]
        groups = list(combinations(edits))
        with Progress() as progress:
            task = progress.add_task(f"{nodes} operators, {len(groups)} ways", total=len(groups))
            counter = Counter()
            for start in range(0, len(groups), BATCH):
                batch = groups[start : start + BATCH]
                if engine.first(batch, counter) is not None:
                    break
                progress.advance(task, len(batch))
    print(f"{counter.run} different models ran, {counter.rejected} combinations were none")
    if engine.progress.nodes < nodes:
        print(f"{engine.progress.nodes} operators are enough: nnfuzz reduce {reduced}")
        raise typer.Exit(1)
    print(f"no model that leaves out any of the {nodes} operators fails alike")


if __name__ == "__main__":
    typer.run(main)
