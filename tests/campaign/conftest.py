"""What the tests of this room share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.records.config import CampaignConfig


@pytest.fixture
def stubbed(monkeypatch):
    """Has stored campaigns reduced by a stub: which code runs is no matter of their files."""
    stored = CampaignConfig.from_json

    def read(data):
        code = {"service": "stub_reducer:Reducing", "preload": ("numpy", "stub_reducer")}
        return replace(config := stored(data), reducer=replace(config.reducer, **code))

    monkeypatch.setattr(CampaignConfig, "from_json", read)
