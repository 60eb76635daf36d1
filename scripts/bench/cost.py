"""Prints what a test costs: milliseconds of CPU for each step, of ours and of the compilers.

    python -m scripts.bench.cost --tests 400 -- -b onnxruntime --exporter direct

A campaign with one lane says what its processes spend. The parts of making a test come from making
the same tests once more here: their shares of the wall time, on a quiet machine.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from nnfuzz.records.config import CampaignConfig
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.producer import Producer
from scripts.campaigns import run_fuzz, set_options

BUDGET = {
    "parent": 0.7,
    "generate": 4.0,
    "inputs": 5.0,
    "export": 3.0,
    "around the compiler": 1.0,
    "own": 14.0,
}
"""Milliseconds of CPU by DESIGN.md, where compilers take 6. Inputs include the envelope."""
STEPS = ("generate", "inputs", "export")


def made(summary: dict[str, Any], tests: int) -> Counter[str]:
    """Milliseconds of CPU for each step of making a test of the campaign, once all is warm."""
    config = CampaignConfig.from_json(summary["config"])
    producer, found = Producer(config.seed, config.case), Counter[str]()
    for index in range(tests, tests + tests // 2):
        producer.produce(index)
    begun = time.process_time()
    cases = [producer.produce(index) for index in range(tests)]
    whole = 1e3 * (time.process_time() - begun) / tests
    for case in cases:
        if isinstance(case, TestCase):
            found.update(case.seconds)
    wall = sum(found[step] for step in STEPS)
    return Counter({step: whole * found[step] / wall for step in STEPS})


def main(
    further: Annotated[list[str], typer.Argument(help="Options of nnfuzz fuzz, after --.")],
    tests: Annotated[int, typer.Option(min=50)] = 400,
    seed: int = 31,
) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "campaign"
        plain = set_options(workers=1, reduce="no")
        run_fuzz("--tests", tests, "--seed", seed, "--out", out, *plain, *further)
        summary = json.loads((out / "summary.json").read_text())
    cpu, steps = summary["cpu_ms"], made(summary, tests)
    rows = {
        "parent": cpu["parent"],
        **steps,
        "judging, confirming, starting": cpu["lanes"] - sum(steps.values()),
        "around the compiler": cpu["workers"],
        "own": cpu["own"],
        "compilers": cpu["compilers"],
    }
    table = Table("step", "ms", "budget")
    for step, ms in rows.items():
        table.add_row(step, f"{ms:.1f}", f"{BUDGET[step]:.1f}" if step in BUDGET else "")
    Console().print(table)
    print(f"own to compilers: {cpu['own'] / cpu['compilers']:.2f}")


if __name__ == "__main__":
    typer.run(main)
