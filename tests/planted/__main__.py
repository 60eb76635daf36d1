"""Command line of the bench of planted bugs; see tests.planted.bench for what the columns mean.

python -m tests.planted --models 300              recall of the planted bugs
python -m tests.planted --legal --models 5000     false alarms on legal variations
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from tests.planted.bench import Bench, recalls
from tests.planted.catalogue import LEGAL_VARIATIONS, PLANTED_BUGS

BUG_COLUMNS = ("reached", "effective", "found", "cheap", "first")


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    pool = LEGAL_VARIATIONS if args.legal else PLANTED_BUGS
    chosen = [c for c in pool if not args.only or c.name in args.only]
    if not chosen:
        print("error: no such change; known are " + ", ".join(c.name for c in pool))
        return 2
    torch.set_num_threads(1)
    bench = Bench(args.seed, chosen, LEGAL_VARIATIONS)
    bench.run(args.models)
    show(bench, args.legal)
    alarms = bench.baseline_alarms or bench.faults or any(s.alarms for s in bench.scores.values())
    return 1 if alarms else 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="planted_bugs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", type=int, default=300, help="models to judge (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the test cases (default 0)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these changes alone")
    parser.add_argument("--legal", action="store_true", help="legal variations, not bugs")
    return parser.parse_args(argv)


def show(bench: Bench, legal: bool) -> None:
    console = Console()
    scores = sorted(bench.scores.values(), key=lambda s: (s.change.kind, s.change.name))
    table = Table(box=None)
    columns = ("reached", "alarms") if legal else BUG_COLUMNS
    table.add_column("change", no_wrap=True)
    table.add_column("kind")
    for column in columns:
        table.add_column(column, justify="right")
    for s in scores:
        values = (s.reached, len(s.alarms)) if legal else (
            s.reached, s.effective, s.found, s.cheap, s.first)  # fmt: skip
        table.add_row(s.change.name, s.change.kind, *("" if v is None else str(v) for v in values))
    console.print(table)
    console.print(f"{bench.models} models, {bench.refused} refused")
    for alarm in bench.baseline_alarms:
        console.print(f"O0 itself: {alarm}", highlight=False)
    for fault in bench.faults:
        console.print(f"fault of nnfuzz: {fault}", highlight=False)
    for s in scores:
        for alarm in s.alarms[:5]:
            console.print(f"{s.change.name}: {alarm}", highlight=False)
    if legal:
        total = sum(len(s.alarms) for s in scores) + len(bench.baseline_alarms)
        console.print(f"{total} false alarms in {sum(s.reached for s in scores)} changed outputs")
        return
    for kind, recall in recalls(scores).items():
        console.print(f"{kind}: {recall}", highlight=False)
    for s in scores:
        if not s.found:
            told = "missed" if s.effective else "never effective"
            console.print(f"{told}: {s.change.name}: {s.change.text}", highlight=False)


if __name__ == "__main__":
    raise SystemExit(main())
