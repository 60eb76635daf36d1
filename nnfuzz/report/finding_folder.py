"""The finding folder: everything about one failure, of use with and without nnfuzz.

model.onnx    inputs.npz   expected.npz (PyTorch's results)   actual.npz ("LEVEL/OUTPUT")
repro.py      report.md    finding.json   weights.npz (as the graph names them)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nnfuzz.compare.flip import Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.execute.registry import BackendSpec
from nnfuzz.execute.target import Target
from nnfuzz.report.files import atomic_folder, npz_bytes, read_npz, write_atomically
from nnfuzz.report.finding import Finding
from nnfuzz.report.repro import repro_script
from nnfuzz.report.text import impersonal, impersonal_json, located, portable, trimmed
from nnfuzz.report.tracker import tracker_report
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.test_id import parse_id
from nnfuzz.triage.signature import Failure, Signature

SCHEMA = 3
REDUCED = "reduced"
"""Name of the folder inside of a finding's that holds the reduced finding."""
MAX_TEXT = 20_000
"""Characters kept of a message, a traceback or captured output: the head and the tail."""
MAX_ACTUAL_BYTES = 64 << 20


class FindingError(ValueError):
    """A folder that is no finding, or one of another schema."""


def folder_name(failure: Failure) -> str:
    """A name for the folder of a failure: backend, kind and the signature's hash."""
    backend = re.sub(r"[^\w.-]+", "-", failure.backend)
    return f"{backend}-{failure.kind}-{failure.signature.hash}"


def write_finding(folder: str | Path, finding: Finding, program: str | None = None) -> Path:
    """Writes the folder in one step: it is complete or absent, even after a kill.

    program: source of `def run(model, inputs, level)` for repro.py, see `repro.program_of`.
    Raises: FileExistsError if the folder is there already, OSError.
    """
    folder = Path(folder)
    finding = _impersonal(finding)
    case = finding.case
    with atomic_folder(folder) as made:
        if case.model:
            (made / "model.onnx").write_bytes(case.model)
            (made / "repro.py").write_text(repro_script(finding, program), encoding="utf-8")
        for name in ("inputs", "weights", "expected"):
            (made / f"{name}.npz").write_bytes(npz_bytes(getattr(case, name)))
        (made / "actual.npz").write_bytes(npz_bytes(_actual(finding)))
        (made / "report.md").write_text(tracker_report(finding), encoding="utf-8")
        text = json.dumps(_to_json(finding), indent=1)
        (made / "finding.json").write_text(text + "\n", encoding="utf-8")
    return folder


def read_finding(folder: str | Path) -> Finding:
    """The inverse of write_finding. Raises: FindingError."""
    folder = Path(folder)
    file = folder / "finding.json"
    if not file.is_file():
        within = folder / "findings"
        hint = f"; those of a campaign are in {within}" if within.is_dir() else ""
        raise FindingError(f"{folder} is not a finding: there is no {file.name} in it{hint}")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FindingError(f"{folder} is not a finding: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        schema = data.get("schema") if isinstance(data, dict) else None
        raise FindingError(f"{folder} has the schema {schema!r}, this nnfuzz reads {SCHEMA}")
    try:
        return _from_json(data, folder)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise FindingError(f"{folder} is damaged: {error!r}") from error


def rename_signature(folder: Path, signature: Signature) -> None:
    """Gives the finding in a folder another signature, in its report as well."""
    file, report = folder / "finding.json", folder / "report.md"
    data = json.loads(file.read_text(encoding="utf-8"))
    old = data["signature"]["hash"]
    text = json.dumps({**data, "signature": signature.to_json()}, indent=1) + "\n"
    write_atomically(file, text.encode())
    if report.is_file():
        told = report.read_text(encoding="utf-8").replace(old, signature.hash)
        write_atomically(report, told.encode())


def _to_json(finding: Finding) -> dict[str, Any]:
    case, failure = finding.case, finding.failure
    return {
        "schema": SCHEMA,
        "signature": failure.signature.to_json(),
        "backend": finding.backend.to_json() if finding.backend else None,
        "label": failure.label,
        "targets": [str(target) for target in failure.targets],
        "kind": failure.kind.value,
        "stage": failure.stage.value,
        "test": str(case.id),
        "exporter": case.exporter,
        "opset": case.opset,
        "config": dict(finding.config),
        "versions": dict(finding.versions),
        "verdict": finding.verdict.to_json() if finding.verdict else None,
        "blame": finding.blame.to_json(),
        "localisation": finding.localisation,
        "outcomes": [outcome.to_json() for outcome in finding.outcomes],
        "graph": case.graph,
        "campaign": dict(finding.campaign),
    }


def _from_json(data: Mapping[str, Any], folder: Path) -> Finding:
    actual: dict[str, dict[str, np.ndarray]] = {}
    for key, array in read_npz(folder / "actual.npz").items():
        level, _, name = key.partition("/")
        actual.setdefault(level, {})[name] = array
    model = folder / "model.onnx"
    failure = Failure(
        Signature.from_json(data["signature"]),
        OutcomeKind(data["kind"]),
        Stage(data["stage"]),
        tuple(Target.parse(text) for text in data["targets"]),
        data["label"],
    )
    case = TestCase(
        id=parse_id(data["test"]),
        graph=data["graph"],
        model=model.read_bytes() if model.exists() else b"",
        inputs=read_npz(folder / "inputs.npz"),
        weights=read_npz(folder / "weights.npz"),
        expected=read_npz(folder / "expected.npz"),
        exporter=data["exporter"],
        opset=data["opset"],
    )
    told = [Outcome.from_json(o) for o in data["outcomes"]]
    outcomes = [
        replace(o, outputs=actual.get(o.level)) if o.backend == failure.backend else o for o in told
    ]
    backend = BackendSpec.from_json(data["backend"]) if data["backend"] else None
    if backend is not None:
        backend = replace(backend, plugins=tuple(map(located, backend.plugins)))
    config = dict(data["config"])
    for files in ("plugins", "seed_models"):
        config[files] = [located(path) for path in config.get(files, ())]
    return Finding(
        failure,
        case,
        tuple(outcomes),
        backend,
        config,
        Verdict.from_json(data["verdict"]) if data["verdict"] else None,
        data["versions"],
        data["campaign"],
        data.get("localisation"),
        Blame.from_json(data["blame"]),
    )


def _actual(finding: Finding) -> dict[str, np.ndarray]:
    """What the failing backend returned, by "LEVEL/OUTPUT"; nothing if it is too much."""
    arrays = {
        f"{outcome.level}/{name}": array
        for outcome in finding.outcomes
        if outcome.backend == finding.failure.backend and outcome.outputs
        for name, array in outcome.outputs.items()
        if not array.dtype.hasobject
    }
    return arrays if sum(a.nbytes for a in arrays.values()) <= MAX_ACTUAL_BYTES else {}


def _impersonal(finding: Finding) -> Finding:
    """The finding without long texts and without paths of this machine."""
    backend, config = finding.backend, dict(finding.config)
    if backend is not None:
        backend = replace(backend, plugins=tuple(map(portable, backend.plugins)))
    for files in ("plugins", "seed_models"):
        config[files] = [portable(path) for path in config.get(files, ())]
    return replace(
        finding,
        outcomes=tuple(_trimmed(outcome) for outcome in finding.outcomes),
        backend=backend,
        config=config,
        campaign=impersonal_json(finding.campaign),
        localisation=impersonal_json(finding.localisation),
    )


def _trimmed(outcome: Outcome) -> Outcome:
    def short(text: str) -> str:
        return impersonal(trimmed(text, MAX_TEXT))

    return replace(
        outcome,
        message=short(outcome.message),
        traceback=short(outcome.traceback),
        captured=short(outcome.captured),
    )
