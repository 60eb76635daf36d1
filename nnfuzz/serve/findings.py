"""Findings that a page requests, and the files of a finding."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from nnfuzz.base.reading import Json, Unreadable
from nnfuzz.base.untrusted import below

FILTERS = ("backend", "kind", "stage", "accused", "status")
ORDERS = {"": "most severe first", "new": "newest first", "times": "most frequent first"}
MOST_ROWS = 500
"""Rows in one answer."""
MOST_FILES = 100
"""Files of a finding that are listed."""


def matching_rows(
    rows: Iterable[Mapping[str, Json]], query: Mapping[str, str]
) -> list[Mapping[str, object]]:
    """Rows that match all filters and contain every word of the text, in the requested order."""
    wanted = {key: query[key] for key in FILTERS if query.get(key)}
    words = query.get("text", "").lower().split()
    matching = [row for row in rows if _fits(row, wanted) and all(w in row["about"] for w in words)]
    match query.get("sort"):
        case "new":
            matching.sort(key=lambda row: -row["found_at"])
        case "times":
            matching.sort(key=lambda row: -row["occurrences"])
    return matching


def options(rows: Iterable[Mapping[str, object]]) -> dict[str, list[str]]:
    """All values of each filter."""
    values: dict[str, set[str]] = {key: set() for key in FILTERS}
    for row in rows:
        for key in FILTERS:
            values[key].update(_values(row, key))
    return {key: sorted(found - {""}) for key, found in values.items()}


_DIGITS = 18  # of a number; Python refuses to read one of thousands


def clamped_number(text: str | None, default: int, most: int) -> int:
    """A number from a query, clamped to bounds."""
    if not (text and text.isascii() and text.isdecimal()):
        return default
    return most if len(text) > _DIGITS else min(int(text), most)


def link(campaign: Path, file: Path) -> str:
    """The address of a file of the campaign, relative to the page."""
    return "files/" + quote(os.path.relpath(file, campaign))


def files_of(campaign: Path, folder: str) -> list[dict[str, object]]:
    """Name, size and address of the regular files in the folder of a finding."""
    files = []
    for place, _, names in os.walk(campaign / folder):
        for name in sorted(names):
            path = Path(place, name)
            try:
                file_of_finding(campaign, folder, path.relative_to(campaign / folder).as_posix())
            except Unreadable:
                continue
            name_in_folder = path.relative_to(campaign / folder).as_posix()
            files.append((name_in_folder, path.stat().st_size, link(campaign, path)))
    listed = sorted(files, key=lambda file: (file[0].count("/"), file))[:MOST_FILES]
    return [{"name": name, "bytes": size, "link": where} for name, size, where in listed]


def file_of_finding(campaign: Path, folder: str, name: str) -> Path:
    """A regular file below the folder of a finding, which is below the campaign's.

    Raises: Unreadable for anything else.
    """
    path = below(below(campaign, folder), name)
    if not path.is_file():
        raise Unreadable(f"{folder}/{name} is no file")
    return path


def _fits(row: Mapping[str, Json], wanted: Mapping[str, str]) -> bool:
    return all(value in _values(row, key) for key, value in wanted.items())


def _values(row: Mapping[str, Json], key: str) -> Sequence[str]:
    """Values of a finding for a filter; it may occur under several labels of a compiler."""
    return row["backends"] if key == "backend" else (row[key],)
