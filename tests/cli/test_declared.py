"""Options that are declared once, and the settings among them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest
import typer

from nnfuzz.cli.declared import places, recorded, settings
from nnfuzz.cli.fuzz_options import FuzzOptions
from nnfuzz.cli.main import application
from nnfuzz.records.config import CampaignConfig
from nnfuzz.testcase.case import CaseConfig

FUZZ = typer.main.get_command(application()).commands["fuzz"]
MOST = 28
"""Options that `nnfuzz fuzz --help` may list."""


def parsed(*arguments):
    context = FUZZ.context_class(FUZZ, info_name="fuzz", resilient_parsing=False)
    given, rest, _ = FUZZ.make_parser(context).parse_args([str(a) for a in arguments])
    assert not rest
    return given


def test_help_lists_few_options():
    shown = [p for p in FUZZ.params if not p.hidden]
    assert len(shown) <= MOST
    assert len(shown) + len(settings(FUZZ)) == len(fields(FuzzOptions))


def test_every_recorded_option_is_a_setting_of_a_campaign():
    known = {f.name for config in (CampaignConfig, CaseConfig) for f in fields(config)}
    names = {where.name or name for name, where in places(FuzzOptions)}
    assert names - known == {"exclude_dtypes"}  # becomes a part of `dtypes`


def test_a_setting_is_what_its_option_was():
    assert parsed("--set", "epoch=32") == {**parsed("--epoch", 32), "set": ["epoch=32"]}
    assert parsed("--set", "learn=no")["learn"] == "no"
    assert parsed("--set=exclude-dtypes=bool,int8")["exclude_dtypes"] == ["bool,int8"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("epock=3", "there is no setting 'epock'; did you mean 'epoch'?"),
        ("epoch", "epoch needs a value: --set epoch=..."),
        ("nodes=3", "nodes is an option: --nodes"),
        ("epoch=3", "16"),
        ("learn=perhaps", "valid boolean"),
    ],
)
def test_mistakes_name_the_fix(text, message):
    with pytest.raises(typer.BadParameter) as error:
        parsed("--set", text)
    assert message in error.value.message


def test_an_old_spelling_works_with_a_note(capsys):
    assert parsed("--no-learn", "--probe", "0") == {"learn": False, "probe": "0"}
    said = capsys.readouterr().err
    assert "--learn is a setting now, --set learn=no" in said
    assert "--probe is a setting now, --set probe=0" in said
    parsed("--set", "probe=0", "--nodes", "3")
    assert capsys.readouterr().err == ""


def test_what_is_recorded_is_read_where_it_is_declared():
    options = FuzzOptions(time="2m", level=["O0,O3"], disk="2k", probe="0", junit=None)
    wanted = {"levels": ("O0", "O3"), "time_limit": 120.0, "disk": 2000, "probe_seconds": 0.0}
    assert recorded(options) == wanted
    assert recorded(FuzzOptions()) == {}


def test_all_settings_are_listed_with_their_meanings():
    command = [sys.executable, "-m", "nnfuzz", "settings"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name, param in settings(FUZZ).items():
        assert f"  {name}=" in done.stdout
        assert param.help.split()[0] in done.stdout
