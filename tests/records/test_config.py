from __future__ import annotations

import json
import math

import pytest

from nnfuzz.backend.registry import BackendSpec
from nnfuzz.base.writing import as_json
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.testcase.case import CaseConfig

TOY = BackendSpec("toy", {"timeout": "3"}, ("/some/file.py",))


def config(**more) -> CampaignConfig:
    return CampaignConfig((TOY,), CaseConfig(nodes=5, refused=("A(bool)->bool",)), **more)


def test_json_round_trip():
    original = config(seed=3, levels=("O0",), time_limit=60.0, known=("abc",), workers=2)
    assert CampaignConfig.from_json(json.loads(json.dumps(as_json(original)))) == original


def test_another_schema_is_refused():
    with pytest.raises(ConfigError, match="another version of nnfuzz"):
        CampaignConfig.from_json({**as_json(config()), "schema": 99})


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"backends": ()}, "add --backend"),
        ({"backends": (TOY, TOY)}, "chosen twice"),
        ({"workers": 0}, "from 1 to 1024"),
        ({"full_check": 1.5}, "from 0 to 1"),
    ],
)
def test_bad_settings_name_the_fix(settings, message):
    with pytest.raises(ConfigError, match=message):
        CampaignConfig(**{"backends": (TOY,), **settings})


def test_limits_may_change_on_resume():
    changed = config(tests_limit=5).resumed_with({"tests_limit": 9, "workers": 3, "nodes": 5})
    assert (changed.tests_limit, changed.workers) == (9, 3)
    assert changed.case == config().case


@pytest.mark.parametrize(
    "given, message",
    [
        ({"seed": 4}, "seed 4 contradicts the campaign, which has 0"),
        ({"nodes": 6}, "nodes 6 contradicts the campaign, which has 5"),
        ({"levels": ("O1",)}, "level O1 contradicts"),
        ({"exporters": ("direct", "dynamo")}, "exporter direct dynamo contradicts .* torchsc"),
        ({"backends": (BackendSpec("toy"),)}, "backend toy contradicts .* toy,timeout=3"),
    ],
)
def test_other_options_may_not(given, message):
    with pytest.raises(ConfigError, match=message):
        config().resumed_with(given)


def test_sampling_depends_on_seed_and_index_alone():
    def picked(**more) -> list[int]:
        return list(filter(config(full_check=0.1, **more).sampled, range(20_000)))

    assert 1800 < len(picked()) < 2200
    assert picked() == picked() != picked(seed=1)


def test_the_first_questions_take_a_twentieth_of_the_time():
    assert config(tests_limit=600).first_seconds == math.inf  # no clock decides
    assert config(time_limit=60.0).first_seconds == 3.0 and config().first_seconds == 10.0
