"""Options, errors and exit codes, as a user meets them."""

from __future__ import annotations

import errno
import io
import json
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import RunnerError
from nnfuzz.base.writing import as_json
from nnfuzz.cli.commands.fuzz import exit_code, nothing_ran
from nnfuzz.cli.errors import FAULT, FINDINGS, OK, USAGE, UsageError
from nnfuzz.cli.main import run
from nnfuzz.cli.progress import Lines, line, panel
from nnfuzz.cli.values import duration, listed, spoken
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import CampaignSnapshot, counted
from nnfuzz.store.store import FILE, Store
from nnfuzz.store.summary import Summary, SuspectedHang
from nnfuzz.testcase.identity import Numbered
from tests.command import nnfuzz

HOSTILE = Path(__file__).parent.parent / "backend" / "hostile.py"


@pytest.mark.parametrize(
    "text, seconds", [("90s", 90), ("4h", 14400), ("1h30m", 5400), ("0.5m", 30)]
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "4 parsecs", "-3s", "0s", "1h-2m"])
def test_bad_durations(text):
    with pytest.raises(UsageError, match="write 90s, 10m, 4h or 1h30m"):
        duration(text)


def test_a_duration_has_a_unit():
    with pytest.raises(UsageError, match="--time '5' lacks a unit: write 5s, 5m or 5h"):
        duration("5")


def test_spoken_durations():
    assert [spoken(s) for s in (9.4, 185, 3725)] == ["9s", "3m05s", "1h02m"]


def test_lists_may_be_repeated_or_have_commas():
    assert listed(["Add,Mul", " Conv "]) == ("Add", "Mul", "Conv")
    assert listed(None) == ()


@pytest.mark.parametrize("arguments", [["--help"], ["fuzz", "--help"]])
def test_help_answers_at_once_and_imports_nothing_heavy(arguments):
    code = (
        "import sys; sys.argv[1:] = sys.argv[1:]\n"
        "from nnfuzz.cli.main import application\n"
        "try: application()()\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'torch', 'onnx', 'z3', 'rich'} & set(sys.modules)"
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert "nnfuzz fuzz" in done.stdout
    assert time.monotonic() - start < 10


def test_the_parent_of_a_campaign_works_without_torch():
    rooms = "campaign.session, nnfuzz.library.settings, nnfuzz.library.campaign, nnfuzz.cli.summary"
    code = f"import sys; sys.modules['torch'] = None; import nnfuzz.{rooms}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--operators", "Cnv"), "unknown operator 'Cnv'; did you mean Conv"),
        (("--exporter", "onnx"), "unknown exporter 'onnx'; known: torchscript"),
        (("--exporter", "torchscrip"), "exporter 'torchscrip'; did you mean 'torchscript'? known"),
        (("--set", "opset=99"), "onnxruntime takes opsets up to 26, not 99"),
        (("--set", "opset=10"), "exporter direct reaches the opsets"),
        (
            ("--exporter", "torchscript", "--set", "opset=25"),
            "exporter torchscript reaches the opsets",
        ),
    ],
)
def test_what_no_model_can_be_made_of_leaves_no_campaign_behind(tmp_path, arguments, message):
    out = tmp_path / "out"
    done = nnfuzz("fuzz", "-b", "onnxruntime", "--out", out, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "Add --backend NAME; installed: "),
        (("-b", "tmv"), "did you mean 'tvm'"),
        (("-b", "onnxruntime,provdier=cpu"), "has no option 'provdier'"),
        (("-b", "onnxruntime", "--level", "O9"), "has no level 'O9'; did you mean 'O3'"),
        (("-b", "onnxruntime", "--time", "soon"), "write 90s, 10m"),
        (("-b", "onnxruntime", "--time", ""), "--time '' is no duration"),
        (("-b", "onnxruntime", "--set", "probe=-1"), "--set probe '-1' is no duration"),
        (
            ("-b", "onnxruntime", "--known", "/no/such/file"),
            "--known /no/such/file cannot be read: No such file or directory: name a finding",
        ),
        (("-b", "onnxruntime", "--nodes", "100000"), "Invalid value for '--nodes'"),
        (
            ("-b", "onnxruntime", "--set", "engine=mutant"),
            "no engine 'mutant'; did you mean 'mutate'",
        ),
        (
            ("-b", "onnxruntime", "--set", "exclude-dtypes=f32"),
            "there is no dtype 'f32'; there are",
        ),
        (
            ("-b", "onnxruntime", "--dtypes", "bool", "--set", "exclude-dtypes=bool"),
            "no dtype is left",
        ),
        (("-b", "onnxruntime", "--plugin", "/no/such/file.py"), "no such file"),
        (("-b", "onnxruntime", "--out", __file__), "test_command_line.py is not a folder"),
        (("-b", "onnxruntime", "--out", "/proc/none"), "/proc/none cannot be written: No such"),
        (("--resume",), "--resume needs --out"),
        (("--resume", "--out", "/no/such/folder"), "holds no campaign"),
        (("-b", "onnxruntime", "--tests", "many"), "Invalid value"),
    ],
)
def test_wrong_usage_is_told_with_its_fix(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = nnfuzz("fuzz", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def full_database():
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA max_page_count = 1")
    database.execute("CREATE TABLE t (x)")


def full_disk():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fails", [full_database, full_disk])
def test_a_full_disk_is_no_fault_of_nnfuzz(fails, capsys):
    with pytest.raises(SystemExit) as end:
        run(fails)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("error: the disk is full: free some space")


def test_a_missing_device_is_told_without_the_name_of_a_class(capsys):
    def fails():
        raise RunnerError("backend toy: nnfuzz.backend.contract.BackendUnavailable: no device here")

    with pytest.raises(SystemExit) as end:
        run(fails)
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: backend toy: no device here\n"


def test_a_campaign_is_neither_overwritten_nor_resumed_differently(tmp_path):

    spec = BackendRegistry.discover([HOSTILE]).spec("hostile")
    config = CampaignConfig((spec,), seed=5, tests_limit=3)
    Store.create(tmp_path, as_json(config)).close()
    before = (tmp_path / FILE).read_bytes()
    again = nnfuzz("fuzz", "-b", "onnxruntime", "--out", tmp_path, "--tests", 1)
    assert again.returncode == 2 and "add --resume" in again.stderr
    other = nnfuzz("fuzz", "--out", tmp_path, "--resume", "--seed", 6, "--plugin", HOSTILE)
    assert other.returncode == 2 and "--seed 6 contradicts" in other.stderr
    assert (tmp_path / FILE).read_bytes() == before


def test_the_version_and_the_package_as_a_program():
    command = [sys.executable, "-m", "nnfuzz", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"nnfuzz {version('nnfuzz')}\n"


def test_one_is_no_plural():
    assert [counted(n, "test") for n in (0, 1, 2)] == ["0 tests", "1 test", "2 tests"]


def test_progress_in_plain_lines():
    stream = io.StringIO()
    lines = Lines(stream, every=3600)
    state = CampaignSnapshot(
        "fuzzing", 75.0, 30.0, 9, 8, 2.5, {"ok": 15, "crash": 1}, 1, 2, 0, 0, 0.5, 20
    )
    lines.update(state)
    assert stream.getvalue() == ""
    lines.note("something")
    Lines(stream, every=0).update(state)
    assert stream.getvalue().splitlines() == [
        "note: something",
        "[1m15s, 30s left] fuzzing: 8 tests, 2.5/s, ok 15 crash 1, 1 finding (2 times), "
        "50% of the time in compilers",
    ]


HANG = SuspectedHang(Numbered(1, 19), "toy", "O0", "compile", 30.0)


@pytest.mark.parametrize(
    "summary, interrupted, code, why",
    [
        (Summary(), False, USAGE, "the time was over before the first one"),
        (Summary(), True, USAGE, "interrupted before the first one ended"),
        (Summary(not_run={"export": 3}), False, USAGE, "no index gave a model (export 3)"),
        (Summary(not_run={"fault": 3}, faults=3), False, FAULT, "nnfuzz itself failed"),
        (
            Summary(unconfirmed_hangs=(HANG, HANG)),
            False,
            USAGE,
            "2 look like hangs: --resume confirms them",
        ),
    ],
)
def test_a_campaign_without_a_test_says_why_and_fails(summary, interrupted, code, why):
    assert exit_code(summary) == code
    assert why in nothing_ran(summary, interrupted)


@pytest.mark.parametrize(
    "findings, faults, code", [(0, 0, OK), (1, 0, FINDINGS), (0, 2, FAULT), (1, 2, FINDINGS)]
)
def test_what_is_not_confirmed_is_no_finding(findings, faults, code):
    summary = Summary(tests=9, findings=findings, faults=faults, flaky=3, unconfirmed_hangs=(HANG,))
    assert exit_code(summary) == code


def test_no_time_for_a_single_test(tmp_path):
    done = nnfuzz("fuzz", "-b", "onnxruntime", "--time", "0.01s", "--out", tmp_path / "out")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: not a single test was run: the time was over" in done.stderr
    assert "nothing found" not in done.stdout


def test_a_part_without_any_index_is_no_failure(tmp_path):
    fuzz = ("fuzz", "-b", "onnxruntime", "--seed", "7", "--shard", "2/8", "--set", "probe=0")
    done = nnfuzz(*fuzz, "--tests", "1", "--out", tmp_path / "out", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "part 2/8 of --tests 1 is empty" in done.stderr and "error" not in done.stderr


@pytest.mark.parametrize(
    "given, fix",
    [
        (("--shard", "1/2", "--seed", "1"), "leave out --shard"),
        (("--resume", "--out", "nowhere"), "is of no campaign with --ray"),
        (("--resume",), "needs --out"),
    ],
)
def test_a_cluster_is_asked_for_in_a_way_that_makes_sense(given, fix, tmp_path):
    done = nnfuzz("fuzz", "-b", "onnxruntime", "--tests", "1", "--ray", *given, cwd=tmp_path)
    assert done.returncode == 2 and fix in done.stderr


def test_without_ray_it_is_said_how_to_get_it(tmp_path):
    program = "import sys; sys.modules['ray'] = None\nfrom nnfuzz.cli.main import main\nmain()"
    fuzz = [sys.executable, "-c", program, "fuzz", "-b", "onnxruntime", "--tests", "1", "--ray"]
    done = subprocess.run(fuzz, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "pip install 'nnfuzz[ray]'" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_progress_tells_of_nodes():
    state = CampaignSnapshot("fuzzing", 75.0, 30.0, 9, 8, 2.5, {"ok": 15}, 1, 2, 0, 0, 0.5, 20)
    nodes = tuple(f"host{k}: fuzzing, 4 tests, 1.2/s" for k in range(20))
    assert " on 20 nodes: 8 tests" in line(replace(state, nodes=nodes))
    console = Console(width=80)
    with console.capture() as shown:
        console.print(panel(replace(state, nodes=nodes)))
    assert "host0: fuzzing" in shown.get() and "and 4 more" in shown.get()


def test_the_reduction_phase_tells_its_own_time_left():
    state = CampaignSnapshot("reducing", 75.0, 22.0, 9, 8, 2.5, {"ok": 15}, 4, 9, 0, 0, 0.5, 20)
    state = replace(state, unreduced=3)
    assert line(state) == "[22s left] reducing: 3 findings to be reduced of 4, 8 tests done"
    console = Console(width=100, file=io.StringIO())
    console.print(panel(state))
    shown = console.file.getvalue()
    assert "1m15s of tests are over; 22s left to reduce findings" in shown


def test_fuzzing_onnx_runtime_end_to_end(tmp_path):
    out = tmp_path / "out"
    module = [sys.executable, "-m", "nnfuzz.fuzz", "-b", "onnxruntime", "--tests", "5", "--seed"]
    options = ["7", "--exporter", "direct", "--nodes", "3", "--set", "probe=0", "--out", str(out)]
    done = subprocess.run([*module, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "5 tests" in done.stdout or "4 tests" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["seed"] == 7 and summary["faults"] == 0
    assert summary["config"]["case"]["nodes"] == 3
    wanted = {"generate", "export", "inputs", "execute", "compare"}
    assert wanted <= summary["phase_ms"].keys()
    finished = nnfuzz("fuzz", "--out", out, "--resume")
    assert finished.returncode == 2 and "higher --tests" in finished.stderr
