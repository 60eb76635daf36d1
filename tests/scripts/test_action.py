"""The action's script: what a change touches, what is run, and how it answers, with a fake gh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import action
from scripts.action import Asked, Inputs, by_name, commands, focus, main, read_comment

OPERATORS = ["Add", "Conv", "Gemm", "Mean", "Mul", "ReduceMean", "com.microsoft.Gelu"]
GH = '''#!{python}
"""A gh that keeps comments in a file and answers as GitHub does."""
import json, os, sys
file = os.environ["COMMENTS"]
kept = json.load(open(file)) if os.path.exists(file) else {{}}
arguments = sys.argv[1:]
with open(file + ".log", "a") as log:
    print(*arguments, file=log)
if os.environ.get("FORBIDDEN"):
    sys.exit("Resource not accessible by integration")
if "--jq" in arguments:
    mark = arguments[-1].split('startswith("')[1].split('")')[0]
    print(*(key for key, body in kept.items() if body.startswith(mark)), sep="\\n")
    sys.exit()
place = arguments[3]
key = place.rpartition("/")[2] if arguments[2] == "PATCH" else str(len(kept) + 1)
kept[key] = json.load(sys.stdin)["body"]
json.dump(kept, open(file, "w"))
'''
JUNIT = """<testsuites><testsuite name="s"><testcase classname="tvm.O3" name="tvm-conv">
<failure message="wrong values: 100%&#10;second"/></testcase>
<testcase classname="tvm" name="campaign"/></testsuite></testsuites>"""


@pytest.fixture
def ran():
    """The commands that the stand-in of nnfuzz was given."""
    return []


@pytest.fixture
def job(tmp_path, monkeypatch, ran):
    """A job on a pull request, in a folder of its own: its environment; nnfuzz is a stand-in."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(GH.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COMMENTS", str(tmp_path / "comments.json"))
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))

    def run(command):
        ran.append(command)
        out = Path(env["OUT"])
        (out / "results.xml").write_text(JUNIT)
        (out / "summary.md").write_text(f"## run {len(ran)}\n")
        return 1

    monkeypatch.setattr(action, "run", run)
    monkeypatch.setattr(action, "operators", lambda: OPERATORS)
    env = {
        "MODE": "pr",
        "BACKEND": "tvm",
        "OUT": str(tmp_path / "out"),
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": "me/mine",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
        "GH_TOKEN": "t",
    }
    return env


def comments(tmp_path):
    file = tmp_path / "comments.json"
    return json.loads(file.read_text()) if file.exists() else {}


@pytest.mark.parametrize(
    "file, names",
    [
        ("core/conv_mul_fusion.cc", ["Conv", "Mul"]),
        ("core/reduce_mean.cc", ["ReduceMean"]),
        ("src/ReduceMeanAdd.cpp", ["ReduceMean", "Add"]),
        ("gelu.h", ["com.microsoft.Gelu"]),
        ("docs/address.md", []),
        ("add/readme", []),
    ],
)
def test_files_are_about_the_operators_that_they_are_named_after(file, names):
    assert by_name(file, OPERATORS) == names


def test_a_table_comes_before_names():
    table = {"src/*fold*": ["FoldConstant"], "src/relax/*": ["Gemm", "FoldConstant"]}
    files = ["src/relax/fold_conv.cc", "lib/mul.cc", "README.md"]
    assert focus(files, table, OPERATORS) == ["FoldConstant", "Gemm", "Mul"]
    assert focus([f"Op{n}.cc" for n in range(13)], {}, [f"Op{n}" for n in range(13)]) == []


def of_author(body, association="MEMBER"):
    return {"comment": {"body": body, "author_association": association}}


@pytest.mark.parametrize(
    "event, asked",
    [
        (of_author("/nnfuzz Conv 10m"), Asked(("Conv",), "10m")),
        (of_author("/nnfuzz"), Asked()),
        (of_author("/nnfuzz Conv;rm --out $(x) Gemm"), Asked(("Gemm",))),
        (of_author("/nnfuzz Conv", "CONTRIBUTOR"), None),
        (of_author("please /nnfuzz"), None),
        ({}, None),
    ],
)
def test_a_comment_starts_a_run_if_its_author_may(event, asked):
    assert read_comment(event) == asked


def test_the_change_of_a_branch_is_what_is_fuzzed(job, ran, tmp_path, capsys):
    def git(*arguments):
        identity = ["-c", "user.name=me", "-c", "user.email=me@x"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("checkout", "-q", "-b", "change")
    (tmp_path / "conv fusion.cc").write_text("x")
    git("add", "conv fusion.cc")
    git("commit", "-q", "-m", "second")
    assert main({**job, "BASE": "main"}) == 1
    (command,) = ran
    assert command[-4:] == ["--time", "10m", "--focus", "Conv"]
    printed = capsys.readouterr().out
    assert "::error title=tvm-conv::wrong values: 100%25%0Asecond" in printed
    assert (tmp_path / "step.md").read_text() == "## run 1\n"


def test_a_comment_is_created_once_and_edited_later(job, tmp_path):
    for _ in range(2):
        assert main(job) == 1
    assert comments(tmp_path) == {"1": "<!-- nnfuzz tvm -->\n## run 2\n"}
    main({**job, "BACKEND": "onnxruntime"})
    assert len(comments(tmp_path)) == 2


def test_without_rights_there_is_no_comment_and_the_job_goes_on(job, tmp_path, monkeypatch, capsys):
    main({**job, "GH_TOKEN": ""})
    assert not (tmp_path / "comments.json.log").exists(), "pull requests of forks get no token"
    monkeypatch.setenv("FORBIDDEN", "1")
    assert main(job) == 1
    assert "note: no comment: Resource not accessible" in capsys.readouterr().out


def test_what_a_comment_asks_for_is_run_and_of_a_stranger_nothing(job, ran, tmp_path):
    asked = {**of_author("/nnfuzz Gemm 1h"), "issue": {"number": 9}}
    job_event = Path(job["GITHUB_EVENT_PATH"])
    job_event.write_text(json.dumps(asked))
    assert main(job) == 1
    assert ran[-1][-4:] == ["--time", "1h", "--focus", "Gemm"]
    assert "issues/9/comments" in (tmp_path / "comments.json.log").read_text()
    job_event.write_text(json.dumps({**asked, **of_author("/nnfuzz Gemm", "NONE")}))
    assert main(job) == 0 and len(ran) == 1


@pytest.mark.parametrize(
    "mode, words",
    [
        ("verify", ["verify", "zoo", "-b", "tvm"]),
        ("", ["verify", "zoo", "-b", "tvm"]),
        ("nightly", ["fuzz", "-b", "tvm", "--out"]),
    ],
)
def test_modes_are_commands(mode, words, tmp_path):
    env = {"MODE": mode, "BACKEND": "tvm", "MODELS": "zoo", "ARGUMENTS": "--level 'O 0'"}
    first, *rest = commands(Inputs.of(env), None, tmp_path / "summary.md")
    assert first[: len(words)] == words and first[-2:] == ["--level", "O 0"]
    assert [command[:2] for command in rest] == ([["bugs", "add"]] if mode == "nightly" else [])


def test_the_nightly_ledger_gets_the_plugins_of_the_campaign(tmp_path):
    arguments = "--plugin a.py --time 1h --plugin=b/c.py"
    env = {"MODE": "nightly", "BACKEND": "mine", "ARGUMENTS": arguments}
    _, add = commands(Inputs.of(env), None, tmp_path / "summary.md")
    assert add[-2:] == ["--plugin=a.py", "--plugin=b/c.py"]


def test_a_ledger_is_known(tmp_path):
    (tmp_path / "numpy" / "pow").mkdir(parents=True)
    (tmp_path / "numpy" / "pow" / "bug.toml").write_text("")
    env = {"MODE": "nightly", "BACKEND": "tvm", "LEDGER": str(tmp_path)}
    first, _ = commands(Inputs.of(env), None, tmp_path / "summary.md")
    assert first[-2:] == ["--known", str(tmp_path)]


@pytest.mark.parametrize(
    "env, message",
    [({"MODE": "prs"}, "'prs' is none of pr, nightly"), ({"MODE": "pr", "PATHS": "x"}, "paths: x")],
)
def test_a_mistake_is_one_line(job, env, message):
    with pytest.raises(SystemExit, match=message):
        main({**job, **env})


def test_a_table_holds_lists_of_names(tmp_path):
    (tmp_path / "paths.toml").write_text('"src/*" = "Conv"\n')
    with pytest.raises(SystemExit, match=r'write "src/\*" = \["Conv"'):
        action.read_table(str(tmp_path / "paths.toml"))
