"""Options and settings, which are derived from the records that declare them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest
import typer

from nnfuzz.cli.errors import UsageError
from nnfuzz.cli.main import application
from nnfuzz.cli.options import settable, values_of
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.settings import SETTINGS, SessionSettings
from nnfuzz.testcase.case import CaseConfig
from tests.command import nnfuzz

FUZZ = typer.main.get_command(application()).commands["fuzz"]
MOST = 17
"""Options that `nnfuzz fuzz --help` may list beside --help."""


def test_help_lists_few_options_and_every_setting_is_one_or_stands_in_set():
    assert len(FUZZ.params) <= MOST and not any(param.hidden for param in FUZZ.params)
    options = {name.removeprefix("--") for param in FUZZ.params for name in param.opts}
    assert options & {*SETTINGS} == {*SETTINGS} - {*settable(FUZZ)}


def test_every_setting_is_a_field():
    records = (CampaignConfig, CaseConfig, SessionSettings)
    known = {each.name for record in records for each in fields(record)}
    assert {each.field for each in SETTINGS.values()} - known == {"exclude_dtypes"}


def test_settings_are_read_where_they_are_declared():
    texts = ["epoch=32", "learn=no", "level=O0,O3", "probe=0", "exclude-dtypes=bool, int8"]
    assert values_of(FUZZ, [*texts, "epoch=64"]) == {
        "epoch": 64,
        "learn": False,
        "levels": ("O0", "O3"),
        "probe": False,
        "exclude_dtypes": ("bool", "int8"),
    }


@pytest.mark.parametrize(
    "text, message",
    [
        ("epock=3", "there is no setting 'epock'; did you mean 'epoch'?"),
        ("epoch", "epoch needs a value: --set epoch=N"),
        ("nodes=3", "nodes is an option: --nodes"),
        ("epoch=3", "'3' is not a whole number of at least 16"),
        ("full-check=nan", "a share from 0 to 1"),
        ("learn=perhaps", "'perhaps' is not yes or no"),
    ],
)
def test_mistakes_name_the_fix(text, message):
    with pytest.raises(UsageError) as error:
        values_of(FUZZ, [text])
    assert message in str(error.value)


def test_a_setting_that_is_taken_for_an_option():
    done = nnfuzz("fuzz", "--dtypes", "float32")
    assert done.returncode == 2 and "dtypes is a setting: --set dtypes=A,B" in done.stderr


def test_all_settings_are_listed_with_their_meanings():
    command = [sys.executable, "-m", "nnfuzz", "settings"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name, declared in settable(FUZZ).items():
        assert f"  {name}=" in done.stdout
        assert declared.help.split()[0] in done.stdout
