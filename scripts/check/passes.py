"""Counts which passes of a compiler change models as a campaign makes them.

    python -m scripts.check.passes --models 600
    python -m scripts.check.passes --backend openvino --models 500
    python -m scripts.check.passes --models 600 --seed 3 --skeletons 1

The models have nothing that the compiler calls unsupported. Each is built at all levels but the
least optimised one, and half of them by a drawn pipeline as well, as a campaign's tests are. A line
for each pass has the number of models that it changed. passes.toml has those that cannot change a
model, with the reasons; they do not count.

The log of ONNX Runtime names transformers; a rewrite rule counts if its transformer changes the
model while all other rules are switched off (in at most --enough models, since that is slow).
"""

from __future__ import annotations

import argparse
import random
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import onnx
from rich.progress import track

from backends.onnxruntime import RULES, OnnxRuntime
from backends.onnxruntime_options import FREE
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import DIRECT
from nnfuzz.base.threads import one_thread
from nnfuzz.campaign.configuration import make_config
from nnfuzz.cli.commands.corpus import known_refusals
from nnfuzz.records.settings import SETTINGS
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.survey import plain_model

ORT = OnnxRuntime.name
PLAIN_OPSET = 17  # every release takes it
REASONS = Path(__file__).with_suffix(".toml")
Changed = Callable[[bytes, int], Collection[str]]


class Lost(Exception):
    """The compiler has ended its process."""


@dataclass(frozen=True)
class Table:
    """How many models each pass changed. counts: also of passes that changed none."""

    models: int
    counts: Mapping[str, int]
    excused: Mapping[str, str]
    """Passes that cannot change a model, with the reasons."""

    def able(self) -> list[str]:
        """The passes that can change a model, those that changed most models first."""
        names = [name for name in self.counts if name not in self.excused or self.counts[name]]
        return sorted(names, key=lambda name: (-self.counts[name], name))

    def summary(self) -> str:
        able = self.able()
        fired = sum(self.counts[name] > 0 for name in able)
        share = f" ({fired / len(able):.0%})" if able else ""
        return f"{fired} of {len(able)} passes{share} changed one of {self.models} models"


def main() -> int:
    arguments = parse()
    with ExitStack() as stack:
        table = count(arguments, stack)
    for name in sorted(table.counts, key=lambda name: -table.counts[name]):
        print(f"{table.counts[name]:6} {name}  {table.excused.get(name, '')}".rstrip())
    print(table.summary())
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default=ORT, help="a backend that reports its passes")
    parser.add_argument("--models", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    share = {"type": float, "help": "share of the models"}
    parser.add_argument("--skeletons", default=SETTINGS["skeletons"].usual, **share)
    parser.add_argument("--quantize", default=SETTINGS["quantize"].usual, **share)
    parser.add_argument("--enough", type=int, default=5, help="models of a rule that are counted")
    return parser.parse_args()


def count(arguments: argparse.Namespace, stack: ExitStack) -> Table:
    """Builds the models, and counts."""
    counts, tried = Counter[str](), 0
    reasons = tomllib.loads(REASONS.read_text()).get(arguments.backend, {})
    runner = stack.enter_context(_runner(arguments.backend))
    known = runner.known_passes(plain_model(PLAIN_OPSET), runner.backend.default_levels()[-1])
    if arguments.backend == ORT:
        known = [*(known or ()), *(f"{name}: {rule}" for name in RULES for rule in RULES[name])]
    counts.update(dict.fromkeys(known or (), 0))
    fired = _of_onnxruntime(counts, arguments.enough) if arguments.backend == ORT else _of(runner)
    for index, model in models(arguments):
        tried += 1
        try:
            counts.update(fired(model, index))
        except Lost:
            print(f"index {index} ends the process of {arguments.backend}", flush=True)
    return Table(tried, counts, reasons)


def _runner(name: str) -> BackendRunner:
    registry = BackendRegistry.discover()
    return BackendRunner(registry.spec(name, {}), registry)


def models(arguments: argparse.Namespace) -> Iterator[tuple[int, bytes]]:
    """Index and bytes of each model that can be made."""
    registry = BackendRegistry.discover()
    spec = registry.spec(arguments.backend, {})
    given = {"skeletons": arguments.skeletons, "quantize": arguments.quantize}
    case = make_config(registry, [spec], (), (), {**given, "exporters": (DIRECT,)}).case
    refused = known_refusals(registry, [spec])
    producer = Producer(arguments.seed, replace(case, refused=refused))
    indexes = range(arguments.models)
    for index in track(indexes, "models", disable=not sys.stderr.isatty()):
        with one_thread():
            made = producer.produce(index)
        if not isinstance(made, NotProduced):
            yield index, made.model


# -- any compiler --------------------------------------------------------------------------------


def _of(runner: BackendRunner) -> Changed:
    """The passes that the compiler itself reports, in a process of its own."""
    backend = runner.backend()

    def fired(model: bytes, index: int) -> Collection[str]:
        targets, rng = list(backend.default_levels()[1:]), random.Random(index)
        if rng.random() < SETTINGS["pipelines"].usual and (drawn := backend.draw_pipeline(rng)):
            targets.append(str(drawn))
        return list(
            dict.fromkeys(n for t in targets for n in runner.changed_passes(model, t) or ())
        )

    return fired


# -- ONNX Runtime --------------------------------------------------------------------------------


def _of_onnxruntime(counts: Mapping[str, int], enough: int) -> Changed:
    pools = [_fresh()]

    def fired(model: bytes, index: int) -> Collection[str]:
        settled = {name for name, n in counts.items() if n >= enough}
        try:
            return pools[-1].submit(changed, model, index, settled).result()
        except BrokenProcessPool:
            pools.append(_fresh())
            raise Lost from None

    return fired


def _fresh() -> ProcessPoolExecutor:
    """One process for sessions, since ONNX Runtime may end it."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def changed(model: bytes, index: int, settled: Collection[str]) -> list[str]:
    """The passes that change a model, but for settled rules."""
    runtime, rng = OnnxRuntime(), random.Random(index)
    targets = [runtime.levels[-1]]
    if rng.random() < SETTINGS["pipelines"].usual:
        targets.append(str(runtime.draw_pipeline(rng)))
    found: dict[str, None] = {}
    for target in targets:
        sizes = symbolic(model) if FREE in target else {}
        made = runtime.logged(model, target, sizes=sizes)[1]
        logged = [name for name, count in made if count != "0"]
        found |= dict.fromkeys(logged)
        for transformer in logged:
            found |= dict.fromkeys(rules(runtime, model, target, transformer, settled))
    return list(found)


def symbolic(model: bytes) -> dict[str, int]:
    """A size for each symbolic dimension of the inputs."""
    inputs = onnx.load_from_string(model).graph.input
    dims = (dim for value in inputs for dim in value.type.tensor_type.shape.dim)
    return {dim.dim_param: 2 for dim in dims if dim.dim_param}


def rules(
    runtime: OnnxRuntime, model: bytes, target: str, transformer: str, settled: Collection[str]
) -> Iterator[str]:
    """The rules of a transformer each of which changes the model without the others."""
    every = RULES.get(transformer, ())
    for rule in every:
        name = f"{transformer}: {rule}"
        others = [other for other in every if other != rule]
        if name not in settled:
            logged = runtime.logged(model, target, others)[1]
            if any(made == transformer and count != "0" for made, count in logged):
                yield name


if __name__ == "__main__":
    sys.exit(main())
