"""The options of nnfuzz fuzz."""

from __future__ import annotations

from dataclasses import fields

from nnfuzz.cli.declared import expert_settings, recorded, recorded_places
from nnfuzz.cli.fuzz_options import FuzzOptions
from nnfuzz.records.config import CampaignConfig
from nnfuzz.testcase.case import CaseConfig
from tests.cli.test_declared import FUZZ

MOST = 27
"""Options that `nnfuzz fuzz --help` may list."""


def test_help_lists_few_options():
    shown = [p for p in FUZZ.params if not p.hidden]
    assert len(shown) <= MOST
    assert len(shown) + len(expert_settings(FUZZ)) == len(fields(FuzzOptions))


def test_every_recorded_option_is_a_setting_of_a_campaign():
    known = {f.name for config in (CampaignConfig, CaseConfig) for f in fields(config)}
    names = {where.name or name for name, where in recorded_places(FuzzOptions)}
    assert names - known == {"exclude_dtypes"}  # becomes a part of `dtypes`


def test_what_is_recorded_is_read_where_it_is_declared():
    options = FuzzOptions(time="2m", level=["O0,O3"], probe="0", junit=None)
    wanted = {"levels": ("O0", "O3"), "time_limit": 120.0, "probe_seconds": 0.0}
    assert recorded(options) == wanted
    assert recorded(FuzzOptions()) == {}
