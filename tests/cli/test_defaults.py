"""nnfuzz.toml: defaults for options, checked as the command line is."""

from __future__ import annotations

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.cli.errors import UsageError
from nnfuzz.cli.main import application
from nnfuzz.cli.options import read_defaults
from tests.command import exit_code as command

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
    learn = false
    dtypes = ["bool", "int8"]
    plugin = "mine.py"
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
            "set": ["full-check=1", "learn=false", "dtypes=bool,int8"],
            "plugin": ["mine.py"],
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
        ("[fuzz]\nlearn = 'always'", "[fuzz] learn = 'always': "),
        ("[fuzz]\nbackend = [['a']]", "[fuzz] backend = [['a']]: ['a'] is not a single value"),
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
