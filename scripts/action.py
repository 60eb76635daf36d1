"""All that the action does after the installation: what a change touches, nnfuzz, and the answer.

    MODE=pr BACKEND=tvm python scripts/action.py

It reads what action.yml hands over from the environment, runs `nnfuzz fuzz` or `verify`, and
answers as annotations and, by the program `gh`, as a comment on the pull request. Its exit code is
that of nnfuzz. It needs the standard library and nnfuzz alone.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

MODES = ("pr", "nightly", "verify")
COMMAND = "/nnfuzz"
ALLOWED = ("OWNER", "MEMBER", "COLLABORATOR")
"""Whose comments start a run, as GitHub names their relation to the repository."""
MOST_NAMES = 12
"""Operators and passes that one run is about; a change that touches more is a change of all."""
MOST_ANNOTATIONS = 10
"""GitHub shows so many of one step."""
LONGEST_COMMENT = 60_000
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_TIME = re.compile(r"(?:\d+[dhms])+")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class Inputs:
    """What action.yml hands over. extra: further arguments. paths: file of the project's table."""

    mode: str
    backend: str
    models: str
    extra: tuple[str, ...]
    out: Path
    ledger: Path
    paths: str
    base: str

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Inputs:
        """Raises: SystemExit for a mode that there is not."""
        mode = env.get("MODE") or ("verify" if env.get("MODELS") else "fuzz")
        if mode not in (*MODES, "fuzz"):
            sys.exit(f"error: mode {mode!r} is none of {', '.join(MODES)}")
        target = env.get("GITHUB_BASE_REF", "")
        return cls(
            mode,
            env.get("BACKEND", ""),
            env.get("MODELS", ""),
            tuple(shlex.split(env.get("ARGUMENTS", ""))),
            Path(env.get("OUT") or "nnfuzz-out/ci"),
            Path(env.get("LEDGER") or "bugs"),
            env.get("PATHS", ""),
            env.get("BASE") or (f"origin/{target}" if target else ""),
        )


@dataclass(frozen=True)
class Asked:
    """What a comment asks for: names of operators and passes, and a time; "" for the usual one."""

    names: tuple[str, ...] = ()
    time: str = ""


def read_comment(event: Mapping[str, object]) -> Asked | None:
    """What the comment of an event asks for; None if it asks for nothing, or its author may not."""
    comment = event.get("comment")
    if not isinstance(comment, dict) or comment.get("author_association") not in ALLOWED:
        return None
    words = str(comment.get("body", "")).split()
    if words[:1] != [COMMAND]:
        return None
    times = [word for word in words[1:] if _TIME.fullmatch(word)]
    names = [word for word in words[1:] if _NAME.fullmatch(word)]
    return Asked(tuple(names[:MOST_NAMES]), "".join(times[:1]))


# -- what a change touches ------------------------------------------------------------------------


def changed_files(base: str) -> list[str]:
    """The files that the working tree's commit changed since it left a branch; [] if unknown."""
    if not base:
        return []
    done = subprocess.run(
        ["git", "diff", "--name-only", "-z", f"{base}...HEAD"], capture_output=True, text=True
    )
    if done.returncode:
        command = shlex.join(done.args)
        print(f"note: {command} failed, so the change is unknown: {done.stderr.strip()}")
    return [file for file in done.stdout.split("\0") if file]


def focus(
    files: Iterable[str], table: Mapping[str, Sequence[str]], known: Iterable[str]
) -> list[str]:
    """The operators and passes that changed files are about; [] for a change of everything.

    table: from patterns of paths to names; a file that fits a pattern is about the names of all
    that it fits, and of nothing else. known: operators, which other files are about by their names.
    """
    operators, found = list(known), dict[str, None]()
    for file in files:
        fitting = [names for pattern, names in table.items() if fnmatch.fnmatch(file, pattern)]
        names = [n for own in fitting for n in own] if fitting else by_name(file, operators)
        found |= dict.fromkeys(names)
    return list(found) if len(found) <= MOST_NAMES else []


def by_name(file: str, operators: Iterable[str]) -> list[str]:
    """The operators whose names are in a file's: conv_mul_fusion.cc is about Conv and Mul.

    The longest names come first, so that reduce_mean.cc is about ReduceMean and not about Mean.
    """
    words = [word.lower() for word in _WORDS.findall(Path(file).name.partition(".")[0])]
    names = {name.rpartition(".")[2].lower(): name for name in operators}
    found, start = [], 0
    while start < len(words):
        ends = range(len(words), start, -1)
        end = next((e for e in ends if "".join(words[start:e]) in names), 0)
        found += [names["".join(words[start:end])]] if end else []
        start = end or start + 1
    return found


def read_table(file: str) -> dict[str, list[str]]:
    """The project's table, TOML with a list of names for each pattern. Raises: SystemExit."""
    if not file:
        return {}
    try:
        table = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        sys.exit(f"error: paths: {file} cannot be read: {error}")
    for pattern, names in table.items():
        if not (isinstance(names, list) and all(_NAME.fullmatch(str(name)) for name in names)):
            sys.exit(f'error: paths: {file}: write "{pattern}" = ["Conv", "FoldConstant"]')
    return table


def operators() -> list[str]:
    from nnfuzz.operators.registry import OpRegistry

    return list(OpRegistry.load())


# -- the run --------------------------------------------------------------------------------------


def commands(inputs: Inputs, asked: Asked | None, summary: Path) -> list[list[str]]:
    """The commands of nnfuzz, one after the other; the exit code of the first one counts."""
    reports = ["--junit", str(inputs.out / "results.xml"), "--summary-md", str(summary)]
    if inputs.mode == "verify":
        return [["verify", inputs.models, "-b", inputs.backend, *reports, *inputs.extra]]
    campaign = inputs.out / "campaign"
    fuzz = ["fuzz", "-b", inputs.backend, "--out", str(campaign), *reports]
    has_ledger = next(inputs.ledger.rglob("bug.toml"), None) is not None
    if has_ledger and inputs.mode != "fuzz":
        fuzz += ["--known", str(inputs.ledger)]
    if inputs.mode == "pr":
        fuzz += _of_change(inputs, asked or Asked())
    found = [[*fuzz, *inputs.extra]]
    if inputs.mode == "nightly":
        add = ["bugs", "add", str(campaign), "--ledger", str(inputs.ledger)]
        found.append([*add, *plugins(inputs.extra)])
    return found


def plugins(arguments: Sequence[str]) -> list[str]:
    """The --plugin options among the arguments of a command."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--plugin", action="append", default=[])
    return [f"--plugin={plugin}" for plugin in parser.parse_known_args(arguments)[0].plugin]


def _of_change(inputs: Inputs, asked: Asked) -> list[str]:
    """Arguments for a campaign about what a comment names, or else about what a change touches."""
    names = list(asked.names)
    if not names:
        table = read_table(inputs.paths)
        names = focus(changed_files(inputs.base), table, operators())
    print(f"fuzzing around {', '.join(names)}" if names else "fuzzing everything")
    return ["--time", asked.time or "10m", *(["--focus", ",".join(names)] if names else [])]


def run(command: Sequence[str]) -> int:
    """Runs nnfuzz; returns its exit code."""
    from nnfuzz.base.safe_path import safe_environment

    whole = [sys.executable, "-m", "nnfuzz", *command]
    return subprocess.run(whole, env=safe_environment(), check=False).returncode


# -- the answer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failed:
    """A failed test of the results."""

    name: str
    backend: str
    message: str


def failures(results: Path) -> list[Failed]:
    """The failed tests of a file of JUnit; [] if there is none."""
    if not results.is_file():
        return []
    found = []
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        wrong = case.find("failure")
        if wrong is not None:
            name, backend = case.get("name", ""), case.get("classname", "")
            found.append(Failed(name, backend, wrong.get("message", "")))
    return found


def annotation(failed: Failed) -> str:
    """A line of the log that GitHub shows beside the change."""

    def escaped(text: str, more: str = "") -> str:
        for sign in "%\r\n" + more:
            text = text.replace(sign, f"%{ord(sign):02X}")
        return text

    return f"::error title={escaped(failed.name, ':,')}::{escaped(failed.message)}"


def number_of(event: Mapping[str, object]) -> int:
    """The number of the pull request that an event is about; 0 for none."""
    for key in ("pull_request", "issue"):
        about = event.get(key)
        if isinstance(about, dict) and isinstance(about.get("number"), int):
            return int(about["number"])
    return 0


def comment(repository: str, number: int, backend: str, text: str) -> None:
    """Writes the answer of a backend on a pull request: creates it once, and edits it later.

    Where that is not allowed, as for pull requests from forks, a line says so.
    """
    mark = f"<!-- nnfuzz {re.sub(r'[^A-Za-z0-9_.@=,-]', '', backend)} -->"
    body = json.dumps({"body": f"{mark}\n{text[:LONGEST_COMMENT]}"})
    place = f"repos/{repository}/issues/{number}/comments"
    query = f'.[] | select(.body | startswith("{mark}")) | .id'
    listed = _gh(["api", "--paginate", place, "--jq", query])
    if listed is None:
        return
    own = listed.split()
    where = f"repos/{repository}/issues/comments/{own[0]}" if own else place
    _gh(["api", "--method", "PATCH" if own else "POST", where, "--input", "-"], body)


def _gh(arguments: Sequence[str], given: str = "") -> str | None:
    """What gh prints; None if it fails, after a note."""
    try:
        done = subprocess.run(["gh", *arguments], input=given, capture_output=True, text=True)
    except OSError as error:
        print(f"note: no comment, since gh cannot be run: {error}")
        return None
    if done.returncode:
        print(f"note: no comment: {' '.join(done.stderr.split())}")
        return None
    return done.stdout


def main(env: Mapping[str, str]) -> int:
    """Runs the action; returns the exit code of nnfuzz."""
    inputs = Inputs.of(env)
    event = read_event(env.get("GITHUB_EVENT_PATH", ""))
    asked = read_comment(event)
    if "comment" in event and asked is None:
        print(f"the comment is not {COMMAND}, or not of one of {', '.join(ALLOWED)}: nothing to do")
        return 0
    inputs.out.mkdir(parents=True, exist_ok=True)
    summary = inputs.out / "summary.md"
    codes = [run(command) for command in commands(inputs, asked, summary)]
    answer(inputs, event, summary, env)
    return codes[0]


def answer(
    inputs: Inputs, event: Mapping[str, object], summary: Path, env: Mapping[str, str]
) -> None:
    """Writes annotations, the summary of the job, and the comment."""
    for failed in failures(inputs.out / "results.xml")[:MOST_ANNOTATIONS]:
        print(annotation(failed))
    text = summary.read_text(encoding="utf-8") if summary.is_file() else ""
    if page := env.get("GITHUB_STEP_SUMMARY"):
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(text)
    number, repository = number_of(event), env.get("GITHUB_REPOSITORY", "")
    if inputs.mode == "pr" and number and repository and text and env.get("GH_TOKEN"):
        comment(repository, number, inputs.backend, text)


def read_event(file: str) -> dict[str, object]:
    """The event that has started the job; {} if there is none."""
    try:
        event = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError) as error:
        sys.exit(f"error: the event {file} cannot be read: {error}")
    return event if isinstance(event, dict) else {}


if __name__ == "__main__":
    sys.exit(main(os.environ))
