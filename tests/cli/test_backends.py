"""`nnfuzz backends` and `nnfuzz ops`: tables, releases, environments."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from nnfuzz.backend.releases import known_release
from nnfuzz.cli.commands import backends
from nnfuzz.cli.commands.ops import HEADINGS, operator_facts
from nnfuzz.operators.registry import OpRegistry
from tests.cli.test_command_line import HOSTILE
from tests.command import nnfuzz


def test_all_backends_are_listed_without_a_compiler():
    code = (
        "import resource, sys\n"
        "from nnfuzz.cli.main import application\n"
        "try: application()(['backends'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'onnx', 'onnxruntime', 'tvm', 'openvino'} & {*sys.modules}\n"
        "whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)\n"
        "print(sum(sum(resource.getrusage(who)[:2]) for who in whose))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    *lines, seconds = done.stdout.splitlines()
    assert float(seconds) < 2
    titles = [line for line in lines if not line.startswith(" ")]
    assert titles[0].startswith("installed (*") and titles[1].startswith("installed exporters")
    row = next(line.split() for line in lines if line.split()[0] == "onnxruntime")
    options = ["provider=cpu"]
    assert row[1:] == [version("onnxruntime"), "O0*", "O1", "O2", "O3*", "default", *options]
    assert sum(line.strip().startswith("memory=") for line in lines) == 1


def test_one_that_cannot_be_used_comes_after_all_others(tmp_path):
    absent = tmp_path / "absent.py"
    absent.write_text(
        "from nnfuzz.backend.contract import Backend\n"
        "class Absent(Backend):\n"
        "    name, levels, preload = 'absent', ('O0',), ('no_such_compiler',)\n"
        "    versions = load = build = None\n"
    )
    lines = nnfuzz("backends", "--plugin", absent).stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names.index("absent:") > lines.index("not here:") > names.index("tvm")


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_backend_that_is_named_is_shown_in_full_and_started_for_a_check(check):
    done = nnfuzz("backends", *check, "hostile,timeout=7", "--plugin", HOSTILE)
    assert done.returncode == 0, done.stderr
    first, source, levels, *options = done.stdout.splitlines()
    reported = first.removeprefix("hostile,timeout=7: hostile").strip()
    assert bool(reported) is bool(check) and str(HOSTILE) in source
    assert "O0" in levels and any(line.strip().startswith("timeout=") for line in options)


def test_the_release_of_a_named_backend_comes_from_metadata():
    done = nnfuzz("backends", "onnxruntime")
    assert done.stdout.startswith(f"onnxruntime: onnxruntime {version('onnxruntime')}\n")


def test_a_check_needs_a_name():
    done = nnfuzz("backends", "--check")
    assert done.returncode == 2 and "nnfuzz backends --check tvm" in done.stderr


def test_a_wrong_name_is_refused_with_a_suggestion():
    done = nnfuzz("backends", "tmv")
    assert done.returncode == 2 and "did you mean 'tvm'" in done.stderr and not done.stdout


@pytest.mark.parametrize(
    "distribution, preload, release",
    [
        ("onnx", ("numpy.linalg",), "numpy"),  # an optimiser's own library, not its runtime's
        ("onnx", (), "onnx"),
        ("no-such-thing", ("yaml",), "PyYAML"),  # found by what packages say they provide
        ("", ("no_such_thing",), ""),
    ],
)
def test_releases_are_known_from_metadata(distribution, preload, release):
    backend = SimpleNamespace(distribution=distribution, preload=preload)
    assert known_release(backend) == (version(release) if release else "")


def test_environments_are_listed(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "nnfuzz" / "environments" / "toyrel" / "1.0-abcd" / "bin" / "python"
    file.mkdir(parents=True)
    (file.parents[2] / "2.0-abcd.part").mkdir()
    backends._print_environments()
    shown = capsys.readouterr().out
    assert f"toyrel 1.0: {file.parents[1]}" in shown and "2.0" not in shown


def test_facts_tell_types_and_ranks():
    facts = operator_facts(OpRegistry.load().select(["Where", "MatMul", "Cast"]).specs())
    found = {each.cells[0]: dict(zip(HEADINGS, each.cells)) for each in facts}
    assert list(found) == ["Cast", "MatMul", "Where"]
    assert found["Where"]["dtypes"].startswith("bool; ")
    assert "->" in found["Cast"]["dtypes"]
