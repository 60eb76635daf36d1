"""Measures which share of planted faults other forms of a model reveal.

Every wrong compiler (planted.wrong_compilers) changes the model of each test case, as generated and
rewritten, and ONNX Runtime without optimisation runs the result. A fault is effective where the
model no longer runs, or where a result changes by more than rounding can: by more than MOST_NOISE
times the error of the right result against float64, and as many units in the last place. Smaller
changes are "allowed", since another order of summation may cause them. A fault is found where the
envelope or an error reports it.

    python -m scripts.check.planted_rewrites --models 300
    python -m scripts.check.planted_rewrites --models 300 --edges
    python -m scripts.check.planted_rewrites --models 2000 --pairs

--edges: inputs with NaN, infinities and empty tensors, and compilers that are wrong there
(planted.wrong_at_edges). Results of correct compilers that decide differently where ONNX leaves a
choice (planted.legal_at_edges) are "allowed" as well; a mismatch of one of these is a false alarm.

--pairs: models as generated, and compilers that are wrong about two operators in a row, parameters
that are constant together, wide integers, and exponentials that overflow (planted.wrong_pairs).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
from rich.progress import track

from nnfuzz.backend.target import Target
from nnfuzz.compare.envelope import envelopes
from nnfuzz.ir.dtypes import DType
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from planted import legal_at_edges, wrong_at_edges, wrong_compilers, wrong_pairs
from scripts.check.rewrites import Runtime, same

TARGET = Target("planted")
MOST_NOISE = 8
SHOWN = 3
"""Most printed tests per wrong compiler in which its fault is not found."""


@dataclass
class Score:
    """Counts of models: changed by the fault, with an allowed change of results, with an effective
    one, and with a found one."""

    reached: int = 0
    allowed: int = 0
    effective: int = 0
    found: int = 0
    first: int = 0
    shown: int = 0


def main() -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--opset", type=int, default=20)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--edges", action="store_true")
    kind.add_argument("--pairs", action="store_true")
    args = parser.parse_args()
    start = time.process_time()
    share = 0.0 if args.pairs else None if args.edges else 1.0
    config = CaseConfig(
        exporter="direct", opset=args.opset, nodes=args.nodes, rewrites=share, edges=args.edges
    )
    producer, run = Producer(args.seed, config), Runtime()
    compilers = wrong_compilers.COMPILERS
    forms: tuple[str, ...] = ("rewritten", "plain")
    if args.edges or args.pairs:
        compilers = wrong_at_edges.COMPILERS if args.edges else wrong_pairs.COMPILERS
        forms = ("edges" if args.edges else "plain",)
    scores = {form: {c.name: Score() for c in compilers} for form in forms}
    alarms = tests = variants = 0
    for index in track(range(args.models), description="models"):
        case = producer.produce(index)
        if not isinstance(case, TestCase) or (share == 1.0 and not case.plain):
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
        others = _legal(producer, case) if args.edges else {}
        variants += len(others)
        for name, outputs in others.items():
            if wrong := _mismatches(producer, case, outputs):
                alarms += 1
                print(f"index {index}: false alarm: {name}: {wrong[0]}", file=sys.stderr)
        for form, model, held in zip(forms, (case.model, plain), (right, before)):
            allowed = [held, *others.values()]
            for compiler in compilers:
                score = scores[form][compiler.name]
                _try(producer, case, model, allowed, compiler, score, run, tests)
    _report(scores, tests, alarms, time.process_time() - start)
    if variants:
        print(f"{variants} results of correct compilers that make other use of what is left open")
    return 0


def _legal(producer: Producer, case: TestCase) -> dict[str, dict[str, np.ndarray]]:
    return dict(legal_at_edges.legal(producer.load(case), {**case.inputs, **case.weights}))


def _try(producer, case, model, allowed, compiler, score, run, tests) -> None:
    held = allowed[0]
    proto = onnx.load_model_from_string(model)
    if not compiler.apply(proto):
        return
    score.reached += 1
    got = _ran(run, proto.SerializeToString(), case.inputs)
    if got is not None and all(same(held[name], got[name]) for name in held):
        return
    found = got is None or _wrong(producer, case, got)
    if not found and _as_allowed(producer, case, allowed, got):
        score.allowed += 1
        return
    if not found and score.shown < SHOWN:
        score.shown += 1
        print(f"{case.id}: {compiler.name} is not found", file=sys.stderr)
    score.effective += 1
    if found:
        score.found += 1
        score.first = score.first or tests


def _as_allowed(producer, case, allowed, got) -> bool:
    """Whether each element is within rounding of what some correct compiler computes."""
    exact = envelopes(producer.load(case), {**case.inputs, **case.weights})
    return all(
        np.logical_or.reduce(
            [_near(one[name], got[name], exact[name].ref) for one in allowed]
        ).all()
        for name in got
    )


def _near(right: np.ndarray, wrong: np.ndarray, exact: np.ndarray) -> np.ndarray:
    if right.dtype != wrong.dtype or right.shape != wrong.shape:
        return np.zeros((), bool)
    if not is_float(right.dtype):
        return right == wrong
    kind, wide = ml_dtypes.finfo(right.dtype), np.float64
    with np.errstate(all="ignore"):
        noise = np.nanmax(np.abs(right.astype(wide) - exact), initial=0.0)
        noise = noise if np.isfinite(noise) else 0.0
        unit = float(kind.eps) * np.abs(right.astype(wide)) + float(kind.tiny)
        moved = np.abs(right.astype(wide) - wrong.astype(wide))
        near = (moved <= MOST_NOISE * (noise + unit)) & np.isfinite(right.astype(wide))
        equal = (right == wrong) & (np.signbit(right) == np.signbit(wrong))
    return equal | (np.isnan(right) & np.isnan(wrong)) | (near & (right != 0))


def is_float(dtype: np.dtype) -> bool:
    return DType.of(dtype).is_float


def _ran(run: Runtime, model: bytes, inputs: dict[str, np.ndarray]) -> dict | None:
    try:
        return run(model, inputs)
    except Exception:
        return None


def _wrong(producer: Producer, case: TestCase, outputs: dict[str, np.ndarray]) -> bool:
    return bool(_mismatches(producer, case, outputs))


def _mismatches(producer: Producer, case: TestCase, outputs: dict[str, np.ndarray]) -> tuple:
    return producer.judge(case, {TARGET: outputs}).mismatches.get(TARGET, ())


def _report(scores, tests: int, alarms: int, seconds: float) -> None:
    names = next(iter(scores.values()))
    print(f"{'wrong compiler':40}" + "".join(f"{form:>41}" for form in scores))
    print(f"{'':40}" + f"{'reached  allowed effective found first':>41}" * len(scores))
    totals = {form: [0, 0, 0, 0] for form in scores}
    for name in names:
        row = f"{name:40}"
        for form, own in scores.items():
            s = own[name]
            row += f"{s.reached:9}{s.allowed:9}{s.effective:10}{s.found:6}{s.first or '-':>7}"
            told = s.allowed, s.effective, s.found, bool(s.found)
            totals[form] = [a + b for a, b in zip(totals[form], told)]
        print(row)
    for form, (allowed, effective, found, known) in totals.items():
        share = 100 * found / effective if effective else 0.0
        told = f"{found} of {effective} effective faults found ({share:.1f} %)"
        known = f"{known} of {len(names)} compilers"
        print(f"{form}: {told}, {known}; {allowed} more are allowed")
    print(f"{tests} models, {alarms} that are wrong by themselves, {seconds:.0f} s of CPU time")


if __name__ == "__main__":
    raise SystemExit(main())
