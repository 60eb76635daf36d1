"""How often generated models have what the model of an entry is made of; no compiler runs.

A campaign meets a bug only if one of its models contains the entry's pattern. Of many models it is
counted how many do, with one ingredient more at each step, and with every ingredient but one: the
ingredient that is rare for no good reason is the one without which many more models would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from rich.progress import track

from nnfuzz.backend.target import DIRECT
from nnfuzz.cli.campaigns import Request, new_config
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from scripts.recall.containment import INGREDIENTS, Facts, contains, facts
from scripts.recall.entries import Entry
from scripts.recall.reach import given


@dataclass
class Counts:
    """Of an entry, how many models have its operators, and more and more of its ingredients; and
    by ingredient how many have all others.
    """

    steps: list[int]
    without: list[int]

    @property
    def line(self) -> str:
        """The steps, and then how many models have all but an ingredient, where these are more."""
        more = {
            name: count for name, count in zip(INGREDIENTS, self.without) if count > self.steps[-1]
        }
        rare = ", ".join(f"{name} {count}" for name, count in more.items())
        steps = " ".join(f"{count:5}" for count in self.steps)
        return f"{steps}  but for {rare}" if rare else steps


def usual_config(focus: Sequence[str] = ()) -> CaseConfig:
    """The settings of a campaign on ONNX Runtime, written by nnfuzz itself.

    focus: operators that it is aimed at. Raises: ConfigError.
    """
    own = Request(backends=("onnxruntime",), focus=tuple(focus), settings={"exporter": DIRECT})
    return new_config(own)[0].case


def counted(
    entries: Sequence[Entry], config: CaseConfig, seed: int, models: int
) -> dict[str, Counts]:
    """The counts of each entry by its name, over so many models of a campaign."""
    patterns = {e.name: facts(e.model, given(e) if e.inputs else {}) for e in entries}
    found = {
        name: Counts([0] * (len(INGREDIENTS) + 1), [0] * len(INGREDIENTS)) for name in patterns
    }
    for model in _models(config, seed, models):
        present = set(model.operators)
        for name, pattern in patterns.items():
            if present.issuperset(pattern.operators):
                _count(found[name], model, pattern)
    return found


def _models(config: CaseConfig, seed: int, models: int) -> Iterator[Facts]:
    producer = Producer(seed, config)
    for index in track(range(models), "generating"):
        case = producer.produce(index)
        if isinstance(case, TestCase):
            yield facts(onnx.load_model_from_string(case.model), case.inputs)


def _count(counts: Counts, model: Facts, pattern: Facts) -> None:
    for step in range(len(INGREDIENTS) + 1):
        if not contains(model, pattern, INGREDIENTS[:step]):
            break
        counts.steps[step] += 1
    for number, name in enumerate(INGREDIENTS):
        counts.without[number] += contains(model, pattern, [n for n in INGREDIENTS if n != name])
