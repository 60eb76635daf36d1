"""Attacks by files of others: findings, corpora, campaigns, models and graphs."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sqlite3
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

from scripts.torment.attack import Surface
from scripts.torment.attack.files import judged, mutated, opened, scrambled, special

GRAPHS = 12  # generated models of which one is changed

# -- findings, corpora, campaigns -----------------------------------------------------------------


def _finding(folder: Path) -> None:
    from tests.attacks.samples import finding_folder

    finding_folder(folder)


def use_finding(folder: Path, rng: random.Random) -> str:
    """Does what replay does without its processes: an accepted case can be judged and reported."""
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.cli.commands.findings import backend_of, open_finding
    from nnfuzz.cli.consent import Consent
    from nnfuzz.findings.report import tracker_report

    try:
        consent = Consent(folder)
        found = open_finding(folder, consent)
        backend_of(found, "onnxruntime", consent)
        if found.case.model:
            _producer().check(found.case)
            outputs = {o.target: o.outputs for o in found.outcomes if o.outputs}
            _producer().judge(found.case, outputs)
        tracker_report(found)
    except Unreadable:
        pass
    return judged("show", folder)


@cache
def _producer() -> Any:
    from nnfuzz.testcase.case import CaseConfig
    from nnfuzz.testcase.producer import Producer

    return Producer(0, CaseConfig(exporter="direct"))


def _corpus(folder: Path) -> None:
    from tests.attacks.samples import corpus

    corpus(folder)


def use_corpus(folder: Path, rng: random.Random) -> str:
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.corpus.layout import find_tests

    for test in find_tests(folder):
        with contextlib.suppress(Unreadable):
            if case := test.case():
                _producer().check(case)
        with contextlib.suppress(Unreadable):
            test.data_sets()
    return ""


def _campaign(folder: Path) -> None:
    from tests.attacks.samples import campaign

    campaign(folder)
    with contextlib.closing(sqlite3.connect(folder / "campaign.sqlite")) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def use_campaign(folder: Path, rng: random.Random) -> str:
    """Renders the page, does what --resume does before it starts a process, repairs the campaign
    and reads it as a part."""
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.campaign.merging import merge
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.store.recorder import Recorder
    from nnfuzz.store.store import Store

    if problem := judged("report", folder):
        return problem
    with contextlib.suppress(Unreadable), Store.open(folder) as store:
        CampaignConfig.from_json(store.config())
        Recorder(store, (), lambda *_: None, lambda row: None).findings()
    with contextlib.suppress(Unreadable), merge([folder], folder / "whole"):
        pass
    return ""


# -- ledgers ------------------------------------------------------------------------------------


def _ledger(folder: Path) -> None:
    from nnfuzz.bugs.bug import Bug, ScriptResult
    from nnfuzz.bugs.ledger import SCRIPT, Ledger

    releases = {"1.30.0": ScriptResult.REPRODUCES}
    bug = Bug("Pow is wrong", "onnxruntime", notes=("a", "b"), releases=releases)
    for name in ("onnxruntime/one", "onnxruntime/two"):
        Ledger(folder).add(name, bug, lambda made: (made / SCRIPT).touch())


def use_ledger(folder: Path, rng: random.Random) -> str:
    """Reads every bug as a check does before it runs scripts; lists bugs and changes one."""
    from nnfuzz.bugs.checking import Checker, Interpreter
    from nnfuzz.bugs.ledger import Ledger

    book = Ledger(folder)
    checker = Checker(book, lambda bug: Interpreter("", ""), print, date.today())
    [checked.line for checked in checker.check_all(book.names())]
    changed = judged("bugs", "set", "onnxruntime/one", "title=b", "-l", folder)
    return changed or judged("bugs", "list", "-l", folder)


# -- models and graphs ----------------------------------------------------------------------------


def _generated(folder: Path) -> None:
    """Writes folders of generated models with all kinds of operators."""
    from nnfuzz.corpus.layout import write_test
    from nnfuzz.testcase.case import TestCase

    folder.mkdir()
    made = (_producer().produce(index) for index in range(2 * GRAPHS))
    for case in [case for case in made if isinstance(case, TestCase)][:GRAPHS]:
        write_test(folder, case)


def _one_of(folder: Path, rng: random.Random) -> Path:
    """Keeps one of the folders."""
    chosen = rng.choice(sorted(folder.iterdir()))
    for path in folder.iterdir():
        if path != chosen:
            shutil.rmtree(path)
    return chosen


def change_model(folder: Path, rng: random.Random) -> None:
    model = _one_of(folder, rng) / "model.onnx"
    if rng.random() < 0.95:
        model.write_bytes(scrambled(model.read_bytes(), rng))
    else:
        special(model, folder, rng)


def use_model(folder: Path, rng: random.Random) -> str:
    """Shows a model, and reads it as a seed model."""
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.testcase.case import CaseConfig
    from nnfuzz.testcase.settings import digest
    from nnfuzz.testcase.vocabulary import SeedLibrary

    model = next(folder.iterdir()) / "model.onnx"
    with contextlib.suppress(Unreadable):
        given = {"seed_models": (str(model),), "seed_digest": digest([model])}
        SeedLibrary(_producer().registry).load(CaseConfig(exporter="direct", **given))
    return judged("show", model)


def change_graph(folder: Path, rng: random.Random) -> None:
    file = _one_of(folder, rng) / "nnfuzz.json"
    document = json.loads(file.read_text())
    document["graph"] = mutated(document["graph"], rng)
    with contextlib.suppress(RecursionError):  # too deep to be written
        file.write_text(json.dumps(document), encoding="utf-8")


def use_graph(folder: Path, rng: random.Random) -> str:
    """Runs a graph as a test case, judges it and writes it as a model again; shows and draws it."""
    path = next(folder.iterdir())
    if problem := use_corpus(folder, rng):
        return problem
    return judged("show", path) or judged("show", path, "--svg", path / "drawn.svg")


SURFACES: dict[str, Surface] = {
    "findings": partial(opened, _finding, use_finding),
    "corpora": partial(opened, _corpus, use_corpus),
    "ledgers": partial(opened, _ledger, use_ledger),
    "campaigns": partial(opened, _campaign, use_campaign),
    "models": partial(opened, _generated, use_model, change_model),
    "graphs": partial(opened, _generated, use_graph, change_graph),
}
