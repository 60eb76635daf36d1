"""Puts the parts of a campaign together: rows and folders of finding, each once.

Neither the order of the parts nor how often one is given matters: of two rows of one thing the same
one stays whichever comes first, and epochs are named by what holds in them. So the parts of parts
may be put together, and a part again that has gone on meanwhile. Which findings are one cause is
not decided here: the rules of a campaign decide it of its rows (nnfuzz.records.rows.merged).

A result knows what it has been made of: the segments, and how far each part was. What comes later
is added to a copy of its file, so that merging again costs what is new.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nnfuzz.base.files import PARTIAL, atomic_folder, copy_files, write_atomically
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import below, making_sense, read_json
from nnfuzz.base.writing import as_json
from nnfuzz.parts.depot import Depot
from nnfuzz.parts.segments import segments_in, still_taken, taken_of, unpacked
from nnfuzz.parts.sources import ADDED, SOURCES, Figures, name_of, newest, sources_of
from nnfuzz.records.config import LIMITS, CampaignConfig
from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.store.recorder import DESIGN, arrange, mend
from nnfuzz.store.schema import FINDINGS, FOLDERS
from nnfuzz.store.statistics import Statistics, summary
from nnfuzz.store.store import FILE, Store
from nnfuzz.store.union import NOTHING, DifferentTests, Taken, add_rows
from nnfuzz.upkeep.post_reduction import SUMMARY, findings_figures
from nnfuzz.upkeep.rekeying import RULES
from nnfuzz.upkeep.remerge import renew_variants

REPLACED = ".merged-over-"
"""Prefix of the folder that a newer one is about to replace."""


NOTE = "merged.json"
"""In the folder of what was put together: see Merged."""


@dataclass(frozen=True)
class Merged:
    """What is in a result: segments, and what there was of each part, both by name."""

    segments: tuple[str, ...] = ()
    parts: dict[str, Taken] = field(default_factory=dict)


class MergeError(Unreadable):
    """Campaigns that are no parts of one; the message names the reason."""


def merge(sources: Sequence[str | Path], out: Path, note: Callable[[str], None]) -> Store:
    """Writes what the campaigns hold into a new one, or over an earlier result of this, which then
    counts as one of them; it is there whole or not at all. Returns it, open.

    sources: folders of campaigns, or depots of segments (nnfuzz.parts.segments).

    Raises: MergeError, StoreError.
    """
    settle(out)
    earlier = _earlier(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        beside = tempfile.TemporaryDirectory(prefix=PARTIAL, dir=out.parent)
        scratch = Path(stack.enter_context(beside))
        known = earlier.segments if earlier else ()
        found = [told for s in sources for told in campaigns_in(str(s), scratch, known).items()]
        if (out / FILE).exists() and not earlier:  # of another version: all of it is read
            found.append(("", out))
        # Whatever is named twice is locked and read once.
        places = {folder.resolve(): name for name, folder in found}
        if earlier:
            places.pop(out.resolve(), None)
            if not places:
                return Store.open(out)
        parts = {stack.enter_context(Store.open(place)): name for place, name in places.items()}
        with _in_place_of(out) as made:
            if earlier:
                _copied(out, made)
            with Store.open(made) if earlier else Store.create(made, {}) as target:
                _add_all(target, parts, earlier or Merged())
                finish(target, [*([target] if earlier else ()), *parts], note)
    return Store.open(out)


def _earlier(out: Path) -> Merged | None:
    """What an earlier result was made of; None if there is none that knows. Raises: MergeError."""
    if not (out / FILE).exists():
        if out.exists() and any(out.iterdir()):
            raise MergeError(f"{out} holds other files: choose another --out")
        return None
    with Store.open(out) as store:
        if store.meta(SOURCES) is None:
            raise MergeError(f"{out} holds a campaign, and no merged one: choose another --out")
    note = out / NOTE
    return read(Merged, read_json(note)) if note.exists() else None


def _copied(out: Path, made: Path) -> None:
    """The file of an earlier result, and its findings, whose files are the same ones: nobody
    changes a file of a finding, but puts another one in its place.
    """
    with Store.open(out) as store:
        store.checkpoint()
        shutil.copyfile(out / FILE, made / FILE)
    for place in FOLDERS:
        if (out / place).is_dir():
            shutil.copytree(out / place, made / place, copy_function=_linked, dirs_exist_ok=True)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system that has no links
        shutil.copy2(source, target)


def _add_all(target: Store, parts: Mapping[Store, str], earlier: Merged) -> None:
    """parts: to the names of the segments that they are, "" for campaigns. Raises: MergeError."""
    check_alike([*parts, *([target] if target.meta("config") else ())])
    taken = dict(earlier.parts)
    for part, segment in parts.items():
        name = name_of(part)
        before = NOTHING if segment else still_taken(part, earlier.parts.get(name, NOTHING))
        now = NOTHING if segment else taken_of(part, before)
        try:
            add(target, part, before)
        except DifferentTests as different:
            raise MergeError(
                f"{_with(different.index, [*parts, target])} and {part.folder} have different test "
                f"cases of index {different.index}: parts of one campaign are made with --shard"
            ) from None
        if now.tests > taken.get(name, NOTHING).tests:
            taken[name] = now
    segments = {*earlier.segments, *filter(None, parts.values())}
    told = asdict(Merged(tuple(sorted(segments)), taken))
    write_atomically(target.folder / NOTE, json.dumps(told, indent=1).encode())


def _with(index: int, parts: Sequence[Store]) -> Path:
    """The folder of the first of several campaigns with a test of an index."""
    return next(part.folder for part in parts if part.tests.count(index, index + 1))


def campaigns_in(source: str, scratch: Path, known: Container[str] = ()) -> dict[str, Path]:
    """The folder of a campaign itself, by "", or those of the segments that a depot holds,
    unpacked, by their names. known: segments that are left out.

    Raises: MergeError, Unreadable.
    """
    if "://" not in source and os.path.lexists(Path(source, FILE)):
        return {"": Path(source)}
    depot = Depot(source)
    if not segments_in(depot):
        raise MergeError(f"{source} is no campaign, and holds no segments of one")
    return unpacked(depot, scratch, known)


def settle(out: Path) -> None:
    """Ends what a kill has interrupted: the earlier result is there, or the newer one."""
    for old in out.parent.glob(f"{REPLACED}{out.name}"):
        if out.exists():
            shutil.rmtree(old)
        else:
            os.replace(old, out)


@contextmanager
def _in_place_of(out: Path) -> Iterator[Path]:
    """A folder that takes the place of another one, or of none, once the block has ended well."""
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


def check_alike(parts: Sequence[Store]) -> None:
    """Raises: MergeError if settings differ."""
    first, *others = parts
    wanted = _settings(first)
    for other in others:
        differing = [name for name, value in _settings(other).items() if wanted[name] != value]
        if differing:
            raise MergeError(
                f"{other.folder} and {first.folder} are no parts of one campaign: they differ in "
                + ", ".join(sorted(differing))
            )


def _settings(store: Store) -> dict[str, Any]:
    left_out = {*LIMITS, "shard"}
    config = as_json(CampaignConfig.from_json(store.config()))
    return {name: value for name, value in config.items() if name not in left_out}


def _together(parts: Sequence[Store]) -> CampaignConfig:
    """The settings of the whole: limits that all of them keep."""
    configs = [CampaignConfig.from_json(part.config()) for part in parts]
    times = [config.time_limit for config in configs]
    tests = [config.tests_limit for config in configs]
    return replace(
        configs[0],
        shard="",
        share="",
        time_limit=None if None in times else max(t for t in times if t is not None),
        tests_limit=None if None in tests else max(n for n in tests if n is not None),
        workers=max(config.workers for config in configs),
        producers=max(config.producers for config in configs),
        reduce=any(config.reduce for config in configs),
        known=tuple(sorted({line for config in configs for line in config.known})),
    )


# -- one part more --------------------------------------------------------------------------------


def add(target: Store, part: Store, taken: Taken = NOTHING) -> None:
    """Adds what a part holds and the target lacks. taken: of the part, before.

    Raises: DifferentTests.
    """
    known = target.reductions.rows()
    mine = {row.signature: (row, known.get(row.signature)) for row in target.signatures.rows()}
    reductions, suspects = part.reductions.rows(), part.reductions.suspects()
    add_rows(target, part, taken)
    for row in part.signatures.rows():
        reduction = reductions.get(row.signature)
        before = mine.get(row.signature)
        if before is not None and _order(*before) <= _order(row, reduction):
            target.signatures.date(row.signature, row.found_at)
            continue
        found_at = min(row.found_at, before[0].found_at) if before else row.found_at
        place = f"{FINDINGS}/{Path(row.folder).name}"
        _copy(below(part.folder, row.folder), target.folder / place)
        row = replace(row, folder=place, found_at=found_at)
        target.signatures.take(row, reduction, suspects.get(row.signature, ""))


def _order(row: FindingRow, reduction: ReductionRow | None) -> tuple[Any, ...]:
    """Which of two rows of a signature stays: as in one campaign, one that is reduced stays, else
    the first one in the order of tests and probes.
    """
    reduced = reduction is not None and not reduction.reason
    told = json.dumps(as_json(reduction), sort_keys=True) if reduction else ""
    return not reduced, row.place, str(row.test), row.title, row.party, told


def _copy(source: Path, target: Path) -> None:
    """A folder of a finding, in place of another one. Raises: Unreadable."""
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        with making_sense(source):
            copy_files(source, target)


# -- what holds for the whole ---------------------------------------------------------------------


def finish(target: Store, parts: Sequence[Store], note: Callable[[str], None]) -> None:
    """Settings, figures and order of the whole."""
    target.set_meta("config", as_json(_together(parts)))
    for name in ("versions", "releases"):
        target.set_meta(name, _versions([part.meta(name, {}) for part in parts]))
    target.set_meta("habits", _habits([part.meta("habits", {}) for part in parts]))
    rules = {part.meta(RULES) for part in parts}
    if len(rules) == 1 and None not in rules:
        target.set_meta(RULES, rules.pop())
    else:
        note("the parts were keyed by different rules of triage: nnfuzz reduce keys them anew")
    sources: dict[str, Figures] = {}
    for part in parts:
        for name, figures in sources_of(part).items():
            sources[name] = newest(sources.get(name, figures), figures)
    target.set_meta(SOURCES, dict(sorted(sources.items())))
    for place in FOLDERS:
        mend(target.folder / place)
    arrange(target, {row.signature: row for row in target.signatures.rows()}, target.findings())
    renew_variants(target)
    text = json.dumps(merged_summary(target), indent=1) + "\n"
    write_atomically(target.folder / SUMMARY, text.encode())


def _versions(told: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """By name; where parts differ, all of them."""
    found: dict[str, set[str]] = {}
    for versions in told:
        for name, version in versions.items():
            found.setdefault(name, set()).update(version.split(" | "))
    return {name: " | ".join(sorted(versions)) for name, versions in sorted(found.items())}


def _habits(told: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, set[str]] = {}
    for habits in told:
        for backend, own in habits.items():
            found.setdefault(backend, set()).update(json.dumps(habit) for habit in own)
    return {name: [json.loads(text) for text in sorted(own)] for name, own in sorted(found.items())}


def merged_summary(store: Store) -> dict[str, Any]:
    """The content of summary.json of campaigns that were put together. seconds: of all parts."""
    figures = Statistics()
    for row in store.tests.rows():
        figures.add(row)
    config, sources = CampaignConfig.from_json(store.config()), store.meta(SOURCES, {})
    shares, buckets = store.sessions.sut_shares(), store.occurrences.buckets()
    hangs: Counter[str] = Counter()
    standstills: Counter[str] = Counter()
    for told in sources.values():
        hangs.update(told["hangs_of_survey"])
        standstills.update(told.get("standstills", {}))
    added = {name: sum(told.get(name, 0) for told in sources.values()) for name in ADDED}
    extra = {
        **findings_figures(store),
        **added,
        "sources": sources,
        "faults": sum(event.kind == "fault" for event in store.events.rows()),
        "flaky": buckets.get("flaky", 0),
        "flaky_failures": [vars(row) for row in store.occurrences.flaky()],
        "hangs": dict(Counter(row.status.value for row in store.hangs.rows())),
        "hangs_of_survey": dict(hangs),
        "standstills": dict(standstills),
        "by_design": buckets.get(DESIGN, 0),
        "known_unseen": [],
        "unconfirmed_hangs": [row.to_json() for row in store.hangs.unconfirmed()],
        "refused": len(store.restraints.reasons()),
        "avoided": [vars(row) for row in store.restraints.ever_avoided()],
        "avoided_before": [],
        "sut_shares": {name: round(share, 4) for name, share in shares.items()},
        "versions": store.meta("versions", {}),
        "habits": {s.label: list(map(str, store.habits(s.label) or ())) for s in config.backends},
        "seed": config.seed,
        "config": as_json(config),
    }
    mean = sum(shares.values()) / len(shares) if shares else 0.0
    return summary(figures, store.findings(), store.sessions.seconds_before(), mean, extra)
