"""Compilers with planted faults that other forms of a model show: which share is found?

Each test case runs as it is and rewritten through every wrong compiler (planted.wrong_compilers),
and what that makes of the model on ONNX Runtime without optimisation. A fault is effective where
the model no longer runs, or where a result moves by more than rounding can: by more than MOST_NOISE
times what the right result is away from float64, and as many units in the last place. What moves
less is counted as "rounding": nobody could tell it from another order of summation. A fault is
found where the envelope or an error says so.

    .venv/bin/python scripts/planted_rewrites.py --models 300
    .venv/bin/python scripts/planted_rewrites.py --models 300 --edges

--edges: inputs with NaN and the like, empty tensors, and compilers that are wrong there
(planted.wrong_at_edges).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent))

from check_rewrites import Runtime, same
from planted import wrong_at_edges, wrong_compilers

from nnfuzz.compare.envelope import envelopes
from nnfuzz.execute.target import Target
from nnfuzz.ir.dtypes import DType
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

TARGET = Target("planted")
MOST_NOISE = 8


@dataclass
class Score:
    """Models that had something to get wrong, in which a result moved as far as rounding goes, in
    which it moved further, and that showed it."""

    reached: int = 0
    rounding: int = 0
    effective: int = 0
    found: int = 0
    first: int = 0


def main() -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--edges", action="store_true")
    args = parser.parse_args()
    start = time.process_time()
    share = 0.0 if args.edges else 1.0
    config = CaseConfig(
        exporter="direct", opset=args.opset, nodes=args.nodes, rewrites=share, edges=args.edges
    )
    producer, run = Producer(args.seed, config), Runtime()
    compilers = wrong_at_edges.COMPILERS if args.edges else wrong_compilers.COMPILERS
    forms = ("edges",) if args.edges else ("rewritten", "plain")
    scores = {form: {c.name: Score() for c in compilers} for form in forms}
    alarms = tests = 0
    for index in track(range(args.models), description="models"):
        case = producer.produce(index)
        if not isinstance(case, TestCase) or not (case.plain or args.edges):
            continue
        plain = case.plain or case.model
        before, right = (_ran(run, m, case.inputs) for m in (plain, case.model))
        if before is None or right is None or _wrong(producer, case, before):
            continue
        tests += 1
        if _wrong(producer, case, right):
            alarms += 1
            print(f"index {index}: {case.exporter} itself is not right", file=sys.stderr)
            continue
        for form, model, held in zip(forms, (case.model, plain), (right, before)):
            for compiler in compilers:
                score = scores[form][compiler.name]
                _try(producer, case, model, held, compiler, score, run, tests)
    _report(scores, tests, alarms, time.process_time() - start)
    return 0


def _try(producer, case, model, held, compiler, score, run, tests) -> None:
    proto = onnx.load_model_from_string(model)
    if not compiler.apply(proto):
        return
    score.reached += 1
    got = _ran(run, proto.SerializeToString(), case.inputs)
    if got is not None and all(same(held[name], got[name]) for name in held):
        return
    found = got is None or _wrong(producer, case, got)
    if not found and _by_rounding(producer, case, held, got):
        score.rounding += 1
        return
    score.effective += 1
    if found:
        score.found += 1
        score.first = score.first or tests


def _by_rounding(producer, case, held, got) -> bool:
    """Whether nothing has moved further than rounding can, which is no fault that numbers show."""
    exact = envelopes(producer.load(case), {**case.inputs, **case.weights})
    return all(_near(held[name], got[name], exact[name].ref) for name in held)


def _near(right: np.ndarray, wrong: np.ndarray, exact: np.ndarray) -> bool:
    if right.dtype != wrong.dtype or right.shape != wrong.shape:
        return False
    if not is_float(right.dtype):
        return same(right, wrong)
    kind, wide = ml_dtypes.finfo(right.dtype), np.float64
    with np.errstate(all="ignore"):
        noise = np.nanmax(np.abs(right.astype(wide) - exact), initial=0.0)
        unit = float(kind.eps) * np.abs(right.astype(wide)) + float(kind.tiny)
        moved = np.abs(right.astype(wide) - wrong.astype(wide))
    both = np.isnan(right) & np.isnan(wrong)
    return bool((both | (moved <= MOST_NOISE * (noise + unit))).all())


def is_float(dtype: np.dtype) -> bool:
    return DType.of(dtype).is_float


def _ran(run: Runtime, model: bytes, inputs: dict[str, np.ndarray]) -> dict | None:
    try:
        return run(model, inputs)
    except Exception:
        return None


def _wrong(producer: Producer, case: TestCase, outputs: dict[str, np.ndarray]) -> bool:
    return bool(producer.judge(case, {TARGET: outputs}).mismatches.get(TARGET))


def _report(scores, tests: int, alarms: int, seconds: float) -> None:
    names = next(iter(scores.values()))
    print(f"{'wrong compiler':40}" + "".join(f"{form:>41}" for form in scores))
    print(f"{'':40}" + f"{'reached rounding effective found first':>41}" * len(scores))
    totals = {form: [0, 0, 0, 0] for form in scores}
    for name in names:
        row = f"{name:40}"
        for form, own in scores.items():
            s = own[name]
            row += f"{s.reached:9}{s.rounding:9}{s.effective:10}{s.found:6}{s.first or '-':>7}"
            told = s.rounding, s.effective, s.found, bool(s.found)
            totals[form] = [a + b for a, b in zip(totals[form], told)]
        print(row)
    for form, (rounding, effective, found, known) in totals.items():
        share = 100 * found / effective if effective else 0.0
        told = f"{found} of {effective} effective faults found ({share:.1f} %)"
        known = f"{known} of {len(names)} compilers"
        print(f"{form}: {told}, {known}; {rounding} more move as rounding does")
    print(f"{tests} models, {alarms} that are wrong by themselves, {seconds:.0f} s of CPU time")


if __name__ == "__main__":
    raise SystemExit(main())
