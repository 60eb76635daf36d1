"""Options, their values and defaults, help in groups, and pipes that nobody reads to the end."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.setting import DURATION
from nnfuzz.base.writing import as_json
from nnfuzz.cli.errors import UsageError, listed, spoken
from nnfuzz.cli.main import application
from nnfuzz.cli.options import OTHERS, PART, read_defaults, settable, values_of
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.settings import SETTINGS, SessionSettings
from nnfuzz.testcase.case import CaseConfig
from tests.command import exit_code as command
from tests.command import nnfuzz

FUZZ = application().commands["fuzz"]
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
    texts = ["epoch=32", "level=O0,O3", "probe=0", "exclude-dtypes=bool, int8"]
    assert values_of(FUZZ, [*texts, "epoch=64"]) == {
        "epoch": 64,
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
        ("probe=perhaps", "'perhaps' is not yes or no"),
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


@pytest.mark.parametrize(
    "kind, text, value",
    [
        (DURATION, "90s", 90),
        (DURATION, "4h", 14400),
        (DURATION, "1h30m", 5400),
        (DURATION, "0.5m", 30),
    ],
)
def test_values(kind, text, value):
    assert kind.read(text) == value


@pytest.mark.parametrize(
    "kind, texts, message",
    [
        (DURATION, ["", "h", "5", "4 parsecs", "-3s", "0s", "1h-2m"], "write 90s, 10m, 4h or"),
        (PART, ["", "3", "01/2", "0/3", "4/3", "1/0", "a/b", "1/2/3"], "write 2/8"),
    ],
)
def test_bad_values(kind, texts, message):
    for text in texts:
        with pytest.raises(ValueError, match=message):
            kind.read(text)


def test_spoken_durations():
    assert [spoken(s) for s in (9.4, 185, 3725)] == ["9s", "3m05s", "1h02m"]


def test_lists_may_be_repeated_or_have_commas():
    assert listed(["Add,Mul", " Conv "]) == ("Add", "Mul", "Conv")
    assert listed(None) == ()


GROUP = application()


def read(tmp_path, text):
    file = tmp_path / "nnfuzz.toml"
    file.write_text(text)
    return read_defaults(GROUP, file)


def test_tables_become_parameters_of_commands(tmp_path):
    text = """
    [fuzz]
    backend = ["tvm", "onnxruntime"]
    operators = "Add,Mul"
    time = "10m"
    full_check = 1
    probe = false
    dtypes = ["bool", "int8"]
    [ops]
    backend = "tvm"
    [ops.check]
    seed = 3
    """
    assert read(tmp_path, text) == {
        "fuzz": {
            "backend": ["tvm", "onnxruntime"],
            "operators": ["Add,Mul"],
            "time": "10m",
            "set": ["full-check=1", "probe=false", "dtypes=bool,int8"],
        },
        "ops": {"backend": ["tvm"], "check": {"seed": 3}},
    }


def test_without_a_file_there_are_no_defaults(tmp_path):
    assert read_defaults(GROUP, tmp_path / "nnfuzz.toml") == {}


@pytest.mark.parametrize(
    "text, message",
    [
        ("[fuz]", "there is no command 'fuz'; did you mean 'fuzz'?"),
        ("nodes = 3", "'nodes' stands in no table: put it under [fuzz]"),
        ("hmpf = 3", "there is no command 'hmpf'; known: backends, bisect"),
        ("fuzz = 3", "fuzz is a command and needs a table: [fuzz]"),
        ("[fuzz", "is damaged: TOMLDecodeError"),
        (f"a = {'[' * 5000}", "is damaged: RecursionError"),
        ("[fuzz]\nbackned = 'x'", "[fuzz] has no option 'backned'; did you mean 'backend'?"),
        ("[fuzz]\nset = 'epoch=64'", "[fuzz] has no option 'set'"),
        ("[fuzz]\nhelp = true", "[fuzz] has no option 'help'"),
        ("[ops.check]\nsede = 1", "[ops.check] has no option 'sede'; did you mean 'seed'?"),
        ("[replay]\nfinding = 'x'", "[replay] has no option 'finding'"),
        ("[fuzz]\nnodes = 'ten'", "[fuzz] nodes = 'ten': "),
        ("[fuzz]\nnodes = 0", "[fuzz] nodes = 0: "),
        ("[fuzz]\ndynamic = 2.5", "[fuzz] dynamic = 2.5: "),
        ("[fuzz]\nprobe = 'always'", "[fuzz] probe = 'always': "),
        ("[fuzz]\nbackend = [['a']]", "[fuzz] backend = [['a']]: ['a'] is not a single value"),
        ("[fuzz]\nplugin = 'a.py'", "a program runs if the command names it: --plugin a.py"),
        ("[bugs.check]\npython = './p'", "a program runs if the command names it: --python ./p"),
        ("[fuzz]\nout = ['a']", "[fuzz] out = ['a']: ['a'] is not a single value"),
    ],
)
def test_mistakes_name_the_file_the_key_and_the_fix(tmp_path, text, message):
    with pytest.raises((UsageError, Unreadable)) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'nnfuzz.toml'}")
    assert message in str(error.value)


def test_the_command_line_wins_and_a_line_says_what_was_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nnfuzz.toml").write_text("[fuzz]\nbackend = 'nothing'\nfull-check = 0.5\n")
    assert command("fuzz") == 2
    told = capsys.readouterr().err
    assert "defaults from nnfuzz.toml: backend, full-check\n" in told
    assert "there is no backend 'nothing'" in told
    assert command("fuzz", "--backend", "nobody") == 2
    assert "there is no backend 'nobody'" in capsys.readouterr().err
    assert command("fuzz", "--help") == 0  # whatever stands in the file
    assert "defaults from" not in capsys.readouterr().err


def test_a_campaign_that_goes_on_keeps_its_own_settings(tmp_path, monkeypatch, capsys):
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.store.store import Store

    monkeypatch.chdir(tmp_path)
    spec = BackendRegistry.discover().spec("onnxruntime")
    config = CampaignConfig((spec,), seed=5, time_limit=0.0)
    Store.create(tmp_path / "camp", as_json(config)).close()
    (tmp_path / "camp" / "summary.json").write_text('{"tests": 0, "not_run": {}}')
    (tmp_path / "nnfuzz.toml").write_text(
        "[fuzz]\nbackend = 'tvm'\nseed = 6\nnodes = 3\ntime = '4h'\nout = 'camp'\n"
    )
    assert command("fuzz", "--resume") == 2
    assert "has reached its limit" in capsys.readouterr().err
    assert command("fuzz", "--resume", "--seed", 6) == 2
    assert "seed 6 contradicts" in capsys.readouterr().err


FEW = 6
"""Options up to which a command needs no groups."""
NNFUZZ = f"{sys.executable} -m nnfuzz.cli.main"


def commands(group, prefix=""):
    for name, own in group.commands.items():
        yield f"{prefix}{name}", own
        yield from commands(own, f"{name} ") if hasattr(own, "commands") else ()


COMMANDS = dict(commands(application()))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_large_command_stands_under_a_heading(name):
    options = [p for p in COMMANDS[name].params if p.param_type_name == "option"]
    assert all(len(p.help or "") > 20 for p in options)
    if len(options) > FEW:
        alone = [p.name for p in options if p.rich_help_panel in (None, OTHERS.title)]
        assert len(alone) <= 1, alone


def test_help_of_fuzz_is_in_order():
    done = subprocess.run(f"{NNFUZZ} fuzz --help", shell=True, capture_output=True, text=True)
    headings = [line for line in done.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [
        "What is tested:",
        "How much, and where to:",
        "What models are made of:",
        "How models are written:",
        "What is reported:",
        "Options:",
    ]


@pytest.mark.parametrize("arguments", ["ops", "fuzz --help"])
def test_a_pipe_that_is_closed_early_is_no_error(arguments):
    shell = f"set -o pipefail; {NNFUZZ} {arguments} | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_an_error_keeps_its_exit_code_when_nobody_listens():
    shell = f"set -o pipefail; {NNFUZZ} replay /no/such/folder 2>&1 | true"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
