"""Campaigns that end, and that go on."""

from __future__ import annotations

import pytest

from nnfuzz.library.campaign import Campaign, Request, refuse_finished
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.store.store import Store
from tests.attacks import samples


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


def test_what_goes_on_has_a_folder():
    with pytest.raises(ConfigError, match="needs --out DIR"):
        Campaign.resume(Request(), lambda plugins: None)
