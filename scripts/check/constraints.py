"""Lists the constraints of specs that refuse what ONNX admits, with their reasons.

Random single nodes are drawn (scripts/check/legal_nodes.py). Those that ONNX's checker, its strict
shape inference and a runtime accept are legal, and are imported; a legal node that does not become
an instance of a spec is refused. Refusals are grouped by the condition that refuses: a line of a
`requires`, a pattern of inputs, or the message of `nnfuzz.materialize.instances`. The reason of a
line is the comment above it. Exits with 1 if a line of a `requires` without a reason refuses at
least --tolerated legal nodes on which two runtimes agree.

    python -m scripts.check.constraints
    python -m scripts.check.constraints --only Pool --nodes 3000 -v
"""

from __future__ import annotations

import os
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import numpy as np
import onnx
import torch
import typer
from rich.progress import track

from nnfuzz.materialize.facts import MAX_NUMEL
from nnfuzz.materialize.importing import import_onnx
from nnfuzz.materialize.instances import refusals
from nnfuzz.materialize.static import OnnxImportError, static
from nnfuzz.operators.foreign import Foreign
from nnfuzz.operators.operator import ConstraintError
from nnfuzz.operators.registry import OpRegistry
from scripts.check.legal_nodes import LegalNode, beginnings, changed

A = TypeVar("A")
ROOT = Path(__file__).parents[2]
SECONDS = 90
"""Of a runtime for one node."""
Outputs = list[np.ndarray] | None


@dataclass
class Group:
    """Refused legal nodes of one operator for one reason.

    refusal: the line of a condition, or a message. reason: of the condition; "" if none is given.
    agreed: how many of them two runtimes compute with the same result.
    """

    operator: str
    refusal: str
    reason: str
    count: int = 0
    agreed: int = 0
    example: str = ""

    @property
    def condition(self) -> bool:
        """Whether a line of a `requires` refuses."""
        return ".py: `" in self.refusal


@dataclass
class Tally:
    """legal, admitted: nodes by operator. crashed: nodes on which a runtime died."""

    legal: Counter[str] = field(default_factory=Counter)
    admitted: Counter[str] = field(default_factory=Counter)
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    crashed: list[str] = field(default_factory=list)


# -- runtimes ---------------------------------------------------------------------------------


def run_both(model: bytes, inputs: dict[str, np.ndarray]) -> tuple[bool, bool]:
    """Whether ONNX Runtime or onnx.reference computes a model, and whether the results agree."""
    ours, theirs = _by_onnxruntime(model, inputs), _by_reference(model, inputs)
    alike = ours is not None and theirs is not None and len(ours) == len(theirs)
    alike = alike and all(map(_close, ours or (), theirs or ()))
    return ours is not None or theirs is not None, alike


def _by_onnxruntime(model: bytes, inputs: dict[str, np.ndarray]) -> Outputs:
    from nnfuzz.backends.onnxruntime import OnnxRuntime

    try:
        backend = OnnxRuntime()
        imported = backend.import_model(model)
        found = backend.compile(imported, "O0")(inputs)
        return [found[name] for name in imported.outputs]
    except Exception:
        return None


def _by_reference(model: bytes, inputs: dict[str, np.ndarray]) -> Outputs:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, inputs)
        return [np.asarray(a) for a in found]
    except Exception:
        return None


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(np.allclose(x, y, rtol=0.02, atol=0.01, equal_nan=True))


# -- import -----------------------------------------------------------------------------------


def refusal(node: LegalNode, model: onnx.ModelProto, registry: OpRegistry) -> Exception | None:
    """Why a node does not become an instance of a spec; None if it does."""
    if any(_becomes_an_instance(node, model, registry, given) for given in ({}, node.given)):
        return None
    try:
        source = static(model, node.opset, node.given, MAX_NUMEL)
    except OnnxImportError as error:
        return error
    specs = [s for s in registry.specs() if node.kind in s.name and s.since <= node.opset]
    specs.sort(key=lambda s: s.name != node.kind)
    groups = source.regions[:1]
    found = [e for spec in specs for group in groups for e in refusals(source, group, spec)]
    return min(found, key=_telling, default=OnnxImportError("no spec"))


def _becomes_an_instance(
    node: LegalNode, model: onnx.ModelProto, registry: OpRegistry, given: dict[str, np.ndarray]
) -> bool:
    with suppress(OnnxImportError):
        imported = import_onnx(model, registry, node.opset, given)
        return any(not issubclass(type(n.op), Foreign) for n in imported.graph.nodes)
    return False


def _telling(error: Exception) -> int:
    """How little an error says of the cause."""
    if isinstance(error, ConstraintError):
        return 0 if error.place else 1
    return 2 if type(error).__name__ == "Unmatched" else 3


def explained(error: Exception) -> tuple[str, str]:
    """The refusal, which is the line of the source if a condition refuses, and the reason there."""
    if isinstance(error, ConstraintError) and error.place:
        name, line = error.place
        lines = Path(name).read_text(encoding="utf-8").splitlines()
        place = Path(name).resolve().relative_to(ROOT)
        return f"{place}: `{lines[line - 1].strip()}`", _comment(lines, line - 1)
    text = str(error)
    if isinstance(error, ConstraintError):
        found = re.search(r"input \d+ may not (be \w+|have rank \d+)|takes .* inputs", text)
        return found[0] if found else text, ""
    if isinstance(error, OnnxImportError) or type(error).__name__ == "Unmatched":
        return re.sub(r"\b[xy]\d+\b", "a value", text)[:100], ""
    return f"its attributes are not read ({type(error).__name__})", ""


def _comment(lines: list[str], at: int) -> str:
    """The comment on a line or directly above it; above its `if` or `for`."""
    beside = re.search(r"#\s(.*)$", lines[at])
    if beside:
        return beside[1]
    found: list[str] = []
    above = at - 1
    while re.match(r"\s*(if|for|elif|else)\b.*:$", lines[above]):
        above -= 1
    while lines[above].strip().startswith("#"):
        found.insert(0, lines[above].strip().lstrip("# "))
        above -= 1
    return " ".join(found)


# -- in a process of its own --------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """How a legal node fared: the refusal ("" if it is admitted), its reason, and whether two
    runtimes agree on the node."""

    refusal: str
    reason: str
    agreed: bool


def asked(node: LegalNode) -> Answer | None:
    """None if the node is not legal. Raises: whatever onnx raises."""
    model = node.model()
    runs, agreed = run_both(model.SerializeToString(), node.given)
    if not runs:
        return None
    error = refusal(node, model, OPERATORS[0])
    return Answer(*(explained(error) if error else ("", "")), agreed)


OPERATORS: list[OpRegistry] = []
"""Those of a process that answers."""


def _start() -> None:
    """ONNX Runtime prints every error that it raises."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    OPERATORS.append(OpRegistry.load())


class Process(Generic[A]):
    """A question about nodes, in a process that may die, as onnx and runtimes let it."""

    def __init__(self, question: Callable[[LegalNode], A]) -> None:
        self._question, self._pool = question, self._fresh()

    @staticmethod
    def _fresh() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"), _start)

    def __call__(self, node: LegalNode) -> A:
        """Raises: BrokenProcessPool if the process died, TimeoutError, or as the question does."""
        try:
            return self._pool.submit(self._question, node).result(SECONDS)
        except (BrokenProcessPool, TimeoutError):
            for process in self._pool._processes.values():
                process.kill()  # it may never come to an end
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._fresh()
            raise

    def close(self) -> None:
        self._pool.shutdown()


# -- all of it --------------------------------------------------------------------------------


def measured(begin: list[LegalNode], nodes: int, rng: random.Random) -> Tally:
    """Draws `nodes` changed nodes of each operator, asks, and groups what is refused."""
    tally, process = Tally(), Process(asked)
    kinds: dict[str, list[LegalNode]] = {}
    for node in begin:
        kinds.setdefault(node.kind, []).append(node)
    for kind in track(sorted(kinds), "ask"):
        for node in _drawn(kinds[kind], nodes, rng):
            try:
                _count(tally, node, process(node))
            except (BrokenProcessPool, TimeoutError):
                tally.crashed.append(_text(node))
            except Exception:  # onnx's reasons why it is not legal
                continue
    process.close()
    return tally


def _drawn(begin: list[LegalNode], nodes: int, rng: random.Random) -> Iterator[LegalNode]:
    for _ in range(nodes):
        with suppress(LookupError, ValueError, OverflowError):  # nothing to change; a bad dtype
            node = changed(rng.choice(begin), rng)
            if node.given:
                yield node


def _count(tally: Tally, node: LegalNode, answer: Answer | None) -> None:
    if answer is None:
        return
    tally.legal[node.kind] += 1
    if not answer.refusal:
        tally.admitted[node.kind] += 1
        return
    key = node.kind, answer.refusal
    group = tally.groups.setdefault(key, Group(*key, answer.reason))
    group.count += 1
    group.agreed += answer.agreed
    if not group.example or (answer.agreed and group.agreed == 1):
        group.example = _text(node)


def _text(node: LegalNode) -> str:
    inputs = [
        "-" if a is None else f"{a.tolist()}" if held else f"{a.dtype}{list(a.shape)}"
        for a, held in zip(node.inputs, node.constant, strict=True)
    ]
    given = {k: v.decode() if isinstance(v, bytes) else v for k, v in node.attributes.items()}
    settings = [f"{k}={v}" for k, v in given.items() if not isinstance(v, onnx.TensorProto)]
    text = f"{node.kind}-{node.opset}({', '.join([*inputs, *settings])})"
    return text[:220] + ("" if all(node.outputs) else f" -> {node.outputs}")


def main(
    only: Annotated[str, typer.Option(help="Part of the names of operators.")] = "",
    nodes: Annotated[int, typer.Option(help="Attempts per operator.")] = 400,
    draws: Annotated[int, typer.Option(help="Lowerings of each spec to begin with.")] = 12,
    seed: int = 0,
    tolerated: Annotated[int, typer.Option(help="Refusals without a reason.")] = 3,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All groups.")] = False,
) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng = random.Random(seed)
    specs = OpRegistry.load().specs()
    begin = [n for n in beginnings(specs, rng, draws) if only in n.kind]
    tally = measured(begin, nodes, rng)
    open_ = report(tally, tolerated, verbose)
    raise typer.Exit(bool(open_))


def report(tally: Tally, tolerated: int, verbose: bool) -> int:
    """Prints all groups, and returns how many of them lack a reason."""
    groups = sorted(tally.groups.values(), key=lambda g: (-g.agreed, -g.count))
    for g in groups:
        if g.agreed or verbose:
            print(f"{g.operator}: {g.refusal}: {g.count} legal, {g.agreed} agreed; {g.reason}")
            print(f"    {g.example}")
    for text in tally.crashed:
        print("a runtime died or hung:", text)
    legal, admitted = tally.legal.total(), tally.admitted.total()
    sure = [g for g in groups if g.agreed]
    conditions = [g for g in sure if g.condition]
    open_ = sum(not g.reason and g.agreed >= tolerated for g in conditions)
    print(f"{legal} legal nodes of {len(tally.legal)} operators,", end=" ")
    print(f"{admitted / max(1, legal):.1%} admitted;")
    print(f"{len(groups)} groups of refusals, two runtimes agree on {len(sure)},", end=" ")
    print(f"of which {len(conditions)} are conditions ({open_} of them without a reason)")
    return open_


if __name__ == "__main__":
    typer.run(main)
