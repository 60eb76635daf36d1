"""Attacks by randomly changed answers of workers, read as the parent reads them, without processes.

A refusal is an exception, for which the sandbox ends the worker. An accepted answer is used as a
campaign uses it, which must not fail.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from nnfuzz.backend.complaint import Complaint
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import _outcome, read_outcome
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read, read_fields
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import Vocabulary
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Accuracy, Distance, Element, Mismatch, MismatchKind, Verdict
from nnfuzz.experiment.judgement import blamed, comparable_share, doubtful, with_mismatches
from nnfuzz.feedback.support import signature_keys
from nnfuzz.ir.edges import edge_keys
from nnfuzz.ir.features import features
from nnfuzz.ir.view import GraphView
from nnfuzz.reduction.slot import _prepared
from nnfuzz.sandbox import wire
from nnfuzz.sandbox.events import Death, DeathKind, Fault
from nnfuzz.sandbox.worker import StatusPage
from nnfuzz.store.recorder import briefs
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.service import judge_job, produced_as, read_case
from nnfuzz.triage.refine import pattern_of
from nnfuzz.triage.signature import export_failure, failures
from nnfuzz.upkeep.reducing import _read as read_reduction
from scripts.torment.attack import Attack, Surface
from scripts.torment.attack.mutations import mutated, scrambled

JSON_GRAPH = {
    "schema": 1,
    "values": [
        ["x", "float32", [4]],
        ["w", "bfloat16", []],
        ["y", "float32", [4]],
        ["h", "float32", [4]],
    ],
    "nodes": [
        {"op": "Relu", "attributes": {"axis": 1}, "inputs": ["x"], "outputs": ["h"]},
        {"op": "Add", "attributes": {}, "inputs": ["h", "w"], "outputs": ["y"]},
    ],
    "inputs": ["x"],
    "weights": ["w"],
    "outputs": ["y"],
    "prescribed": {"w": [0.0, 1.0]},
}
GRAPH = GraphView.from_json(JSON_GRAPH)
TEST = Numbered(1, 7)
X = np.arange(4, dtype=np.float32)
CASE = TestCase(
    TEST, GRAPH, b"model", {"x": X}, {"w": np.array(1, ml_dtypes.bfloat16)}, {"y": X},
    seconds={"generate": 0.1}, motifs=("gelu",), generated_for="torchscript",
)  # fmt: skip
TARGET = Target("toy", "1.0", pipeline="O1")
GOOD = Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, seconds={"execute": 0.1})
BAD = Outcome(
    OutcomeKind.EXCEPTION, Stage.COMPILE, TARGET, "pkg.Error", "no kernel for Add_7",
    'File "a.py", line 3', complaint=Complaint(subject="no kernel", others=(("one", "a.cc"),)),
)  # fmt: skip
WRONG = Mismatch("y", MismatchKind.VALUE, wrong=2, share=0.5, worst=Element((1,), 1.0, "nan"))
VERDICT = Verdict(
    {PYTORCH: (), TARGET: (WRONG,)},
    {"y": 1.0},
    accuracy={TARGET: {"y": Accuracy(1.0, {TARGET: Distance(2.0, 1.0, None)})}},
)


@dataclass(frozen=True)
class Answer:
    """A kind of answer. use: uses the answer as a campaign does."""

    header: dict[str, Any]
    blobs: dict[str, Any]
    reading: Callable[[dict[str, Any], dict[str, Any]], Any]
    use: Callable[[Any], object] = lambda value: None


def _storable(value: Any) -> None:
    json.dumps(value, default=vars).encode()


def use_outcome(outcome: Outcome) -> None:
    _storable(briefs([outcome]))
    _storable(as_json(outcome))
    for failure in failures([outcome], None, GRAPH):
        _storable([failure.signature.title, failure.signature.hash, failure.signature.parts])
        blamed([outcome], None, failure)
    doubtful(CASE, [outcome])


def use_produced(made: TestCase | NotProduced) -> None:
    made.digest()
    if made.graph:
        features(made.graph)
        edge_keys(made.graph)
        pattern_of(made.graph)
        signature_keys(made.graph, {"Relu": [0], "Add": [0, 1]})
        _storable(made.graph.to_json())
    if isinstance(made, NotProduced):
        export_failure(made.generated_for, made.error_type, made.message, made.traceback)
        _storable(as_json(made))
    else:
        wire.encode(*made.to_frame())
        doubtful(made, [Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, outputs={"y": X})])
        failures([BAD], None, made.graph)


def use_verdict(verdict: Verdict) -> None:
    str(verdict)
    _storable(as_json(verdict))
    ran = [Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, outputs={"y": X})]
    outcomes = with_mismatches(ran, verdict)
    comparable_share(verdict, CASE.expected)
    for failure in failures(outcomes, verdict, GRAPH):
        _storable([failure.signature.title, failure.signature.parts])
        blamed(outcomes, verdict, failure)


def read_fault(header: dict[str, Any], blobs: dict[str, Any]) -> Fault:
    """Reads a fault as the sandbox does."""
    texts = read_fields(Fault, header, "error_type", "message", "traceback")
    return Fault(**texts, captured="", starting=False)


def answers() -> list[Answer]:
    header, blobs = CASE.to_frame()
    failed = as_json(NotProduced(TEST, "export", "cannot", "E", "trace", graph=GRAPH))
    ran = Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, outputs={"y": X})
    judged = judge_job(CASE, [ran])[2]
    reduction = {"refined": "ab", "title": "t", "graph": JSON_GRAPH, "before": 3, "keys": ["k"]}
    candidate = {"digest": "d", "measure": [1, 2], "case": header, "failed": None}
    outcome = partial(read_outcome, told=lambda release: Target("toy", release, pipeline="O1"))
    vocabulary = {"signatures": {"direct": ["Add(int8)->int8"]}, "variables": {"Add": [0]}}
    return [
        Answer(as_json(GOOD), {"output/y": X}, outcome, use_outcome),
        Answer(as_json(BAD), {}, outcome, use_outcome),
        Answer({"case": header}, blobs, produced_as(TEST), use_produced),
        Answer({"failed": failed}, {}, produced_as(TEST), use_produced),
        Answer({"case": header}, blobs, read_case, use_produced),
        Answer({"verdict": as_json(VERDICT)}, {}, judged, use_verdict),
        Answer(reduction, {}, read_reduction, lambda row: _storable(as_json(row))),
        Answer(candidate, blobs, _prepared),
        Answer(vocabulary, {}, lambda h, b: read(Vocabulary, h)),
        Answer({"error_type": "E", "message": "m", "traceback": "t"}, {}, read_fault, _storable),
    ]  # fmt: skip


@contextmanager
def frames() -> Iterator[Attack]:
    kinds = answers()
    for kind in kinds:  # unchanged, all of them are taken
        kind.use(kind.reading(*wire.decode(wire.encode(kind.header, kind.blobs))))

    def attack(rng: random.Random) -> str:
        kind = rng.choice(kinds)
        try:
            header = mutated(kind.header, rng) if rng.random() < 0.7 else kind.header
            frame = wire.encode(header, kind.blobs)
        except (RecursionError, wire.WireError):
            return ""  # no frame can hold it
        if header is kind.header or rng.random() < 0.3:
            frame = scrambled(frame, rng)
        try:
            value = kind.reading(*wire.decode(frame))
        except Exception:
            return ""  # the sandbox ends the worker
        kind.use(value)
        return ""

    yield attack


@contextmanager
def pages() -> Iterator[Attack]:
    import os

    fd = os.memfd_create("page")
    page = StatusPage(fd)

    def attack(rng: random.Random) -> str:
        page._map[:] = rng.randbytes(StatusPage.SIZE)
        if rng.random() < 0.5:
            page._map[9:14] = rng.choice((b"\2  ..", b"\0....", b"\4run ", b"\3\xff\xfe\0."))
        death = Death(rng.choice([*DeathKind]), page.stage, "SIGABRT", None, "", 0.1)
        outcome = _outcome(death)
        use_outcome(Outcome(**{**vars(outcome), "target": TARGET}))
        return "" if isinstance(page.out_of_memory, bool) and page.job >= 0 else "unreadable"

    yield attack
    page.close()
    os.close(fd)


SURFACES = (
    Surface("frames", 80, frames, "answers of workers, as bytes and as JSON"),
    Surface("pages", 10, pages, "status pages of workers"),
)
