"""From a campaign's evidence to a finding folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.recorder import Evidence
from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.report.finding import Finding, write_finding
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.triage.signature import Failure

Describe = Callable[[str], str | None]


def finding_writer(
    config: CampaignConfig,
    registry: BackendRegistry,
    versions: Mapping[str, Mapping[str, str]],
    restraints_in: Callable[[int], dict[str, list[str]]],
) -> Callable[[Path, Failure, Evidence], None]:
    """A function that writes the folder of a failure.

    versions: of the compilers by backend. restraints_in: what was refused and avoided in an epoch;
    with them the configuration in the folder makes the same test case again.
    """
    specs = {spec.name: spec for spec in config.backends}

    def write(folder: Path, failure: Failure, evidence: Evidence) -> None:
        case = evidence.case or _case_without_model(config, evidence.failed)
        spec = specs.get(failure.backend)
        finding = Finding(
            failure=failure,
            case=case,
            outcomes=tuple(evidence.outcomes),
            backend=spec,
            config={**config.case.to_json(), **restraints_in(evidence.epoch)},
            verdict=evidence.verdict,
            versions=dict(versions.get(failure.backend, {})),
            campaign=_campaign(evidence),
        )
        write_finding(folder, finding, _program(registry, spec, case) if spec else None)

    return write


def _campaign(evidence: Evidence) -> dict[str, Any]:
    return {"epoch": evidence.epoch, "origin": dict(evidence.job)}


def _program(registry: BackendRegistry, spec: BackendSpec, case: TestCase) -> str | None:
    from nnfuzz.report.repro import program_of

    return program_of(spec, registry, case)


def _case_without_model(config: CampaignConfig, failed: NotProduced | None) -> TestCase:
    """What there is of a test case whose export failed."""
    assert failed is not None
    case = config.case
    return TestCase(
        config.seed, failed.index, failed.graph or {}, b"", {}, {}, {}, case.exporter, case.opset
    )
