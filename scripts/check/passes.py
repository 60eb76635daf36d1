"""Counts which passes of ONNX Runtime change models as a campaign makes them.

    python -m scripts.check.passes --models 600
    python -m scripts.check.passes --models 600 --seed 3 --skeletons 1 --json counts.json

Each model is built at the most optimised level, and half of them by a drawn pipeline as well, as a
campaign's tests are. The log names transformers; a rewrite rule counts if its transformer changes
the model while all other rules are switched off. A line for each pass has the number of models that
it changed (of a rule, at most --enough, since counting rules is slow). --json adds the counts to
those in a file, so that several runs make one table.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import onnx
from rich.progress import track

import nnfuzz
from backends.onnxruntime import RULES, OnnxRuntime
from backends.onnxruntime_options import FREE
from nnfuzz.backend.opsets import plain_model
from nnfuzz.library.diversity import PLAIN_OPSET
from nnfuzz.library.settings import DEFAULT_DYNAMIC, DEFAULT_PIPELINES

MODELS = "models"


def main() -> int:
    arguments = parse()
    stored = arguments.json and arguments.json.exists()
    counts = Counter[str](json.loads(arguments.json.read_text()) if stored else {})
    pool = fresh()
    for index, model in models(arguments):
        settled = {name for name, n in counts.items() if n >= arguments.enough}
        try:
            counts.update(pool.submit(changed, model, index, settled).result())
        except BrokenProcessPool:
            print(f"index {index} ends the process of ONNX Runtime", flush=True)
            pool = fresh()
        counts[MODELS] += 1
        if arguments.json:
            arguments.json.write_text(json.dumps(counts, indent=1) + "\n")
    report(counts)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=600)
    parser.add_argument("--start", type=int, default=0, help="the first index")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skeletons", type=float, default=0.1, help="share of the models")
    parser.add_argument("--quantize", type=float, default=0.1, help="share of the models")
    parser.add_argument("--enough", type=int, default=5, help="models of a rule that are counted")
    parser.add_argument("--json", type=Path, help="file that collects the counts of several runs")
    return parser.parse_args()


def fresh() -> ProcessPoolExecutor:
    """One process for sessions, since ONNX Runtime may end it."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def models(arguments: argparse.Namespace) -> Iterator[tuple[int, bytes]]:
    """Index and bytes of each model that can be made."""
    generator = nnfuzz.Generator(
        seed=arguments.seed,
        motifs=1.5,
        domains=("com.microsoft",),
        dynamic=DEFAULT_DYNAMIC,
        skeletons=arguments.skeletons,
        quantize=arguments.quantize,
    )
    indexes = range(arguments.start, arguments.start + arguments.models)
    for index in track(indexes, "models", disable=not sys.stderr.isatty()):
        try:
            yield index, generator[index].model
        except nnfuzz.NoTestCase:
            continue


def changed(model: bytes, index: int, settled: Collection[str]) -> list[str]:
    """The passes that change a model, but for settled rules."""
    runtime, rng = OnnxRuntime(), random.Random(index)
    targets = [runtime.levels[-1]]
    if rng.random() < DEFAULT_PIPELINES:
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


def report(counts: Counter[str]) -> None:
    """Prints a line for each pass, those that changed most models first."""
    runtime, plain = OnnxRuntime(), plain_model(PLAIN_OPSET)
    known = dict.fromkeys(runtime.known_passes(plain, runtime.levels[-1]))
    known |= dict.fromkeys(f"{name}: {rule}" for name, own in RULES.items() for rule in own)
    names = sorted(dict.fromkeys((*known, *counts)), key=lambda name: -counts[name])
    for name in names:
        print(f"{counts[name]:6} {name}")
    fired = sum(counts[name] > 0 for name in known)
    print(f"{fired} of {len(known)} passes changed one of {counts[MODELS]} models")


if __name__ == "__main__":
    sys.exit(main())
