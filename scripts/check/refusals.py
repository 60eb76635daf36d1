"""Measures how many planted lapses of a compiler that must refuse models `fuzz --invalid` finds.

python -m scripts.check.refusals                  # two models of each kind of fault
python -m scripts.check.refusals --models 670 --only cycle-crash

A lapse is found if some model has the planted outcome; any other outcome but a clean refusal is a
false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from nnfuzz.backend.jobs import RunLevels
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.invalid.catalogue import KINDS
from nnfuzz.invalid.fault import NODES, SIZES
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from planted import careless
from planted.careless import LAPSES, Lapse

CLEAN = (OutcomeKind.REFUSED, OutcomeKind.UNSUPPORTED)
LIMITS = "timeout=2,memory=0.25"


def cases(count: int, seed: int) -> list[TestCase]:
    config = CaseConfig(
        exporter="direct", opset=22, nodes=NODES, motifs=0, invalid=True, sizes=SIZES
    )
    producer = Producer(seed, config)
    made = (producer.produce(index) for index in range(count))
    return [case for case in made if isinstance(case, TestCase)]


def answers(lapse: Lapse | None, models: Sequence[TestCase]) -> Iterator[tuple[str, str]]:
    """The kind of fault and the outcome of each model, up to the first one with the lapse's
    outcome."""
    registry = BackendRegistry.discover([careless.__file__])
    text = f"careless,{LIMITS}" + (f",lapse={lapse.name}" if lapse else "")
    with BackendRunner(registry.parse(text), registry) as runner:
        for case in models:
            assert case.fault is not None
            runner.submit(RunLevels(case.model, case.inputs, (), invalid=True))
            (outcome,) = runner.wait()
            yield case.fault.kind, outcome.kind.value
            if lapse and outcome.kind == lapse.outcome:
                return


def main(
    models: Annotated[int, typer.Option(help="Models that each lapse is shown.")] = 2 * len(KINDS),
    seed: Annotated[int, typer.Option(help="Of the models.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="These lapses.")] = None,
) -> None:
    made = cases(models, seed)
    alarms = [told for told in answers(None, made) if told[1] not in CLEAN]
    print(f"without a lapse: {len(alarms)} of {len(made)} are no clean refusal {alarms[:5]}")
    chosen = [lapse for lapse in LAPSES if not only or lapse.name in only]
    found = 0
    for lapse in chosen:
        seen = list(answers(lapse, made))
        shown = [kind for kind, outcome in seen if outcome == lapse.outcome]
        other = [told for told in seen if told[1] not in (*CLEAN, lapse.outcome)]
        found += bool(shown)
        told = f"after {len(seen)} models: {shown[0]}" if shown else "MISSED"
        print(f"{lapse.name:20} {told}" + (f"; also {other[:3]}" if other else ""))
    print(f"{found} of {len(chosen)} planted lapses found ({found / max(1, len(chosen)):.0%})")


if __name__ == "__main__":
    typer.run(main)
