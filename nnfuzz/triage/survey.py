"""Finds out a compiler's habits: whether elementary operators keep all digits of their dtype.

If Add, Sub and Mul of float64 are computed in float32, the compiler does so everywhere, and a
thousand wrong results are one finding. If a single operator loses digits, that is another bug.
Tiny models of these operators, which return their input unchanged, distinguish the two cases.
"""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np

from nnfuzz.backend.contract import Backend, OutputError
from nnfuzz.backend.numeric import CONSIDERED, FLUSHES, NO_NAN, SATURATES, TF32, WIDER, Deviation
from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.runner import AdapterFault, BackendRunner
from nnfuzz.backend.target import ONNX
from nnfuzz.generate.interface import INPUT, OUTPUT, RANK_0
from nnfuzz.ir.dtypes import DType

Arrays = Mapping[str, np.ndarray]
Run = Callable[[bytes, Arrays], Arrays | None]
"""Runs an ONNX model and returns its outputs; None if the compiler refuses it or fails."""
OPERATORS = ("Add", "Mul", "Sub", "Max")
LOGICAL = ("And", "Or", "Xor")
LEAST_SECONDS, HANGS = 1.0, 20.0
"""A model counts as a hang after LEAST_SECONDS and HANGS times the longest time of those before."""
FIRST_SECONDS = 5.0
"""Limit for the first model, which loads the compiler; it doubles until a model has returned."""
OPSET = 17


def patience(usual: float) -> float:
    """Seconds after which a model is a hang, if similar ones take at most `usual` seconds."""
    return max(LEAST_SECONDS, HANGS * usual)


def survey(run: Run) -> tuple[Deviation, ...]:
    """Returns the habits of a compiler.

    For each dtype this is the mildest habit that explains the wrong results of at least half of
    the elementary operators that the compiler takes.
    """
    habits: list[Deviation] = []
    every = (*CONSIDERED, *WIDER)
    for dtype in dict.fromkeys(habit.dtype for habit in every):
        considered = [habit for habit in every if habit.dtype == dtype]
        ways = (TF32, SATURATES, NO_NAN, FLUSHES)
        rounding = [habit for habit in considered if habit.to not in ways]
        operators = LOGICAL if dtype == DType.BOOL.value else OPERATORS
        habits += _observed(run, rounding, operators, _numbers(dtype))
        if (habit := Deviation(dtype, SATURATES)) in considered:
            habits += _observed(run, [habit], ("Add",), _limits(dtype), addend=1)
        as_wide = not any(habit.dtype == dtype for habit in habits)
        if (habit := Deviation(dtype, TF32)) in considered and as_wide:
            habits += _observed(run, [habit], ("MatMul",), np.diag(_numbers(dtype)))
        if (habit := Deviation(dtype, FLUSHES)) in considered and as_wide:
            tiny = np.array([1, 2**-2, -(2**-3)], dtype) * np.finfo(dtype).tiny
            habits += _observed(run, [habit], OPERATORS, tiny)
        if (habit := Deviation(dtype, NO_NAN)) in considered and _passes_over_nan(run, dtype):
            habits.append(habit)
    return tuple(habits)


def _passes_over_nan(run: Run, dtype: str) -> bool:
    """Whether every elementary comparison that the compiler takes returns a number beside NaN."""
    x, w = np.array([np.nan, 1], dtype), np.array([2, np.nan], dtype)
    given = (run(_model(name, dtype, x.shape), {"x": x, "w": w}) for name in ("Max", "Min"))
    results = [outputs["y"] for outputs in given if outputs]
    return bool(results) and not any(np.isnan(y).all() for y in results)


def learn_habits(runner: BackendRunner, seconds: float = math.inf) -> tuple[Deviation, ...]:
    """Surveys a runner's compiler at its least optimised level; sets and returns runner.habits.

    The habits that the adapter declares are included. A model that takes much longer than all
    before it is stopped as a hang. seconds: no further model is run after this time.

    Raises: RunnerError; AdapterFault if the adapter returns the outputs of no model.
    """
    level = runner.backend.default_levels()[0]
    deadline = time.monotonic() + seconds
    outcomes: list[Outcome] = []
    with reading_onnx(runner) as asked:

        def run(model: bytes, inputs: Arrays) -> Arrays | None:
            if time.monotonic() > deadline:
                return None
            usual, hung = asked.elementary, asked.hung
            limit = patience(usual) if usual else FIRST_SECONDS * 2**hung
            (outcome,) = asked.run(model, inputs, [level], seconds=limit)
            outcomes.append(outcome)
            if outcome.kind is OutcomeKind.TIMEOUT:
                asked.hung += 1
            else:
                asked.elementary = max(usual, sum(outcome.seconds.values()))
            return outcome.outputs

        runner.habits = tuple(dict.fromkeys((*declared(runner.backend), *survey(run))))
        runner.hung = asked.hung
    _check_outputs(runner, outcomes)
    return runner.habits


def _check_outputs(runner: BackendRunner, outcomes: Sequence[Outcome]) -> None:
    """Raises: AdapterFault if no model succeeded and one or more had malformed outputs."""
    lost = [o.message for o in outcomes if o.error_type.endswith(OutputError.__name__)]
    if lost and not any(outcome.ok for outcome in outcomes):
        raise AdapterFault(
            f"backend {runner.spec}: none of {len(lost)} elementary models has its outputs: "
            f"{lost[0]}. The program that build() returns must map the name of each output of the "
            "model to an array"
        )


@contextmanager
def reading_onnx(runner: BackendRunner) -> Iterator[BackendRunner]:
    """Yields a runner of the same compiler that reads ONNX, or the runner itself if there is none.

    Habits do not depend on the form of the model, and a front end for PyTorch may take a hundred
    times as long.
    """
    if runner.reads == ONNX:
        yield runner
        return
    option = runner.backend.meant().get("form", "")
    options = {name: value for name, value in runner.spec.options.items() if name != option}
    if runner.backend(**options).form != ONNX:
        yield runner
        return
    with BackendRunner(replace(runner.spec, options=options), runner.registry) as other:
        yield other


def usual_seconds(
    runner: BackendRunner, levels: Sequence[str], most: float = math.inf
) -> dict[str, float]:
    """Returns level -> seconds for an elementary model after the compiler has loaded.

    The second of two models counts. Levels that hang on both are missing. most: limit in seconds of
    the first model. Raises: RunnerError.
    """
    limit = max(FIRST_SECONDS, patience(runner.elementary), min(most, 4 * FIRST_SECONDS))
    seconds: dict[str, float] = {}
    for _ in range(2):
        # A size of its own: some compilers keep on the disk what they have compiled.
        x = np.ones(2 + secrets.randbelow(1 << 16), np.float32)
        model = _model("Add", "float32", x.shape)
        ran = runner.run(model, {"x": x, "w": x}, levels, seconds=limit)
        ended = [outcome for outcome in ran if outcome.kind is not OutcomeKind.TIMEOUT]
        runner.hung += len(ended) < len(ran)
        seconds |= {outcome.level: sum(outcome.seconds.values()) for outcome in ended}
        limit = patience(max(seconds.values(), default=FIRST_SECONDS / HANGS))
    return seconds


def declared(backend: type[Backend]) -> tuple[Deviation, ...]:
    """The habits that an adapter says its compiler has by design."""
    return tuple(Deviation(dtype, to) for dtype, to in backend.narrows.items())


def _observed(
    run: Run,
    habits: list[Deviation],
    operators: tuple[str, ...],
    x: np.ndarray,
    addend: int = 0,
) -> list[Deviation]:
    """The mildest of some habits of one dtype that the results of operators show, or an empty list.

    If the first two operators return x unchanged, the others are not run.
    """
    first, rest = operators[:2], operators[2:]
    results = list(_results(run, first, x, addend))
    kept = [t.dtype == r.dtype and not _wrong(t, r).any() for t, r in results]
    if len(kept) < len(first) or not all(kept):
        results += _results(run, rest, x, addend)
    if not results and not addend:
        results = list(_cast_to(run, x))
    for habit in sorted(habits, key=lambda habit: _lost(habit, x, addend).sum()):
        guilty = [_fits(habit, x, addend, truth, result) for truth, result in results]
        if any(guilty) and 2 * sum(guilty) >= len(guilty):
            return [habit]
    return []


def _results(
    run: Run, operators: tuple[str, ...], x: np.ndarray, addend: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (right result, actual result) of each operator that the compiler takes.

    The second operand is neutral, or `addend` for Add and Sub.
    """
    for operator in operators:
        y = _neutral(operator, x, addend)
        with np.errstate(over="ignore"):
            truth = x + y if operator == "Add" else x
        outputs = run(_model(operator, x.dtype.name, x.shape), {"x": x, "w": y})
        if outputs and outputs["y"].shape == x.shape:
            yield truth, outputs["y"]


def _cast_to(run: Run, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (right, actual) result of a Cast to x's dtype, for compilers without inputs of it."""
    source = np.ones(x.shape, np.int32 if x.dtype.kind in "iu" else np.float32)
    if source.dtype != x.dtype:
        outputs = run(_cast(source.dtype.name, x.dtype.name, source.shape), {"x": source})
        if outputs and outputs["y"].shape == source.shape:
            yield source.astype(x.dtype), outputs["y"]


def _neutral(operator: str, x: np.ndarray, addend: int) -> np.ndarray:
    if operator == "Max":
        return x.copy()
    if operator == "MatMul":
        return np.eye(len(x), dtype=x.dtype)
    return np.full_like(x, 1 if operator in ("Mul", "And") else addend)


def _fits(
    habit: Deviation, x: np.ndarray, addend: int, truth: np.ndarray, result: np.ndarray
) -> bool:
    """Whether a habit explains a result.

    The result must be wrong or of the other dtype, and every wrong element must be one that the
    habit changes. truth, result: shape of x.
    """
    if result.dtype.name not in (truth.dtype.name, habit.to):
        return False
    off, converted = _wrong(truth, result), result.dtype.name == habit.to
    lost = _lost(habit, x, addend)
    if DType(habit.dtype).is_float:
        room = _roundoff(habit.to) * np.abs(truth.astype(np.float64))
        near = np.abs(result.astype(np.float64) - truth.astype(np.float64)) <= room
        return bool((off.any() or converted) and near.all() and not (off & ~lost).any())
    return bool((off.any() or converted) and not (off & ~lost).any())


def _wrong(truth: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Mask of the elements that differ from the exact result."""
    wide = np.float64 if truth.dtype.kind not in "iu" else object
    return np.array(result.astype(wide) != truth.astype(wide))


def _lost(habit: Deviation, x: np.ndarray, addend: int) -> np.ndarray:
    """Mask of the elements that the habit changes."""
    if habit.to == SATURATES:
        return x.astype(object) + addend > int(np.iinfo(x.dtype).max)
    if habit.to == FLUSHES:
        return np.abs(x) < np.finfo(x.dtype).tiny
    if habit.to == TF32:
        return x.astype(ml_dtypes.bfloat16).astype(x.dtype) != x
    narrow = DType(habit.to)
    if DType(habit.dtype).is_int and narrow.is_int:
        least, most = (int(end) for end in narrow.limits)
        return (x.astype(object) < least) | (x.astype(object) > most)
    return x.astype(narrow.numpy).astype(np.float64).astype(object) != x.astype(object)


def _roundoff(to: str) -> float:
    """The greatest relative error of a result of a few operations."""
    return {TF32: 2.0**-9, FLUSHES: 1.0}.get(to) or 4 * DType(to).unit_roundoff


def _numbers(dtype: str) -> np.ndarray:
    """1-D array of numbers that the dtype holds exactly; each narrower dtype lacks some of them."""
    kind = DType(dtype)
    if kind is DType.BOOL:
        return np.array([True, False])
    if kind.is_float:
        bits = (4, 9, 13, 20, 40)  # float16 has 10 bits of mantissa, bfloat16 7, float32 23
        held = [b for b in bits if 2.0**-b >= 2 * kind.unit_roundoff]
        return np.array([1 + 2.0**-b for b in held]).astype(kind.numpy)
    powers = [3, 2**24 + 1, 2**31 + 5, 2**40 + 3, 2**53 + 1, 2**63 + 4097]
    return np.array([p for p in powers if p <= np.iinfo(kind.numpy).max]).astype(kind.numpy)


def _limits(dtype: str) -> np.ndarray:
    kind = DType(dtype)
    return np.array([3, kind.limits[1]]).astype(kind.numpy)


@cache
def _model(operator: str, dtype: str, shape: tuple[int, ...]) -> bytes:
    """A serialized ONNX model of one operator, y = operator(x, w), of one dtype."""
    own = _typed(dtype, shape)
    return _parsed(OPSET, f"{own} x, {own} w", f"{own} y", f"y = {operator} (x, w)")


@cache
def _cast(source: str, dtype: str, shape: tuple[int, ...]) -> bytes:
    """A serialized ONNX model of a Cast, y = dtype(x)."""
    step = f"y = Cast <to = {DType(dtype).onnx}> (x)"
    return _parsed(OPSET, f"{_typed(source, shape)} x", f"{_typed(dtype, shape)} y", step)


def _typed(dtype: str, shape: Sequence[int]) -> str:
    """A type in the text form of ONNX."""
    from onnx import TensorProto

    name = TensorProto.DataType.Name(DType(dtype).onnx).lower()
    return f"{name}[{', '.join(map(str, shape))}]" if shape else name


def _parsed(opset: int, inputs: str, outputs: str, nodes: str, weights: str = "") -> bytes:
    """A serialised model, from parts in the text form of ONNX."""
    from onnx import parser

    from nnfuzz.materialize.protos import ir_version

    head = f'<ir_version: {ir_version(opset)}, opset_import: ["" : {opset}]>'
    text = f"{head} asked ({inputs}) => ({outputs}) <{weights}> {{ {nodes} }}"
    return parser.parse_model(text.replace("<>", "")).SerializeToString()


def first_taken(runner: BackendRunner, opsets: Iterable[int]) -> int | None:
    """The first of the given opsets at which the compiler runs a model, with the IR version that
    goes with it; None if there is none. Raises: RunnerError.
    """
    level = runner.backend.default_levels()[0]
    for opset in opsets:
        (outcome,) = runner.run(plain_model(opset), {"x": np.ones(1, np.float32)}, [level])
        if outcome.ok:
            return opset
    return None


def plain_model(opset: int) -> bytes:
    """A serialised model, y = Relu(x)."""
    return _parsed(opset, "float[1] x", "float[1] y", "y = Relu (x)")


def refused_interface(runner: BackendRunner, opset: int) -> tuple[str, ...]:
    """The kinds of values that the least optimised level of a compiler refuses. "input int64" is
    refused as an input of the model, "output rank 0" as an output, and "int64" anywhere in it.

    Raises: RunnerError.
    """
    level = runner.backend.default_levels()[0]

    def outcome(kinds: Sequence[str], path: str) -> Outcome:
        (one,) = runner.run(*_along(path, kinds, opset), [level])
        return one

    def suspects(kinds: Sequence[str]) -> Iterator[str]:
        """The kinds that are refused as input and output of a model."""
        one, half = outcome(kinds, "KKFK"), len(kinds) // 2
        if one.kind is OutcomeKind.UNSUPPORTED and not half:
            yield from kinds
        elif not one.ok and half:
            yield from (*suspects(kinds[:half]), *suspects(kinds[half:]))

    found: list[str] = []
    for kind in suspects([*(d.text for d in DType if d is not DType.FLOAT32), RANK_0]):
        if not outcome([kind], "KK").ok:  # else it lacks conversions alone
            # Of rank 0, "FKF" has only a result: a compiler may refuse rank 0 as an operand.
            within = "FKKF" if kind == RANK_0 else "FKF"
            paths = {within: kind, "KF": f"{INPUT} {kind}", "FK": f"{OUTPUT} {kind}"}
            each = {name: outcome([kind], path).kind for path, name in paths.items()}
            found += [name for name, own in each.items() if own is OutcomeKind.UNSUPPORTED]
    return tuple(found)


def _along(path: str, kinds: Sequence[str], opset: int) -> tuple[bytes, Arrays]:
    """A serialised model, and its inputs. For each kind it has a chain of values along the path,
    whose letters stand for them: F for a float32 vector, K for a value of the kind.
    """
    nodes: list[str] = []
    ends: dict[int, list[str]] = {0: [], -1: []}
    arrays: dict[str, np.ndarray] = {}
    for k, kind in enumerate(kinds):
        dtype = DType.FLOAT32 if kind == RANK_0 else DType(kind)
        types = {"F": "float[2]", "K": _typed(dtype.value, (2,))}
        steps = {"FK": f"Cast <to = {dtype.onnx}> (", "KF": "Cast <to = 1> (", "KK": "Identity ("}
        if kind == RANK_0:
            types["K"] = "float"
            steps = {"FK": "ReduceMax <keepdims = 0> (", "KF": "Add (two, ", "KK": "Neg ("}
        names = [f"v{k}_{i}" for i in range(len(path))]
        for (x, y), step in zip(itertools.pairwise(names), map("".join, itertools.pairwise(path))):
            nodes.append(f"{y} = {steps[step]}{x})")
        for i, own in ends.items():
            own.append(f"{types[path[i]]} {names[i]}")
        array = np.ones(2, np.float32 if path[0] == "F" else dtype.numpy)
        arrays[names[0]] = array[0, ...] if types[path[0]] == "float" else array
    weights = "float[2] two = {2, 2}" if any("two" in node for node in nodes) else ""
    inputs, outputs = map(", ".join, ends.values())
    return _parsed(opset, inputs, outputs, " ".join(nodes), weights), arrays


def not_taken(runner: BackendRunner, opset: int) -> tuple[str, ...]:
    """The FEATURES with which the least optimised level does not run a model of an operator or
    two that it runs without; none if it does not run that. A compiler that gets bytes takes models
    with external data as any others. Raises: RunnerError.
    """
    # With every rule: slow to import.
    from nnfuzz.vary.rewrite.rewriting import FEATURES, Step, rewritten

    level = runner.backend.default_levels()[0]

    def runs(model: bytes) -> bool:
        inputs: dict[str, np.ndarray] = {"x": np.ones((3, 3), np.float32), "n": np.ones(1, int)}
        (outcome,) = runner.run(model, inputs, [level])
        return outcome.ok

    nodes = "r = Relu (x) y = Add (r, w) f = Reshape (y, s) m = Add (n, n)"
    inputs, outputs = "float[3, 3] x, int64[1] n", "float[9] f, int64[1] m"
    weights = "float[3, 3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1}, int64[1] s = {9}"
    plain = _parsed(opset, inputs, outputs, nodes, weights)
    if not runs(plain):
        return ()
    models = {name: rewritten(plain, [Step(rule)])[0] for name, rule in FEATURES.items()}
    return tuple(name for name, model in models.items() if not runs(model))
