"""Checks that the flip blames the right coordinate, with forty planted faults and the real
Experiment.

planted/blamed.py is a compiler with two devices, two releases and two levels. For each of its
faults, test cases are drawn that meet this fault and no other at any of the eight targets, as the
compiler itself reports. For each of ten faults of an exporter, the models of cases of that exporter
are corrupted accordingly. All targets run in sandboxes, and the blamed coordinate of a failure is
compared with the one in which right and wrong targets really differ:

  optimiser  pipeline        kernel    device, release, or compiler where every target has it
  exporter   form            importer  compiler

    python -m scripts.check.blame --each 5
    python -m scripts.check.blame --only fuses_add_mul --only export_swaps_sub

Prints every wrong blame with its evidence, the faults that no case met, and a table. Exits with 1
if fewer than --least are right, or if a fault was not met.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import onnx
import torch
import typer
from rich.console import Console
from rich.table import Table

from nnfuzz.experiment.blocking import BlockingExperiment
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from planted import blamed
from planted.nodewise import Interpreter

PLUGIN = Path(blamed.__file__)
OPTIONS = ("", ",device=gpu", ",release=1.1", ",device=gpu,release=1.1")
TARGETS = tuple(itertools.product(blamed.DEVICES, blamed.RELEASES, blamed.LEVELS))
NEUTRAL = ("Abs", "Identity")
"""Operators without any fault, which are added to every model."""
TRIES = 150
"""Most test cases that are drawn for a fault."""


@dataclass(frozen=True)
class Planted:
    """A fault, its kind, the coordinate to blame, and operators that lead to it."""

    name: str
    kind: str
    coordinate: str
    operators: tuple[str, ...]
    exporter: str = "direct"


@dataclass
class Tally:
    """Counts for a kind of fault: right blames, all blames, and faults that some case met."""

    right: int = 0
    all: int = 0
    met: set[str] = field(default_factory=set)


def planted() -> list[Planted]:
    kinds = ("optimiser", "kernel", "kernel", "kernel", "importer")
    found = [
        Planted(fault.cause, kind, coordinate, operators_of(fault.cause, fault.ops))
        for kind, (faults, coordinate) in zip(kinds, blamed.COORDINATES)
        for fault in faults
    ]
    exporter = [
        Planted(name, "exporter", "form", (op,), "torchscript")
        for name, (op, _) in blamed.EXPORTER.items()
    ]
    return found + exporter


def operators_of(cause: str, ops: Sequence[str]) -> tuple[str, ...]:
    """The operators of a fault; a fusion has them in its name, fuses_FIRST_SECOND."""
    if not cause.startswith("fuses_"):
        return tuple(ops)
    return (*ops, cause.split("_")[1].capitalize())


def cases(fault: Planted, seed: int, each: int) -> Iterator[TestCase]:
    """Test cases that meet the fault and no other."""
    names = (*fault.operators, *NEUTRAL)
    config = CaseConfig(nodes=3, motifs=0, dynamic=0, exporter=fault.exporter, operators=names)
    producer = Producer(seed, config)
    drawn = map(producer.produce, range(TRIES))
    met = (meeting(fault, case) for case in drawn if isinstance(case, TestCase))
    yield from itertools.islice((case for case in met if case is not None), each)


def meeting(fault: Planted, case: TestCase) -> TestCase | None:
    """The case if it meets this fault alone, with a corrupted model for a fault of the exporter;
    else None."""
    try:
        causes = set().union(*(blamed.causes_at(case.model, case.inputs, *t) for t in TARGETS))
    except NotImplementedError:
        return None
    if fault.kind != "exporter":
        return case if causes == {fault.name} else None
    model = blamed.badly_exported(case.model, fault.name)
    if causes or model is None or not matters(case, model):
        return None
    causes = set().union(*(blamed.causes_at(model, case.inputs, *t) for t in TARGETS))
    return None if causes else replace(case, model=model)


def matters(case: TestCase, model: bytes) -> bool:
    """Whether the corrupted model runs and computes something clearly different."""
    try:
        old, new = (computed(data, case) for data in (case.model, model))
    except Exception:  # it became invalid
        return False
    return any(
        x.shape != new[name].shape
        or not np.allclose(x.astype(float), new[name].astype(float), 0.1, 0.1, equal_nan=True)
        for name, x in old.items()
    )


def computed(data: bytes, case: TestCase) -> dict[str, np.ndarray]:
    return Interpreter(onnx.load_model_from_string(data))(case.inputs)


def judge(
    fault: Planted, case: TestCase, run: BlockingExperiment, tally: Tally, console: Console
) -> None:
    """Runs the experiment and counts its blames."""
    result = run(case)
    for failure in result.failures:
        tally.all += 1
        tally.met.add(fault.name)
        blame = result.blame(failure)
        if blame.coordinate == fault.coordinate:
            tally.right += 1
        else:
            told = f"{fault.name}: {blame.coordinate} instead of {fault.coordinate}: "
            console.print(told + f"{blame.evidence} ({failure.signature.title})", highlight=False)
    if not result.failures:
        console.print(f"{fault.name}: nothing fails in case {case.id.index}", highlight=False)


def main(
    each: Annotated[int, typer.Option(help="Test cases per fault.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the test cases.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="Names of faults.")] = None,
    least: Annotated[float, typer.Option(help="Share of right blames.")] = 0.95,
) -> None:
    torch.set_num_threads(1)
    chosen = [fault for fault in planted() if not only or fault.name in only]
    tallies = {fault.kind: Tally() for fault in chosen}
    console = Console(soft_wrap=True)
    with BlockingExperiment([f"blamed{o}" for o in OPTIONS], [str(PLUGIN)], repeats=0) as run:
        for fault in chosen:
            for case in cases(fault, seed, each):
                judge(fault, case, run, tallies[fault.kind], console)
    table = Table("faults of", "planted", "met", "blames", "right", box=None)
    for kind, tally in tallies.items():
        number = sum(fault.kind == kind for fault in chosen)
        counts = (number, len(tally.met), tally.all, tally.right)
        table.add_row(kind, *(str(count) for count in counts))
    console.print(table)
    unmet = [f.name for f in chosen if f.name not in tallies[f.kind].met]
    if unmet:
        console.print(f"not met: {', '.join(unmet)}")
    right, whole = (sum(getattr(t, name) for t in tallies.values()) for name in ("right", "all"))
    console.print(f"{right} of {whole} blames are right ({right / max(whole, 1):.1%})")
    sys.exit(0 if whole and not unmet and right >= least * whole else 1)


if __name__ == "__main__":
    typer.run(main)
