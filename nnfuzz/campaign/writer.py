"""From a campaign's evidence to a finding folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import JsonObject
from nnfuzz.base.writing import as_json
from nnfuzz.findings.folder import write_finding
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.finding import Finding, Origin
from nnfuzz.store.evidence import Evidence
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.triage.signature import Failure


def finding_writer(
    config: CampaignConfig,
    registry: BackendRegistry,
    versions: Mapping[str, Mapping[str, str]],
    restraints_in: Callable[[int], JsonObject],
) -> Callable[[Path, Failure, Evidence], None]:
    """A function that writes the folder of a failure.

    versions: of the compilers by backend. restraints_in: the settings of an epoch;
    with them the configuration in the folder, with the one exporter that the test case was for,
    makes the same test case again.
    """
    specs = {spec.label: spec for spec in config.backends}
    changes = config.regressions

    def write(folder: Path, failure: Failure, evidence: Evidence) -> None:
        made = _made(evidence)
        own = replace(config.case, **restraints_in(evidence.epoch)).only(made.generated_for)
        case = made if isinstance(made, TestCase) else _case_without_model(own, made)
        spec = specs.get(failure.backend)
        finding = Finding(
            failure=failure,
            case=case,
            outcomes=evidence.outcomes,
            backend=spec,
            config=as_json(own),
            verdict=evidence.verdict,
            blame=evidence.blame(failure),
            versions=dict(versions.get(failure.backend, {})),
            origin=Origin(evidence.epoch, evidence.right_release(failure) if changes else ""),
        )
        from nnfuzz.findings.reduced import repro_program

        write_finding(folder, finding, repro_program(finding, registry))

    return write


def _made(evidence: Evidence) -> TestCase | NotProduced:
    made = evidence.made
    assert made is not None
    return made


def _case_without_model(config: CaseConfig, failed: NotProduced) -> TestCase:
    """The parts of a test case whose export failed."""
    return TestCase(failed.id, failed.graph, b"", {}, {}, {}, config.exporter, config.opset)
