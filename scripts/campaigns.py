"""Runs campaigns in processes of their own, and compares what two campaigns hold."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from nnfuzz.store.store import FILE

FUZZ = (sys.executable, "-m", "nnfuzz.cli.main", "fuzz")
Contents = Mapping[str, Mapping[Any, Any]]
"""What a campaign holds: group -> index, signature or key -> what two runs must agree on."""
QUERIES = {
    "tests": "SELECT idx, digest, status, outcomes FROM tests",
    "epochs of tests": "SELECT idx, epoch FROM tests",
    "occurrences": "SELECT signature, min(idx), count(*) FROM occurrences "
    "WHERE bucket != 'flaky' GROUP BY 1",
    "signatures": "SELECT signature, test FROM findings",
    "epochs": "SELECT id, refused, avoided FROM epochs",
}


def run_fuzz(*options: object, **environment: str) -> None:
    """Runs `nnfuzz fuzz` to its end. environment: variables beside those of this process.

    Raises: CalledProcessError if the campaign fails; findings are no failure.
    """
    command = [*FUZZ, *map(str, options)]
    variables = {**os.environ, **environment}
    done = subprocess.run(command, env=variables, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise subprocess.CalledProcessError(done.returncode, command)


def set_options(**settings: object) -> list[str]:
    """The options `--set NAME=VALUE` of `nnfuzz fuzz` for these settings."""
    return [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]


def contents(folder: Path) -> Contents:
    """What a campaign holds, with the kinds of its outcomes alone: messages hold addresses."""
    with closing(sqlite3.connect(folder / FILE)) as database:
        found = {
            group: {key: tuple(rest) for key, *rest in database.execute(query)}
            for group, query in QUERIES.items()
        }
    found["tests"] = {i: (*rest, _kinds(text)) for i, (*rest, text) in found["tests"].items()}
    return found


def differences(one: Contents, other: Contents) -> Iterator[str]:
    """A line for each group in which two campaigns differ, with the first difference."""
    for group, held in one.items():
        differ = [k for k in held.keys() | other[group] if held.get(k) != other[group].get(k)]
        if differ:
            key = min(differ, key=lambda k: (isinstance(k, str), k))
            example = f"{str(held.get(key))[:300]} and {str(other[group].get(key))[:300]}"
            yield f"{len(differ)} {group} differ, first {key}: {example}"


def _kinds(text: str) -> dict[str, list[str]]:
    return {
        name: [kind if isinstance(kind, str) else kind["kind"] for kind in levels.values()]
        for name, levels in json.loads(text).items()
    }
