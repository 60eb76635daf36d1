"""One cause of one compiler is one finding, under however many labels the compiler runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.records.config import CampaignConfig, ReducerSettings
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import CaseConfig

PLUGIN = Path(__file__).parents[1] / "reduction" / "planted.py"
LABELS = ("planted,timeout=20", "planted,timeout=30")


@pytest.mark.slow
def test_a_cause_on_two_labels_is_one_finding(tmp_path):
    registry = BackendRegistry.discover([PLUGIN])
    operators = ("Add", "Mul", "Neg", "Abs")
    config = CampaignConfig(
        backends=tuple(map(registry.parse, LABELS)),
        case=CaseConfig(nodes=4, exporter="direct", operators=operators, dtypes={"float32": 1}),
        seed=1,
        tests_limit=12,
        probe=False,
        throttle=0,
        reducer=ReducerSettings(grace=120.0),
    )
    with Store.create(tmp_path / "c", as_json(config)) as store:
        result = run_campaign(store, config, registry, Silent(), tmp_path / "s")
        raw = store.signatures.rows()
    assert {row.backend for row in raw} == set(LABELS)
    (row,) = result.findings
    assert row.backends == LABELS and row.compiler == "planted"
    assert result.summary.signatures[0]["backends"] == list(LABELS)
