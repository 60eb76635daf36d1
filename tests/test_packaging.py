"""What is installed from a wheel is what stands in the checkout; so is a package of plug-ins."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACES = {"nnfuzz": "nnfuzz", "opspecs": "nnfuzz/opspecs", "backends": "nnfuzz/backends"}
UNSHIPPED = (
    ".git",
    ".venv",
    "__pycache__",
    "*.egg-info",
    "build",
    "dist",
    "site",
    "htmlcov",
    "nnfuzz-out",
)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """(source distribution, wheel made of it) of a copy of the checkout."""
    pytest.importorskip("build")
    made = tmp_path_factory.mktemp("made")
    copy = made / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*UNSHIPPED, ".*_cache"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", made, copy]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(made.glob("*.tar.gz")), next(made.glob("*.whl"))


def installed() -> set[str]:
    """Where every file of the packages belongs in a wheel."""
    return {
        f"{place}/{file.relative_to(ROOT / top)}"
        for top, place in PLACES.items()
        for file in (ROOT / top).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_packages(distributions):
    held = {
        name for name in zipfile.ZipFile(distributions[1]).namelist() if ".dist-info" not in name
    }
    assert held == installed()
    assert {"nnfuzz/py.typed", "nnfuzz/opspecs/motifs/__init__.py"} <= held


@pytest.mark.slow
def test_the_wheel_tells_licence_and_entry_points(distributions):
    wheel = zipfile.ZipFile(distributions[1])
    (metadata,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    text = wheel.read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text and "Author: The nnfuzz developers" in text
    points = wheel.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    assert "nnfuzz.opspecs" in points and "nnfuzz.__main__:main" in points
    assert wheel.read(metadata.replace("METADATA", "licenses/LICENSE"))


@pytest.mark.slow
def test_the_source_distribution_can_test_itself(distributions):
    with tarfile.open(distributions[0]) as archive:
        held = {Path(name).relative_to(Path(name).parts[0]) for name in archive.getnames()}
    for needed in ("LICENSE", "setup.py", "docs/graph.svg", "scripts/test", ".ci/run"):
        assert Path(needed) in held, needed
    tests = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")}
    assert tests <= held


# The sample package of plug-ins is installed in an environment of its own, found, and keeps the.


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
