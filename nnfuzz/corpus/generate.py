"""Fills a folder with regression models; a run that was killed is completed by the next one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnfuzz.corpus.layout import CASE, CorpusError, test_name, write_test
from nnfuzz.reading import read
from nnfuzz.report.files import remove_partial, write_atomically
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.test_id import Numbered
from nnfuzz.untrusted import read_json

SCHEMA = 1
MANIFEST = "manifest.json"
MAX_FAILURES = 100
"""Indexes in a row without a test case after which the settings are hopeless."""

Produce = Callable[[int], TestCase | NotProduced]


@dataclass(frozen=True)
class Plan:
    """What a corpus holds: the first `count` test cases that exist of (seed, config).

    versions: of nnfuzz and of the libraries that decide about bytes.
    """

    count: int
    seed: int
    config: Mapping[str, Any]
    versions: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "seed": self.seed,
            "config": dict(self.config),
            "versions": dict(self.versions),
        }


@dataclass(frozen=True)
class Written:
    """One test: its folder's name; whether it was there before; the indexes skipped before it."""

    name: str
    resumed: bool
    skipped: tuple[NotProduced, ...] = ()


def fill(out: Path, plan: Plan, produce: Produce) -> Iterator[Written]:
    """Yields each test as it stands on the disk, in the order of the indexes.

    The folder and its manifest are made once there is a first test case, so that settings of which
    none can be made leave nothing behind; the manifest is completed last. Tests that are there
    already are kept. Raises: CorpusError if the folder holds something else, or nothing can be
    generated.
    """
    check_corpus(out, plan)
    names: list[str] = []
    skipped: dict[str, str] = {}
    index = 0
    while len(names) < plan.count:
        written, index = _next(out, plan, produce, index)
        names.append(written.name)
        skipped.update({str(s.id.index): s.stage for s in written.skipped})
        yield written
    complete = {**plan.to_json(), "tests": names, "skipped": skipped}
    write_atomically(out / MANIFEST, _text(complete))


def check_corpus(out: Path, plan: Plan) -> None:
    """Checks that the folder is absent, empty, or a corpus of the same plan.

    What a killed writer left in it is removed. Raises: CorpusError.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise CorpusError(f"{out} is not a folder; choose another name")
    remove_partial(out)
    manifest = out / MANIFEST
    if not manifest.exists():
        if any(out.iterdir()):
            raise CorpusError(f"{out} is not empty and no corpus of nnfuzz; choose another folder")
        return
    found = read(dict[str, Any], read_json(manifest))
    for key, value in json.loads(_text(plan.to_json())).items():
        if found.get(key) != value:
            raise CorpusError(
                f"{out} holds a corpus with another {key} ({_difference(found.get(key), value)}); "
                "choose another folder"
            )


def _begin(out: Path, plan: Plan) -> None:
    """Makes the folder and its manifest, unless they are there."""
    if not (out / MANIFEST).exists():
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / MANIFEST, _text(plan.to_json()))


def _next(out: Path, plan: Plan, produce: Produce, index: int) -> tuple[Written, int]:
    """The first test at `index` or later, and the index after it."""
    failed: list[NotProduced] = []
    while len(failed) < MAX_FAILURES:
        name = test_name(Numbered(plan.seed, index))
        if (out / name / CASE).exists():
            return Written(name, True, tuple(failed)), index + 1
        made = produce(index)
        index += 1
        if isinstance(made, TestCase):
            _begin(out, plan)
            return Written(write_test(out, made).name, False, tuple(failed)), index
        failed.append(made)
    last = failed[-1]
    raise CorpusError(
        f"{len(failed)} indexes in a row gave no test case; the last: {last.stage}: "
        f"{last.message.strip().partition(chr(10))[0]}"
    )


def _difference(old: Any, new: Any) -> str:
    """What differs between the settings of a folder and those wanted, down to single values."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
        return ", ".join(f"{k}: {_difference(old.get(k), new.get(k))}" for k in keys)
    return f"{old!r} there, {new!r} wanted"


def _text(data: Any) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()
