"""Fills a folder with regression models; a later run completes one that was killed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.base.files import PARTIAL, remove_partial, write_atomically
from nnfuzz.base.reading import Json, JsonObject, read
from nnfuzz.base.untrusted import making_sense, read_json
from nnfuzz.corpus.entry import Entry
from nnfuzz.corpus.layout import CASE, LICENSE, CorpusError, test_name, write_test
from nnfuzz.corpus.provenance import COMPANIONS
from nnfuzz.corpus.pytest_file import PYTEST_FILE
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered, TestId

SCHEMA = 2
MANIFEST = "manifest.json"
MAX_FAILURES = 100
"""Number of indexes in a row without a test case after which `fill` gives up."""
TOO_LARGE = "too large"

Produce = Callable[[Iterable[TestId]], Iterator[Entry | NotProduced]]
"""Makes the tests, in their order; it may read the tests ahead."""


@dataclass(frozen=True)
class CorpusPlan:
    """The content of a corpus: the first `count` test cases that exist of (seed, config).

    versions: of nnfuzz, of the libraries that the bytes depend on, and of the compilers that the
    corpus is for. sets: data sets per model. most_bytes: limit for a model with its data; 0 for
    none. tests: the test cases, if they are not those of (seed, index). script: the text of
    test_models.py (nnfuzz.corpus.pytest_file); "" for none.
    """

    count: int
    seed: int
    config: Mapping[str, Json]
    versions: Mapping[str, str]
    sets: int = 1
    most_bytes: int = 0
    tests: tuple[TestId, ...] = ()
    license: str = LICENSE
    extra: Mapping[str, Json] = field(default_factory=dict)
    script: str = ""

    def to_json(self) -> JsonObject:
        limit = {"bytes": self.most_bytes} if self.most_bytes else {}
        return {
            "schema": SCHEMA,
            "license": self.license,
            "seed": self.seed,
            "config": dict(self.config),
            "versions": dict(self.versions),
            "data_sets": self.sets,
            **limit,
            **self.extra,
        }

    def ids(self) -> Iterator[TestId]:
        """The test cases that may be in the corpus, in order."""
        return iter(self.tests) if self.tests else self._numbered()

    def _numbered(self) -> Iterator[TestId]:
        return (Numbered(self.seed, index) for index in itertools.count())


@dataclass(frozen=True)
class WrittenTest:
    """One test of a corpus. name: of its folder. resumed: whether an earlier run wrote it. skipped:
    test cases before it that could not be made.
    """

    name: str
    resumed: bool
    skipped: tuple[NotProduced, ...] = ()


def fill(out: Path, plan: CorpusPlan, produce: Produce) -> Iterator[WrittenTest]:
    """Writes the tests and yields each one once it is on the disk, in the order of the indexes.

    The folder and its manifest are made with the first test, so that settings without any test case
    leave nothing behind; the manifest is completed last. Existing tests are kept. Raises:
    CorpusError if the folder holds something else, or nothing can be generated.
    """
    check_corpus(out, plan)
    names: list[str] = []
    skipped: dict[str, str] = {}
    for written in itertools.islice(_tests(out, plan, produce), plan.count):
        if written.name:
            names.append(written.name)
        skipped.update({_short(s.id): s.stage for s in written.skipped})
        yield written
    if not names:
        raise CorpusError("none of the tests could be generated")
    complete = {**plan.to_json(), "tests": names, "skipped": skipped}
    write_atomically(out / MANIFEST, _text(complete))


def check_corpus(out: Path, plan: CorpusPlan) -> None:
    """Checks that the folder is absent, empty, or a corpus of the same plan, and removes the
    incomplete files of a killed run. Raises: CorpusError.
    """
    if not check_place(out):
        return
    manifest = read(JsonObject, read_json(out / MANIFEST))
    for key, value in json.loads(_text(plan.to_json())).items():
        if manifest.get(key) != value:
            raise CorpusError(
                f"{out} holds a corpus with another {key} "
                f"({_difference(manifest.get(key), value)}); choose another folder"
            )
    remove_partial(out)


def check_place(out: Path) -> bool:
    """Whether the folder is a corpus. Raises: CorpusError if it holds something else."""
    with making_sense(out):
        if out.exists() and not out.is_dir():
            raise CorpusError(f"{out} is not a folder; choose another name")
        held = {path.name for path in out.iterdir()} if out.exists() else set()
    if MANIFEST not in held and any(not name.startswith(PARTIAL) for name in held):
        raise CorpusError(f"{out} is not empty and no corpus of nnfuzz; choose another folder")
    return MANIFEST in held


def begin(out: Path, about: Mapping[str, object], script: str = "") -> None:
    """Makes the folder with its manifest and explanations, unless it has them. script: the text of
    test_models.py.
    """
    if not (out / MANIFEST).exists():
        out.mkdir(parents=True, exist_ok=True)
        for name, text in {**COMPANIONS, **({PYTEST_FILE: script} if script else {})}.items():
            write_atomically(out / name, text.encode())
        write_atomically(out / MANIFEST, _text(about))


def _tests(out: Path, plan: CorpusPlan, produce: Produce) -> Iterator[WrittenTest]:
    """Every test; a last one without a name has those skipped at the end. Raises: CorpusError."""
    there = {path.parent.name for path in out.glob(f"*/{CASE}")}
    wanted, order = itertools.tee(plan.ids())
    made = produce(test for test in wanted if test_name(test) not in there)
    failed: list[NotProduced] = []
    for test in order:
        name = test_name(test)
        if name not in there:
            entry = _small(next(made), plan.most_bytes)
            if isinstance(entry, NotProduced):
                failed.append(entry)
                if len(failed) == MAX_FAILURES and not plan.tests:
                    raise _hopeless(failed)
                continue
            begin(out, plan.to_json(), plan.script)
            write_test(out, entry)
        yield WrittenTest(name, name in there, tuple(failed))
        failed = []
    if failed:
        yield WrittenTest("", False, tuple(failed))


def _small(made: Entry | NotProduced, most: int) -> Entry | NotProduced:
    if isinstance(made, NotProduced) or not most or (size := made.nbytes()) <= most:
        return made
    return NotProduced(made.case.id, TOO_LARGE, f"{size:,} bytes are more than {most:,}")


def _hopeless(failed: list[NotProduced]) -> CorpusError:
    last = failed[-1]
    return CorpusError(
        f"{len(failed)} indexes in a row gave no test case; the last: {last.stage}: "
        f"{last.message.strip().partition(chr(10))[0]}"
    )


def _short(test: TestId) -> str:
    return str(test.index) if isinstance(test, Numbered) else str(test)


def _difference(old: object, new: object) -> str:
    """The differences between the settings of a folder and the wanted ones, by single values."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
        return ", ".join(f"{k}: {_difference(old.get(k), new.get(k))}" for k in keys)
    return f"{old!r} there, {new!r} wanted"


def _text(data: object) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()
