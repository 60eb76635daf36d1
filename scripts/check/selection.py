"""Compares a few selected models with all: coverage, and the planted bugs that they find.

python -m scripts.check.selection --models 5000 --selected 100
python -m scripts.check.selection --coverage --common
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Iterable, Sequence

import torch

from nnfuzz.corpus.coverage import coverage_table, covered
from nnfuzz.corpus.selection import Budget, SelectableModel, choose
from planted.bench import Bench
from planted.catalogue import LEGAL_VARIATIONS, PLANTED_BUGS
from scripts.bench.engines import Source

DRAWS = 20
"""Random choices of equally many models, for comparison."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=5000)
    parser.add_argument("--selected", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--coverage", action="store_true", help="graphs only, no planted bugs")
    parser.add_argument("--common", action="store_true", help="--coverage of common operators")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    if args.coverage or args.common:
        print(json.dumps(kept(generated(args.models, args.common), args.selected), indent=1))
        return 0
    found = judged(args.seed, args.models, args.seconds)
    print(json.dumps(compared(found, args.selected), indent=1))
    return 0


def judged(seed: int, models: int, seconds: float) -> dict[SelectableModel, frozenset[str]]:
    """Models with the planted bugs that each of them shows."""
    bench = Bench(seed, PLANTED_BUGS, LEGAL_VARIATIONS)
    found: dict[SelectableModel, frozenset[str]] = {}
    index, end = 0, time.monotonic() + seconds
    while len(found) < models and time.monotonic() < end:
        before = bench.flagged()
        case = bench.step(index)
        if case is not None:
            shown = (name for name, count in bench.flagged().items() if count > before[name])
            found[SelectableModel(str(index), covered(case.graph))] = frozenset(shown)
        index += 1
        if index % 100 == 0:
            print(f"{len(found)} models", file=sys.stderr, flush=True)
    return found


def generated(models: int, common: bool) -> list[SelectableModel]:
    """Graphs of ten operators, of all or of the common ones, as campaigns generate them."""
    graphs = itertools.islice(Source("direct", 10, common).graphs(), models)
    return [
        SelectableModel(str(i), covered(made.graph.view())) for i, (made, _) in enumerate(graphs)
    ]


def kept(everything: Sequence[SelectableModel], count: int) -> dict[str, object]:
    """The coverage of a selection and of a random choice."""
    whole = [candidate.features for candidate in everything]
    chosen = choose(everything, Budget(count))
    drawn = random.Random(0).sample(list(everything), len(chosen))
    return {
        "models": len(everything),
        "selected": len(chosen),
        "coverage of the selection": coverage_table([c.features for c in chosen], whole),
        "coverage of a random one": coverage_table([c.features for c in drawn], whole),
    }


def compared(found: dict[SelectableModel, frozenset[str]], count: int) -> dict[str, object]:
    """The shares of coverage and bugs that a selection keeps, and that random choices keep on
    average."""
    everything = list(found)
    chosen = choose(everything, Budget(count))
    rng = random.Random(0)
    draws = [rng.sample(everything, len(chosen)) for _ in range(DRAWS)]
    bugs = union(found.values())
    shares = [len(union(found[c] for c in draw)) / len(bugs) for draw in draws]
    return {
        **kept(everything, count),
        "planted bugs that all find": len(bugs),
        "share that the selection finds": len(union(found[c] for c in chosen)) / len(bugs),
        "share that random ones find": sum(shares) / DRAWS,
    }


def union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


if __name__ == "__main__":
    sys.exit(main())
