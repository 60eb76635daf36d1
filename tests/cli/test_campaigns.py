"""Campaigns that end, and that go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.bugs.bug import BugState
from nnfuzz.cli.campaigns import known_occurrences, refuse_finished
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.rows import Occurrence
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered
from tests.attacks import samples
from tests.bugs.conftest import BUG


@pytest.mark.parametrize(
    "summary", [None, "{", "[]", '{"tests": 29}', '{"tests": 9, "not_run": {"export": 20}}']
)
def test_what_was_killed_between_its_last_test_and_its_summary_goes_on(tmp_path, summary):
    folder = samples.campaign(tmp_path / "c")  # of 30 tests
    with Store.open(folder) as store:
        config = CampaignConfig.from_json(store.config())
        if summary is not None:
            (folder / "summary.json").write_text(summary)
        refuse_finished(store, config)
        (folder / "summary.json").write_text('{"tests": 28, "not_run": {"export": 2}}')
        with pytest.raises(ConfigError, match="reached its limit"):
            refuse_finished(store, config)


def test_known_failures_are_counted_by_bug(tmp_path):
    own, gone = BUG.signatures[0], "1" * 12
    with Store.create(tmp_path / "campaign", {"seed": 1}) as store:
        store.sessions.begin()
        for index, (signature, bucket) in enumerate(
            [(own, "known"), (own, "known"), (gone, "known"), ("2" * 12, "known"), (own, "finding")]
        ):
            test = Numbered(1, index)
            store.occurrences.add(Occurrence(signature, test, bucket, "toy crash compile"))
    duplicate = replace(
        BUG, signatures=(gone,), keys=(), state=BugState.DUPLICATE, duplicate_of="numpy/pow"
    )
    bugs = {"numpy/gone": duplicate, "numpy/pow": BUG}
    assert known_occurrences(tmp_path / "campaign", bugs) == {"numpy/pow": 3, "": 1}
