"""Files of somebody else, changed at random: findings, corpora, campaigns, models, settings.

Commands run in one process for all attacks, which is confined to a temporary folder. One that reads
ends with 0, or with 2 and one line; nothing is written outside of the folder that it was given.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from attacks import Attack, Surface
from attacks.confined import confined
from attacks.mutations import mutated, scrambled

ROOT = Path(__file__).parents[2]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.symlink", "os.truncate")


class Guard:
    """Notes, and prevents, what this process writes outside of a folder, while there is one."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if (writes or event in CHANGES) and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.fsdecode(arguments[0])
            followed = event == "open" and not int(arguments[2]) & os.O_NOFOLLOW
            parent, name = os.path.split(os.path.abspath(path))
            path = os.path.realpath(path) if followed else f"{os.path.realpath(parent)}/{name}"
            inside = Path(path).is_relative_to(self.folder) or path == os.devnull
            if not inside and "__pycache__" not in path:
                self.seen.append(f"{event} {path}")
                raise PermissionError(f"{event} {path} is outside of what is attacked")

    @contextmanager
    def watching(self, folder: Path) -> Iterator[None]:
        self.seen, self.folder = [], folder.resolve()
        try:
            yield
        finally:
            self.folder = None


def command(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `nnfuzz ARGUMENTS`."""
    from nnfuzz.cli.main import application, run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run(lambda: application()([str(argument) for argument in arguments]))
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), err.getvalue()
    return -1, out.getvalue(), err.getvalue()


def judged(*arguments: object, allowed: tuple[int, ...] = (0, 2)) -> str:
    """What is wrong with the end of a command."""
    code, _, err = command(*arguments)
    errors = [line for line in err.splitlines() if not line.startswith("note: ")]
    if code not in allowed or "Traceback" in err:
        return f"{arguments[0]} ended with {code}: {err}"
    if code == 2 and (len(errors) != 1 or not errors[0].startswith("error: ")):
        return f"{arguments[0]} told more than a line: {err}"
    return ""


def changed(folder: Path, rng: random.Random) -> None:
    """Changes one or two files of a folder."""
    for _ in range(rng.choice((1, 1, 2))):
        files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
        if not files:  # never write through a link: it leads out of the folder
            return
        path = rng.choice(files)
        how = rng.random()
        if path.suffix == ".json" and how < 0.6:
            with contextlib.suppress(RecursionError, ValueError):  # too deep; damaged already
                value = mutated(json.loads(path.read_text()), rng)
                path.write_text(json.dumps(value), encoding="utf-8")
        elif how < 0.75:
            path.write_bytes(scrambled(path.read_bytes(), rng))
        elif how < 0.82:
            path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])
        elif how < 0.9:
            data = rng.choice(files).read_bytes()
            path.write_bytes(data) if rng.random() < 0.9 else path.unlink()
        else:
            special(path, folder, rng)


def special(path: Path, folder: Path, rng: random.Random) -> None:
    """Puts a link or a pipe in the place of a file."""
    path.unlink()
    how = rng.randrange(4)
    if how == 0:
        os.mkfifo(path)
    else:
        bait = folder.parent / "bait"  # a file outside of the folder that may be lost
        bait.write_text("precious")
        path.symlink_to(("/dev/zero", bait, path)[how - 1])


@contextmanager
def opened(
    make: Callable[[Path], Path], use: Callable[[Path, random.Random], str]
) -> Iterator[Attack]:
    """make: a folder to attack; use: what is done with the changed copy, in another process."""
    sys.path.append(str(ROOT))
    with tempfile.TemporaryDirectory(prefix="nnfuzz-attack-") as name:
        folder = Path(name).resolve()
        whole = make(folder / "whole")

        def prepare() -> Attack:
            guard = Guard()
            if problem := use(shutil.copytree(whole, folder / "unchanged"), random.Random(0)):
                raise ValueError(f"what is unchanged fails: {problem}")
            return lambda rng: _attacked(whole, folder / "place", use, guard, rng)

        with confined(folder, prepare) as attack:
            yield attack


def _attacked(
    whole: Path,
    place: Path,
    use: Callable[[Path, random.Random], str],
    guard: Guard,
    rng: random.Random,
) -> str:
    """What went wrong with a changed copy of a folder."""
    copy = shutil.copytree(whole, place / "copy")
    try:
        changed(copy, rng)
        with guard.watching(copy):
            problem = use(copy, rng)
        return problem or "\n".join(guard.seen)
    finally:
        shutil.rmtree(place)


def _finding(folder: Path) -> Path:
    from tests.attacks.samples import finding_folder

    return finding_folder(folder)


def _corpus(folder: Path) -> Path:
    from tests.attacks.samples import corpus

    return corpus(folder)


def _campaign(folder: Path) -> Path:
    import sqlite3

    from tests.attacks.samples import campaign

    campaign(folder)
    with contextlib.closing(sqlite3.connect(folder / "campaign.sqlite")) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return folder


def use_finding(folder: Path, rng: random.Random) -> str:
    """What replay does but for the processes: a case that is taken can be judged and reported."""
    from nnfuzz.cli.consent import Consent
    from nnfuzz.cli.errors import UsageError
    from nnfuzz.cli.findings import backend_of, open_finding
    from nnfuzz.reading import Unreadable
    from nnfuzz.report.tracker import tracker_report

    try:
        consent = Consent(folder)
        found = open_finding(folder, consent)
        backend_of(found, "onnxruntime", [], consent)
        if found.case.model:
            _producer().check(found.case)
            outputs = {o.target: o.outputs for o in found.outcomes if o.outputs}
            _producer().judge(found.case, outputs)
        tracker_report(found)
    except (Unreadable, UsageError):
        pass
    return judged("show", folder)


_KEPT: list[object] = []


def _producer() -> object:
    from nnfuzz.testcase.case import CaseConfig
    from nnfuzz.testcase.producer import Producer

    if not _KEPT:
        _KEPT.append(Producer(0, CaseConfig(exporter="direct")))
    return _KEPT[0]


def use_corpus(folder: Path, rng: random.Random) -> str:
    from nnfuzz.corpus.layout import find_tests
    from nnfuzz.reading import Unreadable

    for test in find_tests(folder):
        try:
            if case := test.case():
                _producer().check(case)
        except Unreadable:
            pass
        with contextlib.suppress(Unreadable):
            test.data_sets()
    return ""


def use_campaign(folder: Path, rng: random.Random) -> str:
    """The page; and what --resume does before it starts a process."""
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.recorder import Recorder
    from nnfuzz.campaign.store import Store
    from nnfuzz.reading import Unreadable

    if problem := judged("report", folder):
        return problem
    try:
        with Store.open(folder) as store:
            CampaignConfig.from_json(store.config())
            Recorder(store, (), lambda *_: None, lambda row: None).findings()
    except Unreadable:
        pass
    return ""


def use_model(folder: Path, rng: random.Random) -> str:
    from nnfuzz.reading import Unreadable
    from nnfuzz.untrusted import read_model

    with contextlib.suppress(Unreadable):
        read_model(folder / "model.onnx")
    return judged("show", folder / "model.onnx") if (folder / "model.onnx").exists() else ""


def _model(folder: Path) -> Path:
    from tests.corpus.by_hand import model

    folder.mkdir()
    (folder / "model.onnx").write_bytes(model())
    return folder


SURFACES = (
    Surface("findings", 4, partial(opened, _finding, use_finding), "finding folders"),
    Surface("corpora", 2, partial(opened, _corpus, use_corpus), "ONNX backend tests"),
    Surface("campaigns", 3, partial(opened, _campaign, use_campaign), "campaign folders"),
    Surface("models", 1, partial(opened, _model, use_model), "ONNX models"),
)
