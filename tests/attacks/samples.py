"""A finding, a corpus and a campaign, made in milliseconds, for attacks on files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnfuzz.backend.outcome import Brief, Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Element, Mismatch, MismatchKind, Verdict
from nnfuzz.corpus.layout import write_test
from nnfuzz.findings.folder import write_finding
from nnfuzz.ir.features import features
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.finding import Finding
from nnfuzz.records.rows import FindingRow, Occurrence, ReductionRow, TestRow
from nnfuzz.store.database import dumps
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.signature import failures
from tests.corpus.by_hand import GRAPH, S, W, X, case

RIGHT = Target("onnxruntime", "1.0", pipeline="O0", form="direct")
WRONG = Target("onnxruntime", "1.0", pipeline="O3", form="direct")


def finding(plugins: tuple[str, ...] = (), backend: str = "onnxruntime") -> Finding:
    """ONNX Runtime is wrong at O3. plugins: what the finding says that it needs."""
    found = (X + S) * W
    worst = Element((1,), 3.0, 4.0, 2.9, 3.1, 10.0)
    wrong = Mismatch("y", MismatchKind.VALUE, wrong=1, share=1 / 3, worst=worst)
    verdict = Verdict({RIGHT: (), WRONG: (wrong,)}, {"y": 1.0})
    outcomes = (
        Outcome(OutcomeKind.OK, Stage.EXECUTE, RIGHT, outputs={"y": found}),
        Outcome(OutcomeKind.OK, Stage.EXECUTE, WRONG, outputs={"y": found + np.float32(1)}),
    )
    (failure,) = failures(outcomes, verdict, GRAPH)
    config = as_json(CaseConfig(plugins=plugins))
    spec = BackendSpec(backend, {}, plugins)
    return Finding(failure, case(), outcomes, spec, config, verdict, {"onnxruntime": "1.0"})


def finding_folder(folder: Path, **more: object) -> Path:
    return write_finding(folder, finding(**more), "def run(model, inputs, level):\n    pass\n")


def corpus(folder: Path) -> Path:
    folder.mkdir()
    write_test(folder, case())
    return folder


def campaign(folder: Path, where: str = "findings/one", plugins: tuple[str, ...] = ()) -> Path:
    """A campaign of 30 tests with one reduced finding. where: what its file says of the folder."""
    spec = BackendRegistry.discover().spec("onnxruntime")
    config = CampaignConfig((BackendSpec(spec.name, {}, plugins),), seed=9, tests_limit=30)
    found = finding()
    row = FindingRow(
        found.signature.hash, Numbered(9, 1), "mismatch", "compare", "onnxruntime", "O3", "wrong y",
        where, compiler="onnxruntime",
    )  # fmt: skip
    with Store.create(folder, as_json(config)) as store:
        store.sessions.begin()
        store.set_meta("versions", {"onnxruntime": "1.0"})
        store.restraints.set_epoch(0, {"Add(bool)"}, {"Add(bool)": "onnxruntime: no"})
        for index in range(30):
            levels = {
                "O0": Brief("ok"),
                "O3": Brief("exception", message="no") if index else Brief("ok"),
            }
            test = TestRow(
                index, "run", 0, {"onnxruntime": levels}, {"execute": 0.25},
                features=dumps(as_json(features(GRAPH))), digest="d" * 16, exporter="direct",
                items=("Add", "Mul"),
            )  # fmt: skip
            seen = (Occurrence(row.signature, Numbered(9, 1)),) if index == 1 else ()
            store.record(test, (row,) if index == 1 else (), seen)
        store.reductions.add(
            ReductionRow(row.signature, "refined", "y is wrong", "Add", GRAPH, 4, 2)
        )
    finding_folder(folder / "findings" / "one")
    return folder
