"""Merges the parts of a campaign: rows and folders of findings, each once.

Neither the order of the parts nor naming one twice changes the result: which of two rows stays does
not depend on which came first, and an epoch is named by its content. So merged campaigns may be
merged, and a part may be merged again after it has gone on. Which findings have one cause is
decided later, by the rules that every campaign follows (nnfuzz.records.rows.merged).

An earlier result is a campaign like any other: it is read again with the parts that are new.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnfuzz.base.files import PARTIAL, atomic_folder, copy_files
from nnfuzz.base.reading import Json, Unreadable
from nnfuzz.base.untrusted import below, making_sense
from nnfuzz.base.writing import as_json
from nnfuzz.parts.sources import SOURCES, added, newest, sources_of
from nnfuzz.records.config import LIMITS, CampaignConfig
from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.store.finding_folders import arrange, mend
from nnfuzz.store.schema import FINDINGS, FOLDERS
from nnfuzz.store.statistics import Statistics
from nnfuzz.store.store import FILE, Store
from nnfuzz.store.summary import PartFigures, Summary, summarise, write_summary
from nnfuzz.store.union import DifferentTests, add_rows

REPLACED = ".merged-over-"
"""Prefix of the folder that a newer one is about to replace."""


class MergeError(Unreadable):
    """Campaigns are not parts of one campaign; the message names the reason."""


def merge(sources: Sequence[Path], out: Path, note: Callable[[str], None]) -> Store:
    """Merges campaigns into the folder `out` and returns the result, open.

    An earlier result in `out` counts as one of the campaigns. The new result is written completely
    or not at all.

    Raises: MergeError, StoreError.
    """
    finish_replacement(out)
    earlier = _is_merged(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    # A campaign that is named twice is locked and read once.
    places = dict.fromkeys(folder.resolve() for folder in [*([out] if earlier else ()), *sources])
    with ExitStack() as stack:
        parts = [stack.enter_context(Store.open(place)) for place in places]
        check_settings(parts)
        with _in_place_of(out) as made, Store.create(made, {}) as target:
            for part in parts:
                _add(target, part, parts)
            finish(target, parts, note)
    return Store.open(out)


def _is_merged(out: Path) -> bool:
    """Whether a folder holds an earlier result. Raises: MergeError if it holds something else."""
    if not (out / FILE).exists():
        if out.exists() and any(out.iterdir()):
            raise MergeError(f"{out} holds other files: choose another --out")
        return False
    with Store.open(out) as store:
        if store.meta(SOURCES) is None:
            raise MergeError(f"{out} holds a campaign, and no merged one: choose another --out")
    return True


def _add(target: Store, part: Store, parts: Sequence[Store]) -> None:
    """Adds a part to a campaign that some of the parts are in. Raises: MergeError."""
    try:
        add(target, part)
    except DifferentTests as different:
        first = next(p.folder for p in parts if p.tests.count(different.index, different.index + 1))
        raise MergeError(
            f"{first} and {part.folder} have different test cases of index {different.index}: "
            "parts of one campaign are made with --set shard=K/N"
        ) from None


def finish_replacement(out: Path) -> None:
    """Finishes the replacement of a folder that a kill has interrupted: removes the earlier result
    if the newer one is in place, else puts it back.
    """
    for old in out.parent.glob(f"{REPLACED}{out.name}"):
        if out.exists():
            shutil.rmtree(old)
        else:
            os.replace(old, out)


@contextmanager
def _in_place_of(out: Path) -> Iterator[Path]:
    """A new folder, which replaces `out` when the block has ended well."""
    if out.exists() and not any(out.iterdir()):
        out.rmdir()
    if not out.exists():
        with atomic_folder(out) as made:
            yield made
        return
    newer = out.with_name(f"{PARTIAL}merged-{out.name}")
    shutil.rmtree(newer, ignore_errors=True)
    with atomic_folder(newer) as made:
        yield made
    old = out.with_name(f"{REPLACED}{out.name}")
    os.replace(out, old)
    os.replace(newer, out)
    shutil.rmtree(old)


# -- are they parts of one campaign? --------------------------------------------------------------


def check_settings(parts: Sequence[Store]) -> None:
    """Raises: MergeError if the settings of two parts differ."""
    first, *others = parts
    wanted = _settings(first)
    for other in others:
        differing = [name for name, value in _settings(other).items() if wanted[name] != value]
        if differing:
            raise MergeError(
                f"{other.folder} and {first.folder} are no parts of one campaign: they differ in "
                + ", ".join(sorted(differing))
            )


def _settings(store: Store) -> dict[str, object]:
    left_out = {*LIMITS, "shard"}
    config = as_json(CampaignConfig.from_json(store.config()))
    return {name: value for name, value in config.items() if name not in left_out}


def _merged_config(parts: Sequence[Store]) -> CampaignConfig:
    """The settings of the whole campaign, with limits that no part exceeds."""
    configs = [CampaignConfig.from_json(part.config()) for part in parts]
    times = [config.time_limit for config in configs]
    tests = [config.tests_limit for config in configs]
    return replace(
        configs[0],
        shard="",
        time_limit=None if None in times else max(t for t in times if t is not None),
        tests_limit=None if None in tests else max(n for n in tests if n is not None),
        workers=max(config.workers for config in configs),
        reduce=any(config.reduce for config in configs),
        known=tuple(sorted({line for config in configs for line in config.known})),
    )


# -- adding a part --------------------------------------------------------------------------------


def add(target: Store, part: Store) -> None:
    """Adds all rows and findings of a part that the target lacks. Raises: DifferentTests."""
    known = target.reductions.rows()
    mine = {row.signature: (row, known.get(row.signature)) for row in target.signatures.rows()}
    reductions, suspects = part.reductions.rows(), part.reductions.suspects()
    add_rows(target, part)
    for row in part.signatures.rows():
        reduction = reductions.get(row.signature)
        before = mine.get(row.signature)
        if before is not None and _order(*before) <= _order(row, reduction):
            target.signatures.date(row.signature, row.found_at)
            continue
        found_at = min(row.found_at, before[0].found_at) if before else row.found_at
        place = f"{FINDINGS}/{Path(row.folder).name}"
        if before is not None:  # arranged elsewhere, as a suspect or a duplicate
            shutil.rmtree(below(target.folder, before[0].folder), ignore_errors=True)
        _copy(below(part.folder, row.folder), target.folder / place)
        row = replace(row, folder=place, found_at=found_at)
        target.signatures.take(row, reduction, suspects.get(row.signature, ""))


def _order(row: FindingRow, reduction: ReductionRow | None) -> tuple[object, ...]:
    """Sort key: of two rows of a signature the lesser one stays. As in one campaign, that is a
    reduced one, else the first one in the order of tests and probes.
    """
    reduced = reduction is not None and not reduction.reason
    text = json.dumps(as_json(reduction), sort_keys=True) if reduction else ""
    return not reduced, row.place, str(row.test), row.title, row.party, text


def _copy(source: Path, target: Path) -> None:
    """Copies the folder of a finding over another one. Raises: Unreadable."""
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        with making_sense(source):
            copy_files(source, target)


# -- the whole campaign ---------------------------------------------------------------------


def finish(target: Store, parts: Sequence[Store], note: Callable[[str], None]) -> None:
    """Writes settings, figures, the summary and the order of findings of the whole campaign."""
    target.set_meta("config", as_json(_merged_config(parts)))
    for name in ("versions", "releases"):
        target.set_meta(name, _versions([part.meta(name, {}) for part in parts]))
    target.set_meta("habits", _habits([part.meta("habits", {}) for part in parts]))
    sources: dict[str, PartFigures] = {}
    for part in parts:
        for name, figures in sources_of(part).items():
            sources[name] = newest(sources.get(name, figures), figures)
    target.set_meta(SOURCES, as_json(dict(sorted(sources.items()))))
    for place in FOLDERS:
        mend(target.folder / place)
    arrange(target, {row.signature: row for row in target.signatures.rows()}, target.findings())
    write_summary(target.folder, merged_summary(target))


def _versions(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Versions by name; if parts differ, all versions of a name."""
    by_name: dict[str, set[str]] = {}
    for versions in parts:
        for name, version in versions.items():
            by_name.setdefault(name, set()).update(version.split(" | "))
    return {name: " | ".join(sorted(versions)) for name, versions in sorted(by_name.items())}


def _habits(parts: Sequence[Mapping[str, Json]]) -> dict[str, list[Any]]:
    by_backend: dict[str, set[str]] = {}
    for habits in parts:
        for backend, own in habits.items():
            by_backend.setdefault(backend, set()).update(json.dumps(habit) for habit in own)
    return {
        name: [json.loads(text) for text in sorted(own)] for name, own in sorted(by_backend.items())
    }


def merged_summary(store: Store) -> Summary:
    """Returns the summary of merged campaigns. seconds: of all parts."""
    figures = Statistics()
    for row in store.tests.rows():
        figures.add(row)
    config, sources = CampaignConfig.from_json(store.config()), sources_of(store)
    return summarise(store, config, figures, added(sources.values()), sources=sources)
