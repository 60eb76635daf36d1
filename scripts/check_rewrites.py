"""Holds every rewrite rule against the models that it is for.

Models are generated, each is rewritten by every rule that has a place in it (and, with --mixed, by
drawn sequences), and the result has to pass ONNX's checker and to keep its inputs and outputs; a
reference implementation (ONNX Runtime without optimisation, or onnx.reference) has to compute the
same bits from it as from the model, or a result within the envelope.

    .venv/bin/python scripts/check_rewrites.py --models 1000
    .venv/bin/python scripts/check_rewrites.py --models 200 --rules matmul_as_conv,norm_as_mul_add
    .venv/bin/python scripts/check_rewrites.py --models 1000 --each 100 --backend openvino

Rules that need an operator that is rare are also given models made of such operators (`RARE`).
--each: so many models of every rule are enough. --backend: another implementation, at its least
optimised level; what is wrong may then be its bug. Exit code 1 if a rule made an invalid model, or
one that computes something else.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from nnfuzz.backends.onnxruntime import OnnxRuntime
from rich.progress import track

from nnfuzz.execute.backend import read_interface
from nnfuzz.execute.outcome import OutcomeKind
from nnfuzz.execute.registry import BackendRegistry
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.execute.target import Target
from nnfuzz.rewrite.catalogue import RULES
from nnfuzz.rewrite.rewriting import Step, drawn, rewritten
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

UNSUPPORTED = "unsupported"
COMMON = ("Add", "Relu", "Conv", "Reshape", "Sigmoid", "Transpose")
RARE = {
    ("MatMul",): ("matmul_as_gemm", "matmul_as_einsum", "matmul_as_conv"),
    ("Conv",): ("conv_as_matmul",),
    ("BatchNormalization",): ("norm_as_mul_add",),
    ("ReduceMean",): ("mean_as_pool",),
    ("GlobalAveragePool",): ("pool_as_mean",),
    ("MaxPool",): ("dead_output",),
    ("ReduceMax", "ReduceMin"): ("reduced_in_steps",),
    ("Clip", "Abs", "Relu"): ("clip_as_min_max", "abs_as_max", "relu_otherwise"),
}
"""Operators -> rules that need them."""


Run = Callable[[bytes, dict[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass
class Tally:
    """Of one rule: models in which it has a place, models that it was applied to, and what went
    wrong: invalid models, refusals of the reference implementation, other results."""

    had_place: int = 0
    applied: int = 0
    same_bits: int = 0
    within: int = 0
    wrong: list[str] = field(default_factory=list)


class Runtime:
    """ONNX Runtime without optimisation."""

    def __init__(self) -> None:
        self._backend = OnnxRuntime()

    def __call__(self, model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(self._backend.compile(self._backend.import_model(model), "O0")(inputs))


class Unsupported(Exception):
    """What the backend says that it does not implement."""


class Sandboxed:
    """A backend at its least optimised level, in processes of its own."""

    def __init__(self, text: str) -> None:
        registry = BackendRegistry.discover()
        self._runner = BackendRunner(registry.parse(text), registry)
        self._level = self._runner.backend.default_levels()[0]

    def __call__(self, model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        (outcome,) = self._runner.run(model, inputs, [self._level])
        if outcome.kind is OutcomeKind.UNSUPPORTED:
            raise Unsupported(outcome.message)
        if outcome.outputs is None:
            raise RuntimeError(f"{outcome.kind} in {outcome.stage}: {outcome.message}")
        return outcome.outputs


def check(producer: Producer, case: TestCase, model: bytes, before: dict, run: Run) -> str:
    """ "bits", "envelope", UNSUPPORTED, or what is wrong."""
    try:
        onnx.checker.check_model(onnx.load_model_from_string(model), full_check=True)
    except Exception as error:
        return f"checker: {error}"
    if read_names(model) != read_names(case.model):
        return "another interface"
    try:
        after = run(model, case.inputs)
    except Exception as error:
        if type(error).__name__ in ("NotImplemented", Unsupported.__name__):
            return UNSUPPORTED
        return f"runtime: {error}"
    if all(same(before[name], after[name]) for name in before):
        return "bits"
    target = Target("rewritten")
    found = producer.judge(case, {target: after}, ())
    if found.mismatches.get(target):
        wrong = found.mismatches[target]
        return f"results: {wrong}"
    return "envelope"


def read_names(model: bytes) -> tuple:
    inputs, outputs = read_interface(model)
    return [(name, spec.dtype) for name, spec in inputs.items()], outputs


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def cases(config: CaseConfig, seed: int, count: int, run: Run):
    """Test cases that the reference implementation can run, with what it computes."""
    producer = Producer(seed, config)
    index = made = 0
    while made < count and index < 20 * count + 50:
        case = producer.produce(index)
        index += 1
        if not isinstance(case, TestCase):
            continue
        try:
            before = run(case.model, case.inputs)
        except Exception:
            continue
        target = Target("plain")
        if producer.judge(case, {target: before}, ()).mismatches.get(target):
            continue  # a bug of the runtime's own
        made += 1
        yield producer, case, before, index


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--opset", type=int, default=0)
    parser.add_argument("--rules", default="", help="names, separated by commas; default: all")
    parser.add_argument(
        "--mixed", action="store_true", help="drawn sequences in place of single rules"
    )
    parser.add_argument("--each", type=int, default=0, metavar="N")
    parser.add_argument("--backend", default="", help="default: ONNX Runtime in this process")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    names = [n for n in args.rules.split(",") if n] or list(RULES)
    tallies = {name: Tally() for name in names}
    lengths: Counter[int] = Counter()
    start = time.perf_counter()
    opset = args.opset or 20
    plain = CaseConfig(exporter="direct", opset=opset, dynamic=0.0)
    pools = [(plain, args.models)]
    for operators, rules in RARE.items():
        if not args.mixed and any(rule in names for rule in rules):
            few = replace(plain, operators=(*operators, *COMMON), nodes=5)
            pools.append((few, args.models // 5))
    total = sum(count for _, count in pools)
    run = Sandboxed(args.backend) if args.backend else Runtime()
    stream = (item for config, count in pools for item in cases(config, args.seed, count, run))
    for producer, case, before, index in track(stream, total=total, disable=args.json):
        if args.mixed:
            model, steps = drawn(case.model, random.Random(f"{args.seed}/{index}"), names)
            lengths[len(steps)] += 1
            told = check(producer, case, model, before, run)
            for step in steps:
                count(tallies[step.rule], told, f"index {index}: {' '.join(map(str, steps))}")
            continue
        for name in names:
            if args.each and tallies[name].applied >= args.each:
                continue
            try:
                model, steps = rewritten(case.model, [Step(name, index % 1000)])
            except Exception as error:
                count(tallies[name], f"raises {type(error).__name__}: {error}", f"index {index}")
                continue
            if steps:
                tallies[name].had_place += 1
                count(tallies[name], check(producer, case, model, before, run), f"index {index}")
    return report(tallies, lengths, time.perf_counter() - start, args.json)


def count(tally: Tally, told: str, where: str) -> None:
    tally.applied += 1
    tally.same_bits += told == "bits"
    tally.within += told == "envelope"
    if told not in ("bits", "envelope", UNSUPPORTED):
        tally.wrong.append(f"{where}: {told[:600]}")


def report(tallies: dict[str, Tally], lengths: Counter[int], seconds: float, as_json: bool) -> int:
    if as_json:
        json.dump({name: vars(tally) for name, tally in tallies.items()}, sys.stdout, indent=1)
    else:
        print(f"{'rule':26} {'applied':>8} {'bits':>7} {'envelope':>9} {'wrong':>6}")
        for name, t in tallies.items():
            print(f"{name:26} {t.applied:8} {t.same_bits:7} {t.within:9} {len(t.wrong):6}")
        for name, t in tallies.items():
            for line in t.wrong[:3]:
                print(f"{name}: {line}")
        print(f"{seconds:.0f} s; lengths {dict(sorted(lengths.items()))}")
    return int(any(tally.wrong for tally in tallies.values()))


if __name__ == "__main__":
    raise SystemExit(main())
