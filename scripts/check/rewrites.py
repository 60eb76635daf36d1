"""Checks every rewrite rule on generated models and one compiler.

A rewritten model must pass ONNX's checker, keep its inputs and outputs, and compute the same bits
as the model, or a result within the envelope.

    python -m scripts.check.rewrites --each 100
    python -m scripts.check.rewrites --each 100 --rules matmul_as_conv,norm_as_mul_add
    python -m scripts.check.rewrites --each 100 --backend tvm --out wrong
    python -m scripts.check.rewrites --models 1000 --mixed

Compilation is expensive, so one model gets several rules that still lack uses (--most steps). If it
fails and the model without the steps passes, bisection finds the shortest failing prefix of the
steps, and the steps that it needs. Rules with the fewest uses come first. Rules that need rare
operators get models of these operators, or follow a rule that makes a place for them (`RARE`,
`BEHIND`). Rules and operators that the backend does not support are left out and listed.

--mixed: sequences as campaigns draw them, with the number of --models, in place of --each.
--backend: the default is ONNX Runtime in this process, whose bits are compared as well; another one
runs at its least optimised level, or at --level. A failure may be the backend's bug: --out keeps
the model before and after the steps, with inputs. Exits with 1 if there is a failure.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
from nnfuzz.backends.onnxruntime import OnnxRuntime
from rich.progress import Progress

from nnfuzz.backend.interface import read_interface
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.rewrite_support import not_taken
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import Target
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.ir.support_key import operators_in
from nnfuzz.library.folders import cache_folder
from nnfuzz.rewrite.catalogue import RULES, needs
from nnfuzz.rewrite.rewriting import Step, draw_rewriting, rewritten
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

UNSUPPORTED = "unsupported"
BITS, WITHIN = "bits", "envelope"
COMMON = ("Add", "Relu", "Reshape", "Sigmoid", "Transpose")
RARE: dict[tuple[str, ...], tuple[str, ...]] = {
    ("MatMul",): ("matmul_as_gemm", "matmul_as_einsum", "matmul_as_conv"),
    ("Conv",): ("conv_as_matmul", "conv_as_unfold"),
    ("BatchNormalization",): ("norm_as_mul_add",),
    ("ReduceMean",): ("mean_as_pool",),
    ("GlobalAveragePool",): ("pool_as_mean",),
    ("MaxPool",): ("dead_output",),
    ("ReduceMax", "ReduceMin"): ("reduced_in_steps",),
    ("Clip",): ("clip_as_min_max",),
    ("Abs",): ("abs_as_max",),
    ("Neg",): ("negated_as_product",),
    ("Where", "Less"): ("mirrored_where",),
    ("Concat", "Max", "Min"): ("nested_variadic",),
    ("Split",): ("split_as_slices",),
    ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Where"): ("mirrored_comparison",),
    ("Not", "And", "Or", "Xor", "Less"): ("boolean_identity",),
    ("Expand", "Tile", "ConstantOfShape"): ("computed_shape",),
}
"""Operators -> rules that need them."""
BEHIND = {
    "nodes_merged": "node_duplicated",
    "siblings_alike": "if_either",
    "conv_as_matmul": "matmul_as_conv",
    "mean_as_pool": "pool_as_mean",
    "negated_as_product": "negated_twice",
    "mirrored_where": "where_same",
    "split_as_slices": "split_concat",
    "transpose_as_einsum": "transpose_pair",
    "constants_merged": "constant_unshared",
}
"""Rules that rarely have a place -> a rule that makes one, which precedes every other use."""
PATIENCE = 100
"""Models in a row without a use of a rule, after which it is given up."""
ROUNDS = 4
"""Most steps that are removed from a failing model."""

Plan = tuple[Producer, TestCase, int, tuple[Step, ...]]
Run = Callable[[bytes, dict[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass
class Tally:
    """Counts for one rule: models that it changed and the compiler supports, by result.

    turns: models that were generated for it. idle: models in a row without a use.
    """

    applied: int = 0
    same_bits: int = 0
    within: int = 0
    unsupported: int = 0
    turns: int = 0
    idle: int = 0
    wrong: list[str] = field(default_factory=list)

    def count(self, told: str, where: str) -> None:
        if told == UNSUPPORTED:
            self.unsupported += 1
            return
        self.idle = 0
        self.applied += 1
        self.same_bits += told == BITS
        self.within += told == WITHIN
        if told not in (BITS, WITHIN):
            self.wrong.append(f"{where}: {told[:600]}")


class Unsupported(Exception):
    """Raised for what the backend reports as not implemented."""


class Runtime:
    """ONNX Runtime without optimisation."""

    lacks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._backend = OnnxRuntime()

    def __call__(self, model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(self._backend.compile(self._backend.import_model(model), "O0")(inputs))


class Sandboxed:
    """A backend at one level, in processes of its own. lacks: features that no rewrite may
    introduce. refused: signatures that it refused in earlier campaigns.
    """

    def __init__(self, text: str, level: str, opset: int) -> None:
        registry = BackendRegistry.discover()
        self._runner = BackendRunner(registry.parse(text), registry)
        self._level = level or self._runner.backend.default_levels()[0]
        self.lacks = not_taken(self._runner, opset)
        _, support = SupportCache(cache_folder()).known(self._runner.spec.name)
        self.refused = tuple(sorted(map(str, {**support.refused(), **support.failing()})))

    def __call__(self, model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        (outcome,) = self._runner.run(model, inputs, [self._level])
        if outcome.kind is OutcomeKind.UNSUPPORTED:
            raise Unsupported(outcome.message)
        if outcome.outputs is None:
            raise RuntimeError(f"{outcome.kind} in {outcome.stage}: {outcome.message}")
        return outcome.outputs


class Bench:
    """Generates cases of given operators, and checks them on a compiler."""

    def __init__(self, config: CaseConfig, seed: int, run: Run, bits: bool) -> None:
        self._config, self._seed, self.run, self._bits = config, seed, run, bits
        self._producers: dict[tuple[str, ...], Producer] = {}
        self._next: Counter[tuple[str, ...]] = Counter()
        self.runs = self.models = 0

    def refused_operators(self) -> set[str]:
        """The operators all of whose signatures are refused."""
        usual = Producer(self._seed, self._config).signatures()[self._config.exporter]
        return operators_in(self._config.refused) - operators_in(usual)

    def case(self, operators: tuple[str, ...]) -> tuple[Producer, TestCase, int] | None:
        """The next case of some operators, or of all if none are given."""
        if operators not in self._producers:
            few = {"operators": (*operators, *COMMON), "nodes": 4} if operators else {}
            self._producers[operators] = Producer(self._seed, replace(self._config, **few))
        index = self._next[operators]
        self._next[operators] += 1
        producer = self._producers[operators]
        case = producer.produce(index)
        return (producer, case, index) if isinstance(case, TestCase) else None

    def check(self, producer: Producer, case: TestCase, model: bytes) -> str:
        """Returns BITS, WITHIN, UNSUPPORTED, or a description of the failure."""
        try:
            onnx.checker.check_model(onnx.load_model_from_string(model), full_check=True)
        except Exception as error:
            return f"checker: {error}"
        if read_names(model) != read_names(case.model):
            return "another interface"
        self.runs += 1
        try:
            after = self.run(model, case.inputs)
        except Exception as error:
            if type(error).__name__ in ("NotImplemented", Unsupported.__name__):
                return UNSUPPORTED
            return f"runtime: {error}"
        if self._bits:
            try:
                before = self.run(case.model, case.inputs)
            except Exception:  # what the compiler lacks a kernel for may be gone in the other form
                before = {}
            if before and all(same(before[name], after[name]) for name in before):
                return BITS
        target = Target("rewritten")
        wrong = producer.judge(case, {target: after}, ()).mismatches.get(target)
        return f"results: {wrong}" if wrong else WITHIN


def read_names(model: bytes) -> tuple:
    inputs, outputs = read_interface(model)
    return [(name, spec.dtype) for name, spec in inputs.items()], outputs


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


@dataclass(frozen=True)
class Settled:
    """Results of steps on a case. right: the steps that pass together. culprit: the failing step,
    with the steps that it needs, and its result.
    """

    right: tuple[Step, ...]
    word: str
    culprit: tuple[Step, ...] = ()
    found: str = ""


def settled(
    bench: Bench, producer: Producer, case: TestCase, steps: Sequence[Step]
) -> Iterator[Settled]:
    """Runs a case after the steps; bisects a failure and repeats it without the culprit.

    Yields nothing for a case that fails without any step.
    """
    left = tuple(steps)
    for turn in range(ROUNDS):
        model, left = rewritten(case.model, left)
        word = bench.check(producer, case, model) if left else ""
        if word in (BITS, WITHIN, ""):
            if left:
                yield Settled(left, word)
            return
        if turn == 0 and bench.check(producer, case, case.model) not in (BITS, WITHIN):
            return

        def check(some: Sequence[Step]) -> str:
            after, done = rewritten(case.model, some)
            return bench.check(producer, case, after) if done else WITHIN

        good, bad = 0, len(left)
        while bad - good > 1:  # the first `good` steps do well, the first `bad` ones do not
            middle = (good + bad) // 2
            word_there = check(left[:middle])
            if word_there in (BITS, WITHIN):
                good = middle
            else:
                bad, word = middle, word_there
        needed = left[:bad]
        for step in left[: bad - 1]:
            fewer = tuple(s for s in needed if s is not step)
            told = check(fewer)
            if told not in (BITS, WITHIN):
                needed, word = fewer, told
        yield Settled((), word, needed, word)
        left = (*left[: bad - 1], *left[bad:])


def wanting(tallies: dict[str, Tally], each: int) -> list[str]:
    """The rules that need more uses and have not been given up, ordered by uses."""
    names = [n for n, t in tallies.items() if t.applied < each and t.idle < PATIENCE]
    return sorted(names, key=lambda name: (tallies[name].applied, tallies[name].idle))


def made_of(rule: str) -> tuple[str, ...]:
    """The rare operators that a rule needs; empty if it needs none."""
    return next((operators for operators, rules in RARE.items() if rule in rules), ())


def plan(bench: Bench, wanted: Sequence[str], turn: int, most: int, seed: int) -> Plan | None:
    """A case with steps; the first are for the rule with the fewest uses."""
    first = wanted[0]
    behind = BEHIND.get(first) if turn % 2 or not made_of(first) else None
    made = bench.case(made_of(behind or first))
    if made is None:
        return None
    producer, case, index = made
    lead = [Step(behind, index % 1000)] if behind else []
    lead.append(Step(first, index % 1000, near=bool(behind)))
    model, done = rewritten(case.model, lead)
    rng = random.Random(f"{seed}/{index}/{first}")
    few = max(1, most - len(done))
    _, rest = draw_rewriting(model, rng, wanted, 2 * few - 1)
    return producer, case, index, (*done, *rest[:few])


def main() -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--models", type=int, default=10_000, help="at most so many")
    parser.add_argument("--each", type=int, default=100, metavar="N", help="uses of every rule")
    parser.add_argument("--most", type=int, default=8, help="steps of a model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--rules", default="", help="names, separated by commas; default: all")
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--backend", default="", help="default: ONNX Runtime in this process")
    parser.add_argument("--level", default="")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then stop")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path, help="write the table to this file")
    args = parser.parse_args()
    run = Sandboxed(args.backend, args.level, args.opset) if args.backend else Runtime()
    names = [n for n in args.rules.split(",") if n] or list(RULES)
    config = CaseConfig(
        exporter="direct", opset=args.opset, dynamic=0.0, nodes=6, refused=run.refused
    )
    bench = Bench(config, args.seed, run, bits=not args.backend)
    gone = {*run.lacks, *bench.refused_operators()}
    left_out = [n for n in names if any(needs(RULES[n], what) for what in gone)]
    tallies = {name: Tally() for name in names if name not in left_out}
    if left_out:
        print(f"not taken: {', '.join(sorted(gone))}; left out: {', '.join(left_out)}")
    start, cpu = time.perf_counter(), time.process_time()
    each = args.each if not args.mixed else 1 << 30
    with Progress() as progress:
        goal = args.models if args.mixed else each * len(tallies)
        task = progress.add_task("models" if args.mixed else "uses", total=goal)
        for _ in range(args.models):
            wanted = wanting(tallies, each)
            if not wanted or time.perf_counter() - start > args.seconds:
                break
            used = one(bench, tallies, wanted, args)
            progress.advance(task, 1 if args.mixed else used)
    seconds = time.perf_counter() - start, time.process_time() - cpu
    return report(tallies, bench, seconds, args.json)


def one(
    bench: Bench, tallies: dict[str, Tally], wanted: list[str], args: argparse.Namespace
) -> int:
    """Runs one model; returns the number of uses that it adds to rules that lack them."""
    if args.mixed:
        made = bench.case(())
        if made is None:
            return 0
        producer, case, index = made
        _, steps = draw_rewriting(case.model, random.Random(f"{args.seed}/{index}"), list(tallies))
    else:
        first = tallies[wanted[0]]
        made = plan(bench, wanted, first.turns, args.most, args.seed)
        first.turns, first.idle = first.turns + 1, first.idle + 1  # a use sets `idle` back
        if made is None:
            return 0
        producer, case, index, steps = made
    bench.models += bool(steps)
    before = sum(t.applied for n, t in tallies.items() if n in wanted)
    for told in settled(bench, producer, case, steps):
        where = f"{case.id}: {' '.join(map(str, told.culprit))}"
        for name in dict.fromkeys(step.rule for step in told.right or told.culprit[-1:]):
            if name in tallies:  # not of what only makes the place
                tallies[name].count(told.word, where)
        if told.culprit and told.word != UNSUPPORTED and args.out:
            keep(args.out, case, told)
    return sum(t.applied for n, t in tallies.items() if n in wanted) - before


def keep(folder: Path, case: TestCase, told: Settled) -> None:
    """Writes a failing model, before and after the steps, with its inputs."""
    own = folder / f"{told.culprit[-1].rule}-{case.id}".replace("/", "_").replace(" ", "_")
    own.mkdir(parents=True, exist_ok=True)
    (own / "model.onnx").write_bytes(rewritten(case.model, told.culprit)[0])
    (own / "plain.onnx").write_bytes(case.model)
    np.savez(own / "inputs.npz", **case.inputs)
    (own / "told.txt").write_text(f"{' '.join(map(str, told.culprit))}\n{told.found}\n")


def report(
    tallies: dict[str, Tally], bench: Bench, seconds: tuple[float, float], out: Path | None
) -> int:
    if out:
        out.write_text(json.dumps({name: vars(tally) for name, tally in tallies.items()}, indent=1))
    heads = "applied", BITS, WITHIN, UNSUPPORTED, "wrong"
    print(f"{'rule':26}" + "".join(f"{head:>12}" for head in heads))
    for name, t in tallies.items():
        told = t.applied, t.same_bits, t.within, t.unsupported, len(t.wrong)
        print(f"{name:26}" + "".join(f"{number:12}" for number in told))
    causes: dict[str, list[str]] = {}
    for name, t in tallies.items():
        for line in t.wrong:
            causes.setdefault(f"{name}: {cause(line)}", []).append(line)
    for known, lines in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(lines)} x {known}\n    e.g. {lines[0][:400]}")
    few = {name: t.applied for name, t in tallies.items() if t.applied < 100}
    print(f"below 100: {few or 'none'}")
    uses = sum(t.applied for t in tallies.values())
    wall, own = seconds
    print(
        f"{bench.models} models, {uses} uses, {bench.runs} runs, {wall:.0f} s, {own:.0f} s own CPU"
    )
    return int(any(tally.wrong for tally in tallies.values()))


def cause(line: str) -> str:
    """A failure without names of the model."""
    told = line.partition(": ")[2].partition(": ")[2]
    return re.sub(r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|\d+", "_", told)[:120]


if __name__ == "__main__":
    raise SystemExit(main())
