"""Checks that two correct compilers are never reported as disputed, and counts disputes about wrong
ones.

    python -m scripts.check.votes --models 300              legal variations: every dispute is false
    python -m scripts.check.votes --models 300 --planted    bugs that the envelope is silent about
    python -m scripts.check.votes --models 300 --searched   on inputs as campaigns have them

A correct compiler and a changed one (planted/) run models on inputs of any size, so that much is
NaN, infinite or not comparable, and nnfuzz.compare.votes compares the two. `--planted` counts bugs
that change an element that is not comparable by more than rounding explains
(planted.bench.effective) while every comparable element is right.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from nnfuzz.backend.target import Target
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.verdict import compare
from nnfuzz.compare.votes import disputes
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.ir.graph import Graph
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.producer import Producer
from planted import legal_at_edges
from planted.bench import effective, legal_spread, same
from planted.catalogue import LEGAL_VARIATIONS, PLANTED_BUGS
from planted.changes import Change
from planted.program import Run, Unsupported, load, run
from planted.vocabulary import CONFIG

Arrays = Mapping[str, np.ndarray]
ONE, OTHER = Target("one"), Target("other")


@dataclass
class Tally:
    """models: models that ran. elements: elements of outputs. silent: those that are not
    comparable. pairs: pairs of results that differ in these. disputed: reported pairs. kinds:
    reported pairs by change.
    """

    models: int = 0
    elements: int = 0
    silent: int = 0
    pairs: int = 0
    disputed: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        share = self.silent / max(1, self.elements)
        return (
            f"{self.models} models, {share:.1%} of their elements not comparable; of {self.pairs} "
            f"pairs that differ there {self.disputed} are disputed"
        )


def main(argv: list[str] | None = None) -> int:
    arguments = parsed(argv)
    torch.set_num_threads(1)
    config = replace(CONFIG, nodes=arguments.nodes)
    producer, tally = Producer(arguments.seed, config), Tally()
    index, end = 0, time.monotonic() + arguments.seconds
    while tally.models < arguments.models and time.monotonic() < end:
        case = producer.produce(index)
        index += 1
        if isinstance(case, TestCase):
            with np.errstate(all="ignore"):
                look(producer.load(case), case, tally, arguments.planted, arguments.searched)
    for line in tally.shown:
        print(line)
    for name, count in tally.kinds.most_common():
        print(f"{count:6d} {name}")
    print(tally)
    return int(bool(tally.disputed) and not arguments.planted)


def parsed(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--searched", action="store_true")
    return parser.parse_args(argv)


def look(graph: Graph, case: TestCase, tally: Tally, planted: bool, searched: bool) -> None:
    """Adds the results of one model to the tally."""
    inputs = dict(case.inputs) if searched else drawn(case)
    try:
        program = load(case.model)
        base = run(program, inputs)
        plain = base.outputs()
        bounds = enclosure(graph, {**inputs, **case.weights}, plain)
    except Exception as error:  # the bench's compiler lacks it, or indices are out of their range
        if not isinstance(error, Unsupported | RuntimeError | IndexError | ValueError):
            raise
        return
    silent = {name: own.any for name, own in bounds.envelopes.items()}
    tally.models += 1
    tally.elements += sum(mask.size for mask in silent.values())
    tally.silent += sum(int(mask.sum()) for mask in silent.values())
    if not any(mask.any() for mask in silent.values()):
        return
    params = {**inputs, **case.weights}
    given = replace(case, inputs=inputs)
    found = changed(given, base, PLANTED_BUGS if planted else LEGAL_VARIATIONS)
    found = [*found, *(() if planted else at_edges(graph, params))]
    spread = legal_spread(LEGAL_VARIATIONS, given, base, plain) if planted else {}
    for name, outputs in found:
        if not counts(plain, outputs, silent, spread if planted else None):
            continue
        if compare(bounds.envelopes, outputs) or compare(bounds.envelopes, plain):
            continue
        tally.pairs += 1
        told = disputes(bounds, params, {ONE: plain, OTHER: outputs})
        if told:
            tally.disputed += 1
            tally.kinds[name] += 1
            if not planted:
                tally.shown += [f"{case.id} {name}: {dispute}" for dispute in told.values()]


def drawn(case: TestCase) -> dict[str, np.ndarray]:
    """The searched inputs with floats replaced by ones of any size."""
    rng = np.random.default_rng(case.id.index)
    size = 10.0 ** rng.uniform(-1, 4)
    return {
        name: (size * rng.standard_normal(array.shape)).astype(array.dtype)
        if is_floating(array)
        else array
        for name, array in case.inputs.items()
    }


def at_edges(graph: Graph, params: Arrays) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Results of correct compilers that decide differently where ONNX leaves a choice at edges.
    They end at an operator whose rounding error depends on shapes.
    """
    with suppress(IndexError):
        yield from legal_at_edges.legal(graph, params)


def changed(
    case: TestCase, base: Run, changes: Iterable[Change]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The outputs under every change that affects them and raises no error."""
    for change in changes:
        program = change.apply(base.program)
        if program is None:
            continue
        try:
            yield change.name, run(program, case.inputs, base).outputs()
        except Exception:  # the compiler would have noticed
            continue


def counts(plain: Arrays, outputs: Arrays, silent: Arrays, spread: Arrays | None) -> bool:
    """Whether two results differ in elements that are not comparable; with a spread, by more than
    rounding."""
    if any(a.shape != outputs[n].shape or a.dtype != outputs[n].dtype for n, a in plain.items()):
        return False
    before, after = (
        {n: np.where(silent[n], a, np.zeros_like(a)) for n, a in p.items()}
        for p in (plain, outputs)
    )
    return not same(before, after) if spread is None else effective(before, after, spread)


if __name__ == "__main__":
    sys.exit(main())
