"""The files of docs/WATCH.md: settings, a unit of systemd, a compose file."""

import configparser
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from nnfuzz.cli.main import application

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "WATCH.md").read_text()
FILES = dict(re.findall(r"<!-- file: examples/(\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_those_of_the_page(name):
    assert (ROOT / "examples" / name).read_text() == FILES[name]


def understood(arguments):
    """Raises: an error of the command line if it does not know a command or an option."""
    group = typer.main.get_command(application())
    command = group.commands[arguments[0]]
    context = command.context_class(command, info_name="nnfuzz")
    _, rest, _ = command.make_parser(context).parse_args(arguments[1:])
    assert not rest


def test_the_unit_starts_a_watch_and_leaves_it_time_to_end():
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string(FILES["watch/nnfuzz-watch.service"])
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/bin/nnfuzz")
    understood(arguments)
    assert int(unit["Service"]["TimeoutStopSec"]) >= 600, "a script may take so long"
    assert unit["Service"]["WorkingDirectory"] == unit["Service"]["ReadWritePaths"]
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_compose_file_serves_what_the_watch_publishes():
    services = yaml.safe_load(FILES["watch/compose.yaml"])["services"]
    understood(shlex.split(services["watch"]["command"]))
    dockerfile = (ROOT / "Dockerfile").read_text()
    (workdir,) = re.findall(r"^WORKDIR (\S+)$", dockerfile, re.MULTILINE)
    assert services["watch"]["volumes"] == [f"./:{workdir}"]
    assert services["dashboard"]["volumes"][0].startswith("./site:")
    assert 'publish = "site"' in FILES["watch/nnfuzz.toml"]
