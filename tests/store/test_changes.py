"""Of two releases, only what one gets right and the other one wrong is a finding."""

from __future__ import annotations

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.cli.reports import summary_text
from nnfuzz.findings.folder import REDUCED, read_finding
from nnfuzz.records.config import CampaignConfig, ConfigError, ReducerSettings
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import CaseConfig
from tests.backend.releases import ADAPTER, make_index, use_index


def settings(registry, *backends, **more):
    case = CaseConfig(
        nodes=3,
        exporter="direct",
        opset=18,
        operators=("Add", "Neg", "Cos"),
        dtypes={"float32": 1},
    )
    return CampaignConfig(
        backends=tuple(map(registry.parse, backends)),
        case=case,
        tests_limit=12,
        probe=False,
        throttle=0,
        regressions=True,
        reducer=ReducerSettings(grace=120.0),
        **more,
    )


@pytest.mark.parametrize("backends", [["toyrel@1.0"], ["toyrel@1.0", "onnxruntime"]])
def test_two_releases_of_one_compiler_are_compared(backends):
    registry = BackendRegistry.discover([ADAPTER])
    with pytest.raises(ConfigError, match="two releases of one compiler"):
        settings(registry, *backends)


@pytest.mark.slow
def test_only_changes_are_findings(tmp_path, monkeypatch):
    make_index(tmp_path / "wheels")
    use_index(monkeypatch, tmp_path / "wheels", tmp_path)
    registry = BackendRegistry.discover([ADAPTER])
    config = settings(registry, "toyrel@1.0", "toyrel@2.0", seed=1)
    with Store.create(tmp_path / "c", as_json(config)) as store:
        result = run_campaign(store, config, registry, Silent(), tmp_path / "s")
    changed = result.summary.regressions
    assert {row.backend for row in result.findings} == {"toyrel@1.0"}
    assert {row.kind for row in result.findings} == {"mismatch"}  # nobody takes the cosine
    assert (changed.older, changed.newer, changed.regressions) == ("1.0", "2.0", ())
    assert changed.fixed == tuple(row.signature for row in result.findings)
    assert changed.unchanged > 0
    assert result.summary.not_reduced == {}
    row = next(row for row in result.findings if row.nodes)
    for folder in (result.folder / row.folder, result.folder / row.folder / REDUCED):
        finding = read_finding(folder)
        assert finding.origin.right_in == "2.0"
        assert finding.backend.release == "1.0"
        report = (folder / "report.md").read_text()
        assert "toyrel 2.0 does well with this model at the same levels." in report
    told = f"(right in 1.0, wrong in 2.0), {len(result.findings)} fixed (the other way round);"
    assert f"0 regressions {told}" in summary_text(result, config)
