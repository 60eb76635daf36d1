"""The table [watch] of nnfuzz.toml."""

from pathlib import Path

import pytest
import typer

from nnfuzz.cli.errors import UsageError
from nnfuzz.cli.main import application
from nnfuzz.cli.watch_settings import read_watch
from nnfuzz.watch.settings import Channel
from tests.command import nnfuzz

EXAMPLE = Path(__file__).parents[2] / "examples" / "watch" / "nnfuzz.toml"
GROUP = typer.main.get_command(application())


def test_the_example_is_read_with_its_defaults():
    found = read_watch(EXAMPLE, GROUP)
    first, second, mine = found.systems.values()
    assert (first.channel, first.time, first.tests) == (Channel.PRERELEASES, 3600.0, 0)
    assert (second.channel, second.time, second.tests) == (Channel.INDEX, 0.0, 2000)
    assert (mine.channel, mine.backend, mine.bisect) == (Channel.WHEELS, "tvm,timeout=60", False)
    assert found.pause == 60.0 and found.fuzz == {"nodes": 8}
    assert found.publish == Path("site") and found.ledger == Path("bugs")


def test_what_fuzz_says_counts_but_for_the_limits(tmp_path):
    file = tmp_path / "nnfuzz.toml"
    file.write_text(
        '[watch.systems.tvm]\n[fuzz]\ntime = "4h"\nseed = 7\nlevel = "O0"\n'
        f'seed-models = "{tmp_path}"\ndtypes = ["int8"]\n'
    )
    found = read_watch(file, GROUP)
    assert found.fuzz == {"levels": ("O0",), "seed_models": tmp_path, "dtypes": ("int8",)}
    assert found.systems["tvm"].time == 3600.0


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "has no table"),
        ("[watch]\n", "there is nothing to watch"),
        ("[watch]\nlegder = 'x'\n", r"\[watch\] has no 'legder'; did you mean 'ledger'"),
        ("[watch.systems]\ntvm = 1\n", "a system is a table"),
        ("[watch.systems.tvm]\nchannel = 'pypi'\n", "'pypi' is none of index, prereleases"),
        ("[watch.systems.tvm]\nbild = 'x'\n", r"\[watch.systems.tvm\] has no 'bild'"),
        ("[watch.systems.tvm]\ntime = 5\n", "write 90s"),
        ("[watch.systems.tvm]\ntime = 'soon'\n", "is no duration"),
        ("[watch.systems.tvm]\nbuild = 'x'\n", "build needs wheels"),
        ("[watch.systems.tvm]\n[fuzz]\nnods = 3\n", "has no option 'nods'"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_place(tmp_path, text, message):
    file = tmp_path / "nnfuzz.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_watch(file, GROUP)


def test_other_commands_leave_the_table_alone(tmp_path, monkeypatch):
    (tmp_path / "nnfuzz.toml").write_text(EXAMPLE.read_text())
    done = nnfuzz("bugs", "list", cwd=tmp_path)
    assert "there is no ledger" in done.stderr
