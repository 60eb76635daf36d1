"""Lines of known failures from files, folders of findings, and earlier campaigns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import JsonObject, Unreadable, read
from nnfuzz.base.untrusted import read_json
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.ledger import Ledger, bugs_of, is_ledger, known_bugs
from nnfuzz.findings.keyed import known_by
from nnfuzz.records.config import ConfigError
from nnfuzz.store.store import Store
from nnfuzz.triage.keys import Key
from nnfuzz.triage.known import KnownError, KnownFailures


def known_failures(path: Path, registry: BackendRegistry) -> tuple[str, ...]:
    """The lines of a file of known failures; of a folder, lines for the findings in it by today's
    rules; of a ledger, lines for its bugs but the fixed ones.

    registry: with the backends of the findings; of others, hashes alone are known.
    Raises: ConfigError, BugError.
    """
    if path.is_dir() and is_ledger(path):
        return known_bugs(Ledger(path), registry).lines()
    if path.is_dir():
        return _known_in(path, registry)
    try:
        return KnownFailures.load(path).lines()
    except KnownError as error:
        raise ConfigError(f"--known {path}: {error}") from error
    except Unreadable as error:
        raise ConfigError(
            f"--known {error}: name a finding's or campaign's folder, or a text file with a "
            "signature or a pattern such as backend=tvm operator=Pow in each line, or a ledger"
        ) from error


def baseline_failures(path: Path, registry: BackendRegistry) -> tuple[str, ...]:
    """Lines of known failures for the findings of an earlier campaign; none if it has none.

    path: its folder, or its summary.json, which holds less. registry: as in `known_failures`.
    Raises: ConfigError, Unreadable.
    """
    if path.is_dir():
        there = any(path.rglob("finding.json"))
        if not there and not (path / "summary.json").exists():
            raise ConfigError(f"--baseline {path} is no campaign: there is no summary.json in it")
        return _known_in(path, registry) if there else ()
    try:
        rows = read(JsonObject, read_json(path))["signatures"]
        hashes = [{row["signature"], row["refined"], *row["duplicates"]} for row in rows]
    except (Unreadable, KeyError, TypeError) as error:
        raise ConfigError(f"--baseline {path} is no summary.json of a campaign: {error}") from error
    return KnownFailures.parse(sorted(set().union(*hashes) - {""}), str(path)).lines()


def known_occurrences(campaign: Path, bugs: Mapping[str, Bug]) -> dict[str, int]:
    """How often each bug of a ledger occurred in a campaign that holds it back (--known), by name;
    a duplicate counts for its leader, and "" for failures that are none of these bugs.

    Raises: StoreError.
    """
    with Store.open(campaign, write=False) as store:
        counts, reductions = store.occurrences.counts_in("known"), store.reductions.rows()
    by_bug: Counter[str] = Counter()
    for signature, count in counts.items():
        row = reductions.get(signature)
        signatures = (signature, row.refined) if row else (signature,)
        keys = row.all_keys if row and row.refined else frozenset[Key]()
        by_bug[next(iter(bugs_of(bugs, signatures, keys)), "")] += count
    return dict(by_bug)


def _known_in(folder: Path, registry: BackendRegistry) -> tuple[str, ...]:
    files = sorted(folder.rglob("finding.json"))
    known = KnownFailures.merged(known_by(file.parent, registry) for file in files)
    if not known.hashes:
        raise ConfigError(f"--known {folder} holds no finding: there is no finding.json in it")
    return known.lines()
