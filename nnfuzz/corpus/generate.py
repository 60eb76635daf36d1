"""Fills a folder with regression models."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import ONNX
from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import Json, JsonObject, Unreadable
from nnfuzz.base.untrusted import making_sense
from nnfuzz.corpus.layout import LICENSE, Entry, test_name, write_test
from nnfuzz.findings.repro import compiled_once, program_of
from nnfuzz.findings.text import Quoted, environment
from nnfuzz.records.observer import Note
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered, TestId

SCHEMA = 2
MANIFEST = "manifest.json"
README = """# Regression models

Random valid ONNX models, each with inputs, expected outputs and tolerances, made by nnfuzz
(https://github.com/nnfuzz/nnfuzz). `manifest.json` has the seed, the settings and the versions
that they follow from byte for byte, and their licence as an SPDX expression. No data of others is
in them, but for what the manifest names as seed models.

    test_NAME/model.onnx                                  weights inside
    test_NAME/test_data_set_N/input_K.pb, output_K.pb     in the order of the model's
    test_NAME/data.json, config.txt                       rtol and atol, overall and per output
    test_NAME/nnfuzz.json, weights.npz                    for nnfuzz's own oracle

Expected outputs are PyTorch's. An output is right if |actual - expected| <= atol + rtol |expected|
everywhere; discrete ones must be equal. Any of these runs them:

    nnfuzz verify . --backend NAME
    pytest test_models.py                                 without nnfuzz
    onnx_test_runner .

"""
PYTEST_FILE = "test_models.py"
USUAL = "onnxruntime"
"""What test_models.py runs in a corpus for no compiler, or for one that needs nnfuzz to run."""
MAX_FAILURES = 100
"""Number of indexes in a row without a test case after which `fill` gives up."""
UNSUPPORTED = "unsupported"

Produce = Callable[[Iterable[TestId]], Iterator[Entry | NotProduced]]
"""Makes the tests, in their order; it may read the tests ahead."""


@dataclass(frozen=True)
class CorpusPlan:
    """The content of a corpus: the first `count` test cases that exist of (seed, config).

    versions: of nnfuzz, of the libraries that the bytes depend on, and of the compilers that the
    corpus is for. script: the text of test_models.py; "" for none.
    """

    count: int
    seed: int
    config: Mapping[str, Json]
    versions: Mapping[str, str]
    license: str = LICENSE
    script: str = ""

    def to_json(self) -> JsonObject:
        return {
            "schema": SCHEMA,
            "license": self.license,
            "seed": self.seed,
            "config": dict(self.config),
            "versions": dict(self.versions),
        }


def fill(out: Path, plan: CorpusPlan, produce: Produce) -> Iterator[str | NotProduced]:
    """Writes the tests in the order of their indexes; yields the name of each one once it is on the
    disk, and what could not be made.

    The folder is made with the first test, so that settings without any test case leave nothing
    behind; the manifest is written last. Raises: Unreadable if the folder holds something, or
    nothing can be generated.
    """
    check_unused(out)
    names: list[str] = []
    skipped: dict[str, str] = {}
    failed = 0
    for made in produce(Numbered(plan.seed, index) for index in itertools.count()):
        if isinstance(made, NotProduced):
            skipped[str(made.id.index)], failed = made.stage, failed + 1
            if failed == MAX_FAILURES:
                probe = "; first run nnfuzz backends --probe" if made.stage == UNSUPPORTED else ""
                raise Unreadable(
                    f"{failed} indexes in a row gave no test case; the last: {made.stage}: "
                    f"{made.message.strip().partition(chr(10))[0]}{probe}"
                )
            yield made
            continue
        if not names:
            begin(out, plan.script)
        write_test(out, made)
        names.append(test_name(made.case.id))
        failed = 0
        yield names[-1]
        if len(names) == plan.count:
            break
    write_manifest(out, {**plan.to_json(), "tests": names, "skipped": skipped})


def check_unused(out: Path) -> None:
    """Raises: Unreadable unless the folder is absent or empty."""
    with making_sense(out):
        if out.exists() and not out.is_dir():
            raise Unreadable(f"{out} is not a folder; choose another name")
        if out.exists() and any(out.iterdir()):
            raise Unreadable(f"{out} is not empty; choose another folder")


def begin(out: Path, script: str) -> None:
    """Makes the folder with its explanations. script: the text of test_models.py."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "README.md").write_text(README, encoding="utf-8")
    if script:
        (out / PYTEST_FILE).write_text(script, encoding="utf-8")


def write_manifest(out: Path, about: Mapping[str, object]) -> None:
    write_atomically(out / MANIFEST, (json.dumps(about, indent=1, sort_keys=True) + "\n").encode())


def supported_only(
    made: Iterable[Entry | NotProduced], runners: Sequence[BackendRunner]
) -> Iterator[Entry | NotProduced]:
    """The same, with NotProduced for models that a compiler itself calls unsupported.

    It is known by operator and dtype what it lacks; some of it depends on attributes and ranks.
    Each model runs once, at the least optimised level; any other failure there is one that the
    corpus is for. Raises: RunnerError.
    """
    for entry in made:
        yield next(filter(None, (_refused(entry, r) for r in runners)), entry)


def _refused(entry: Entry | NotProduced, runner: BackendRunner) -> NotProduced | None:
    if isinstance(entry, NotProduced):
        return None
    case = entry.case
    (outcome,) = runner.run(case.source(runner.reads), case.inputs, runner.backend.levels[:1])
    if outcome.kind is not OutcomeKind.UNSUPPORTED:
        return None
    return NotProduced(case.id, UNSUPPORTED, f"{runner.name}: {outcome.message}")


def models_under_pytest(registry: BackendRegistry, spec: BackendSpec | None, note: Note) -> str:
    """The text of test_models.py: for a compiler that reads ONNX and offers a program that runs
    without nnfuzz (Backend.repro), else for the usual one; "" if that is not there either.
    Raises: RegistryError, OptionError.
    """
    usual = [registry.parse(USUAL)] if USUAL in registry.names() else []
    for own in [spec, *usual] if spec else usual:
        backend = registry.get(own.name)
        program = program_of(own, registry, any_dtype=True)
        if program is not None and backend(**own.options).form == ONNX:
            return _rendered(str(own), program, backend)
        note(f"{PYTEST_FILE} runs {USUAL}: {own} offers no program that does without nnfuzz")
    return ""


def _rendered(compiler: str, program: str, backend: type[Backend]) -> str:
    template = environment().get_template("test_models.py.jinja")
    source = Quoted(compiled_once(program).strip("\n") + "\n")
    levels = list(backend.default_levels())
    return template.render(
        compiler=compiler, program=source, levels=levels, loads_files=backend.loads_files
    )
