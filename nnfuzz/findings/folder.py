"""The finding folder: everything about one failure, of use with and without nnfuzz.

model.onnx    inputs.npz   expected.npz (PyTorch's results)   actual.npz ("LEVEL/OUTPUT")
repro.py      report.md    finding.json   weights.npz (as the graph names them)
External data of the model and the files of plug-ins lie beside these, so that the folder works
wherever it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendSpec, PluginFiles, plugin_files, plugin_name
from nnfuzz.backend.target import Target
from nnfuzz.base.external_data import write_model
from nnfuzz.base.files import atomic_folder, npz_bytes
from nnfuzz.base.reading import Json, Unreadable, read
from nnfuzz.base.untrusted import below, read_bytes, read_embedded, read_json, read_npz
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.localise import Localisation
from nnfuzz.findings.text import (
    from_portable,
    homely,
    impersonal,
    impersonal_json,
    portable,
    trimmed,
)
from nnfuzz.ir.view import GraphView
from nnfuzz.records.finding import Finding, Origin
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import parse_id
from nnfuzz.triage.signature import Failure, Signature
from nnfuzz.vary.faults.fault import Fault

SCHEMA = 3
DATA = ("finding.json", "report.md", "inputs.npz", "weights.npz", "expected.npz", "actual.npz")
INVALID = ("plain.onnx", "plain_inputs.npz")
"""Further files of a finding with an invalid model: the model without its fault."""
REDUCED = "reduced"
"""Name of the folder inside of a finding's that holds the reduced finding."""
MAX_TEXT = 20_000
"""Characters kept of a message, a traceback or captured output: the head and the tail."""
MAX_ACTUAL_BYTES = 64 << 20
SHOWN = 5
"""Findings that are named where a folder of several is taken for one."""


Trust = Callable[[str], str]
"""From a plug-in that a file names, as nnfuzz.backend.registry.plugin_name has it, to the one that
may run in its place: itself, another of its name, or "" for none."""


def nobody(plugin: str) -> str:
    """Trusts no plug-in."""
    return ""


class FindingError(Unreadable):
    """A folder that is no finding, or one of another schema, or damaged."""


@dataclass(frozen=True)
class _Document:
    """The content of finding.json. graph: may be empty. severity: for other programs, it follows
    from the rest.
    """

    schema: int
    signature: Signature
    backend: BackendSpec | None
    label: str
    targets: tuple[Target, ...]
    kind: OutcomeKind
    stage: Stage
    test: str
    exporter: str
    opset: int
    config: Mapping[str, Json]
    versions: Mapping[str, str]
    verdict: Verdict | None
    blame: Blame
    localisation: Mapping[str, Json] | None
    outcomes: tuple[Outcome, ...]
    graph: GraphView
    campaign: Mapping[str, Json]
    variations: tuple[str, ...] = ()
    fault: Fault | None = None
    severity: str = ""


def write_finding(folder: str | Path, finding: Finding, program: str | None = None) -> Path:
    """Writes the folder in one step: it is complete or absent, even after a kill.

    program: source of `def run(model, inputs, level)` for repro.py, see `repro.program_of`. The
    source of plug-ins is copied, see `plugin_files`.
    Raises: FileExistsError if the folder is there already, OSError.
    """
    from nnfuzz.findings.report import tracker_report
    from nnfuzz.findings.repro import repro_script  # these two import jinja2 and onnx

    folder = Path(folder)
    finding, plugins = _written(finding)
    case = finding.case
    with atomic_folder(folder) as made:
        if case.model:
            write_model(case.model, made / "model.onnx")
            if case.plain:
                (made / "plain.onnx").write_bytes(case.plain)
            script = repro_script(finding, program, plugins)
            (made / "repro.py").write_text(script, encoding="utf-8")
        for name in ("inputs", "weights", "expected", *(["plain_inputs"] if case.fault else [])):
            (made / f"{name}.npz").write_bytes(npz_bytes(getattr(case, name)))
        (made / "actual.npz").write_bytes(npz_bytes(_actual(finding)))
        (made / "report.md").write_text(tracker_report(finding), encoding="utf-8")
        for name, source in plugins.files.items():
            (made / name).write_bytes(source)
        text = json.dumps(_to_json(finding), indent=1)
        (made / "finding.json").write_text(text + "\n", encoding="utf-8")
    return folder


def finding_script(finding: Finding, program: str | None) -> str:
    """The text of repro.py as write_finding would write it."""
    from nnfuzz.findings.repro import repro_script

    written, plugins = _written(finding)
    return repro_script(written, program, plugins)


def _written(finding: Finding) -> tuple[Finding, PluginFiles]:
    """The finding as its folder holds it, and the files of its plug-ins."""
    own = finding.backend.plugins if finding.backend else ()
    plugins = plugin_files([*own, *finding.config.get("plugins", ())], ["repro.py"])
    return _impersonal(finding, plugins.names), plugins


def copy_finding(folder: Path, target: Path, trusted: Trust = nobody) -> None:
    """Copies the model, data and report of a finding, and its plug-ins that are trusted, to an
    empty folder. Other files stay: a script would import one that is called numpy.py.

    Raises: FindingError, Unreadable, OSError.
    """
    plugins = _written(read_finding(folder, trusted))[1]
    for name in (*DATA, *INVALID):
        if os.path.lexists(file := below(folder, name)):
            (target / name).write_bytes(read_bytes(file))
    if model := _model(folder, "model.onnx"):
        write_model(model, target / "model.onnx")
    for name, source in plugins.files.items():
        (target / name).write_bytes(source)


def read_finding(folder: str | Path, trusted: Trust = nobody) -> Finding:
    """The inverse of write_finding, but for the plug-ins that the folder names: of these, the
    finding has the trusted ones only. Raises: FindingError.
    """
    return _read(Path(folder), trusted)


def is_finding(folder: Path) -> bool:
    """Whether there is a finding, be it damaged."""
    return (folder / "finding.json").is_file()


def smallest(folder: Path) -> Path:
    """Where the reduced finding in a finding's folder is, or else the finding."""
    reduced = folder / REDUCED
    return reduced if (reduced / "finding.json").is_file() else folder


def _read(folder: Path, trusted: Trust) -> Finding:
    """Raises: FindingError."""
    file = folder / "finding.json"
    if not file.is_file():
        campaign = (folder / "findings").is_dir()
        within = folder / "findings" if campaign else folder
        names = sorted(path.name for path in within.glob("*") if is_finding(path))
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        hint = f"; those of a campaign are in {within}" if campaign else ""
        hint += f"; there are {', '.join(names[:SHOWN])}{more}" if names else ""
        raise FindingError(f"{folder} is not a finding: there is no {file.name} in it{hint}")
    try:
        data = read_json(below(folder, file.name))
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            schema = data.get("schema") if isinstance(data, dict) else None
            raise FindingError(f"{folder} has the schema {schema!r}, this nnfuzz reads {SCHEMA}")
        return _from_document(read(_Document, data), folder, trusted)
    except FindingError:
        raise
    except Unreadable as error:
        raise FindingError(f"{folder} is damaged: {error}") from error


def _to_json(finding: Finding) -> dict[str, object]:
    case, failure = finding.case, finding.failure
    return {
        "schema": SCHEMA,
        "signature": as_json(failure.signature),
        "backend": as_json(finding.backend) if finding.backend else None,
        "label": failure.label,
        "targets": [str(target) for target in failure.targets],
        "kind": failure.kind.value,
        "severity": finding.severity.value,
        "stage": failure.stage.value,
        "test": str(case.id),
        "exporter": case.exporter,
        "opset": case.opset,
        "variations": list(case.variations),
        "config": dict(finding.config),
        "versions": dict(finding.versions),
        "verdict": as_json(finding.verdict) if finding.verdict else None,
        "blame": as_json(finding.blame),
        "localisation": finding.localisation,
        "outcomes": [as_json(outcome) for outcome in finding.outcomes],
        "graph": case.graph.to_json(),
        "campaign": finding.origin.to_json(),
        "fault": as_json(case.fault) if case.fault else None,
    }


def _from_document(data: _Document, folder: Path, trusted: Trust) -> Finding:
    """Raises: Unreadable."""
    if not data.targets:
        raise Unreadable("finding.json names no target that failed")
    failure = Failure(data.signature, data.kind, data.stage, data.targets, data.label)
    if data.localisation is not None:
        read(Localisation, data.localisation)
    backend, config = data.backend, dict(data.config)
    if backend is not None:
        backend = replace(backend, plugins=_trusted(backend.plugins, folder, trusted))
    known = CaseConfig.from_json(config)
    config["plugins"] = list(_trusted(known.plugins, folder, trusted))
    config["seed_models"] = [from_portable(path) for path in known.seed_models]
    return Finding(
        failure,
        _case(data, folder),
        _outcomes(data, failure.backend, folder),
        backend,
        config,
        data.verdict,
        data.versions,
        Origin.from_json(data.campaign),
        data.localisation,
        data.blame,
    )


def _trusted(plugins: Iterable[str], folder: Path, trusted: Trust) -> tuple[str, ...]:
    """The plug-ins to run, where a file beside finding.json goes before any other."""
    named = (_plugin_at(folder, plugin) for plugin in plugins)
    return tuple(dict.fromkeys(filter(None, map(trusted, named))))


def _plugin_at(folder: Path, plugin: str) -> str:
    beside = folder.resolve() / Path(plugin).name
    return str(beside) if beside.is_file() else plugin_name(Path(plugin).expanduser())


def _case(data: _Document, folder: Path) -> TestCase:
    return TestCase(
        id=parse_id(data.test),
        graph=data.graph.checked(),
        model=_model(folder, "model.onnx"),
        inputs=read_npz(below(folder, "inputs.npz")),
        weights=read_npz(below(folder, "weights.npz")),
        expected=read_npz(below(folder, "expected.npz")),
        exporter=data.exporter,
        opset=data.opset,
        fault=data.fault,
        variations=data.variations,
        plain=_model(folder, "plain.onnx"),
        plain_inputs=_arrays(folder, "plain_inputs.npz"),
    )


def _model(folder: Path, name: str) -> bytes:
    """The content of a file of the folder; empty if there is none."""
    file = below(folder, name)
    return read_embedded(file) if os.path.lexists(file) else b""


def _arrays(folder: Path, name: str) -> dict[str, np.ndarray]:
    file = below(folder, name)
    return read_npz(file) if os.path.lexists(file) else {}


def _outcomes(data: _Document, backend: str, folder: Path) -> tuple[Outcome, ...]:
    """The outcomes, those of the failing backend with its outputs."""
    actual: dict[str, dict[str, np.ndarray]] = {}
    for key, array in read_npz(below(folder, "actual.npz")).items():
        level, _, name = key.partition("/")
        actual.setdefault(level, {})[name] = array
    return tuple(
        replace(o, outputs=actual.get(o.level) if o.backend == backend else None)
        for o in data.outcomes
    )


def _actual(finding: Finding) -> dict[str, np.ndarray]:
    """The outputs of the failing backend, by "LEVEL/OUTPUT"; none if they are too large."""
    arrays = {
        f"{outcome.level}/{name}": array
        for outcome in finding.outcomes
        if outcome.backend == finding.failure.backend and outcome.outputs
        for name, array in outcome.outputs.items()
        if not array.dtype.hasobject
    }
    return arrays if sum(a.nbytes for a in arrays.values()) <= MAX_ACTUAL_BYTES else {}


def _impersonal(finding: Finding, plugins: Mapping[str, str]) -> Finding:
    """The finding without long texts and without paths of this machine.

    plugins: their names in the folder.
    """
    backend, config = finding.backend, dict(finding.config)
    names = {plugin: homely(name) for plugin, name in plugins.items()}
    if backend is not None:
        backend = replace(backend, plugins=tuple(names[plugin] for plugin in backend.plugins))
    config["plugins"] = [names[plugin] for plugin in config.get("plugins", ())]
    config["seed_models"] = [portable(path) for path in config.get("seed_models", ())]
    return replace(
        finding,
        outcomes=tuple(_trimmed(outcome) for outcome in finding.outcomes),
        backend=backend,
        config=config,
        origin=Origin.from_json(impersonal_json(finding.origin.to_json())),
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
