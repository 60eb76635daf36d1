"""Finds and repairs damage in the folder of a campaign.

A campaign repairs the traces of a kill by itself when it goes on. This module is for damaged disks,
half-made copies, and folders that somebody has moved or deleted. Nothing that could be a finding is
thrown away: folders without a row are put aside, and all readable rows of a damaged file are kept,
beside the file itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.base.reading import Unreadable
from nnfuzz.findings.folder import is_finding
from nnfuzz.parts.merging import NOTE, REPLACED, finish_replacement
from nnfuzz.parts.sources import SOURCES
from nnfuzz.records.config import CampaignConfig, ConfigError, refuse_guided
from nnfuzz.records.observer import counted
from nnfuzz.store.database import hold
from nnfuzz.store.disk import LARGE_LOG, log_bytes
from nnfuzz.store.finding_folders import leftovers, mend
from nnfuzz.store.repairs import strays, unreadable_tests, unrestrained_tests
from nnfuzz.store.rescue import damage, rescue
from nnfuzz.store.schema import FOLDERS
from nnfuzz.store.store import FILE, Store, StoreError

ORPHANS = "orphans"
"""Name of the folder for folders that belong to no finding."""
RESCUED, DAMAGED = f"{FILE}.rescued", f"{FILE}.damaged"
SHOWN = 3  # names in one line
T = TypeVar("T")


@dataclass(frozen=True)
class FolderProblem:
    """A problem of a campaign's folder.

    description: of the problem. remedy: description of what `mend` does, which may be called until
    the next problem is asked for. If `mend` is None, only the user can do it.
    """

    description: str
    remedy: str
    mend: Callable[[], object] | None


def problems(folder: Path) -> Iterator[FolderProblem]:
    """The problems of a campaign that is not running. One that hides the others comes first, and
    is the only one if it is not mended.

    Raises: StoreError if there is no campaign, another process works on it, or another version has
    made it.
    """
    yield from _interrupted(folder)
    if not (folder / FILE).exists():
        raise StoreError(f"{folder} holds no campaign: there is no {FILE}")
    with hold(folder):
        if damaged := damage(folder / FILE):
            remedy = f"keep what can be read, and the damaged file as {DAMAGED}"
            yield FolderProblem(f"{FILE} is damaged: {damaged}", remedy, partial(_rescue, folder))
            if damage(folder / FILE):
                return
    with Store.open(folder) as store:
        yield from _settings(store)
        yield from _leftovers(store)
        yield from _moved(store)
        yield from _gone(store)
        yield from _orphans(store)
        yield from _rows(store)
        yield from _log(store)


def _interrupted(folder: Path) -> Iterator[FolderProblem]:
    """An interrupted merge or repair."""
    if folder.with_name(f"{REPLACED}{folder.name}").exists():
        yield FolderProblem(
            f"nnfuzz merge was interrupted when it replaced {folder}",
            "keep the newer result if it is there, else the older one",
            partial(finish_replacement, folder),
        )
    if (folder / RESCUED).exists() and not (folder / FILE).exists():
        end = partial(os.replace, folder / RESCUED, folder / FILE)
        yield FolderProblem("a repair was interrupted", "go on with it", end)


def _rescue(folder: Path) -> None:
    _read_all_again(folder)
    (folder / RESCUED).unlink(missing_ok=True)
    rescue(folder / FILE, folder / RESCUED)
    os.replace(folder / FILE, folder / DAMAGED)
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder / f"{FILE}{suffix}", folder / f"{DAMAGED}{suffix}")
    os.replace(folder / RESCUED, folder / FILE)


def _settings(store: Store) -> Iterator[FolderProblem]:
    """Settings that nnfuzz fuzz --resume would refuse. No plug-in is loaded."""
    try:
        refuse_guided(store.config())
        config = CampaignConfig.from_json(store.config())
    except (ConfigError, RegistryError, Unreadable) as error:
        remedy = "the tests stay readable; start a new campaign in another folder"
        yield FolderProblem(f"settings that nnfuzz fuzz --resume refuses: {error}", remedy, None)
        return
    for path in config.plugins:
        if path.endswith(".py") and not Path(path).is_file():
            yield FolderProblem(f"the plug-in {path} is gone", "put it back to go on", None)
    registry = BackendRegistry.discover(())
    for spec in config.backends:
        try:
            if not spec.plugins:
                registry.get(spec.name)(**spec.options)
        except (RegistryError, OptionError, TypeError) as error:
            yield FolderProblem(
                str(error), f"install what has the backend {spec.name} to go on", None
            )


# -- files and folders ----------------------------------------------------------------------------


def _leftovers(store: Store) -> Iterator[FolderProblem]:
    """Files and folders that killed writers have left."""
    places = [store.folder / place for place in FOLDERS]
    if found := [path.name for place in places for path in leftovers(place)]:

        def clean() -> None:
            for place in places:
                mend(place)

        text = f"{counted(len(found), 'leftover')} of killed writers: {_some(found)}"
        yield FolderProblem(text, "remove them, or put back what they were about to replace", clean)


def _moved(store: Store) -> Iterator[FolderProblem]:
    """Findings whose folder lies elsewhere in the campaign."""
    there = {path.name: place for place, path in _folders(store) if is_finding(path)}
    owned = {row.folder for row in store.signatures.rows()}
    found = {}
    for row in store.signatures.rows():
        place = there.get(Path(row.folder).name)
        if not is_finding(store.folder / row.folder) and place and place not in owned:
            found[row.signature] = row.folder, place
    if found:

        def follow() -> None:
            for signature, (old, place) in found.items():
                shutil.rmtree(store.folder / old, ignore_errors=True)
                store.signatures.move(signature, place)

        places = _some(place for _, place in found.values())
        text = f"{counted(len(found), 'finding')} elsewhere than noted: {places}"
        yield FolderProblem(text, "note where they are", follow)


def _gone(store: Store) -> Iterator[FolderProblem]:
    """Findings without a folder."""
    rows = store.signatures.rows()
    if gone := [row for row in rows if not is_finding(store.folder / row.folder)]:

        def forget() -> None:
            for row in gone:
                store.signatures.forget(row.signature)
            _read_all_again(store.folder)

        text = f"{counted(len(gone), 'finding')} without folder: {_some(r.folder for r in gone)}"
        yield FolderProblem(
            text, "forget them until they occur again; their occurrences stay", forget
        )


def _orphans(store: Store) -> Iterator[FolderProblem]:
    """Folders without a finding."""
    owned = {row.folder for row in store.signatures.rows()}
    if found := [path for place, path in _folders(store) if place not in owned]:

        def put_aside() -> None:
            (store.folder / ORPHANS).mkdir(exist_ok=True)
            for path in found:
                target = store.folder / ORPHANS / path.name
                shutil.rmtree(target, ignore_errors=True)
                os.replace(path, target)

        text = f"{counted(len(found), 'folder')} of no finding: {_some(p.name for p in found)}"
        yield FolderProblem(text, f"move them to {ORPHANS}/", put_aside)


def _folders(store: Store) -> Iterator[tuple[str, Path]]:
    """All folders that may belong to findings, each with its name in rows."""
    for place in FOLDERS:
        for path in sorted((store.folder / place).glob("[!.]*")):
            if path.is_dir():
                yield f"{place}/{path.name}", path


# -- the file -------------------------------------------------------------------------------------


def _rows(store: Store) -> Iterator[FolderProblem]:
    """Rows that belong to nothing, or cannot be read."""
    for noun, count, remove in strays(store):
        yield FolderProblem(counted(count, noun), "remove", remove)
    remedy = f"forget them: {_again(store)} again"
    if unread := unreadable_tests(store):
        text = f"{counted(len(unread), 'test')} that cannot be read: {_some(map(str, unread))}"
        yield FolderProblem(text, remedy, partial(_forget, store, store.tests.forget, unread))
    if packs := store.tests.packs.damaged():
        text = f"{counted(len(packs), 'pack')} of old tests that cannot be read"
        yield FolderProblem(text, remedy, partial(_forget, store, store.tests.packs.forget, packs))
    if names := store.tests.packs.misnamed():
        text = f"{counted(len(names), 'pack')} of old tests with others than noted"
        yield FolderProblem(text, "note what they hold", partial(store.tests.packs.rename, names))
    merged = store.meta(SOURCES) is not None
    if merged and (lost := unrestrained_tests(store)):
        text = (
            f"{counted(len(lost), 'test')} of epochs that are half merged: {_some(map(str, lost))}"
        )
        yield FolderProblem(text, remedy, partial(_forget, store, store.tests.forget, lost))


def _again(store: Store) -> str:
    """The command that brings tests back."""
    if store.meta(SOURCES) is None:
        return "nnfuzz fuzz --resume runs them"
    return "nnfuzz merge of all parts adds them"


def _forget(store: Store, forget: Callable[[T], object], rows: T) -> None:
    forget(rows)
    _read_all_again(store.folder)


def _read_all_again(folder: Path) -> None:
    """Has the next merge read all parts again, since the campaign lacks rows of some."""
    (folder / NOTE).unlink(missing_ok=True)


def _log(store: Store) -> Iterator[FolderProblem]:
    if (size := log_bytes(store.folder)) > LARGE_LOG:
        yield FolderProblem(
            f"{FILE}-wal has {size >> 20} MB", "write it into the database", store.checkpoint
        )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:SHOWN]) + (", ..." if listed[SHOWN:] else "")
