"""Options that are declared once, and the settings among them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from nnfuzz.cli.declared import expert_settings
from nnfuzz.cli.main import application

FUZZ = typer.main.get_command(application()).commands["fuzz"]


def parsed(*arguments):
    context = FUZZ.context_class(FUZZ, info_name="fuzz", resilient_parsing=False)
    given, rest, _ = FUZZ.make_parser(context).parse_args([str(a) for a in arguments])
    assert not rest
    return given


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


def test_all_settings_are_listed_with_their_meanings():
    command = [sys.executable, "-m", "nnfuzz", "settings"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name, param in expert_settings(FUZZ).items():
        assert f"  {name}=" in done.stdout
        assert param.help.split()[0] in done.stdout
