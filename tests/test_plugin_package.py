"""The sample package of plug-ins is installed in an environment of its own, found, and keeps the
contracts; what it plants is found.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "examples" / "plugin_package"
MOST_LINES = {"backend.py": 50, "operators.py": 10, "optimiser.py": 15}
CONTRACTS = """
from nnfuzz.backend.conformance import check_backend
from nnfuzz.ir.dtypes import DType

fates = check_backend("toyc")
assert all(fates[dtype.value] == "ok" for dtype in DType), fates
assert check_backend("pruned")["add"] == "ok"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs Python in the environment; it sees the packages of this one, and nothing is fetched."""
    home = tmp_path_factory.mktemp("environment")
    shutil.copytree(PACKAGE, home / "package")
    venv.create(home / "venv", symlinks=True)
    python = home / "venv" / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home / "venv")}))
    lines = [f"import site; site.addsitedir({path!r})" for path in sys.path if "-packages" in path]
    (site / "shared.pth").write_text("\n".join(lines) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    offline = ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *offline, home / "package"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    def running(*command: str) -> subprocess.CompletedProcess[str]:
        how = {"cwd": home, "capture_output": True, "text": True, "timeout": 300}
        return subprocess.run([python, *command], **how)

    return running


def test_it_is_as_short_as_the_docs_say():
    for name, most in MOST_LINES.items():
        lines = (PACKAGE / "nnfuzz_toyc" / name).read_text().splitlines()
        assert sum(bool(line.strip()) for line in lines) <= most, name


@pytest.mark.slow
def test_its_plugins_keep_their_contracts(run):
    done = run("-c", CONTRACTS)
    assert done.returncode == 0, done.stderr
    checked = run("-m", "nnfuzz", "ops", "check", "Gudermann", "--instances", "3")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_a_campaign_finds_what_it_gets_wrong(run):
    what = ["--operators", "Min,Neg", "--nodes", "1", "--tests", "8", "--seed", "1"]
    done = run("-m", "nnfuzz", "fuzz", "-b", "toyc", *what, "--out", "campaign")
    assert done.returncode == 1, done.stdout + done.stderr
    home = Path(done.args[0]).parents[2]
    summary = json.loads((home / "campaign" / "summary.json").read_text())
    assert [finding["pattern"].split()[0] for finding in summary["signatures"]] == ["Min"]
    (script,) = (home / "campaign").glob("findings/*/reduced/repro.py")
    shown = run(str(script))
    assert shown.returncode == 1 and "expected" in shown.stdout, shown.stderr
