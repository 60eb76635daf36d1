"""A setting that people choose: declared once, in the metadata of its field of a record.

Options of commands, `--set NAME=VALUE`, nnfuzz.toml and all lists of settings are derived from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

GROUPS = (
    TESTED := "What is tested",
    AMOUNT := "How much, and where to",
    FED := "What it is run on",
    MODELS := "What models are made of",
    WRITTEN := "How models are written",
    REPORTED := "What is reported",
    SUPPORT := "What compilers do not support",
    PROCESSES := "Processes",
    OTHERS := "Options",
)
"""The headings of all options and settings, in the order of --help."""

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms]?)", re.IGNORECASE)
_ANSWERS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


@dataclass(frozen=True)
class Kind:
    """The values that settings of a kind have.

    unit: stands for a value in help. meaning: of a value, for errors. parse: makes a value of a
    text; it raises ValueError or KeyError. least, most: of numbers.
    """

    unit: str
    meaning: str
    parse: Callable[[str], Any]
    least: float = -math.inf
    most: float = math.inf

    def read(self, text: str) -> Any:
        """The value that a text stands for. Raises: ValueError, which names the texts allowed."""
        try:
            value = self.parse(text.strip())
        except (ValueError, KeyError) as error:
            raise ValueError(f"{text!r} is not {self.meaning}") from error
        if not self.admits(value):
            raise ValueError(f"{text!r} is not {self.meaning}")
        return value

    def admits(self, value: object) -> bool:
        """Whether a number lies within the limits. A value that is no number always does."""
        return not isinstance(value, int | float) or self.least <= value <= self.most


def names(text: str) -> tuple[str, ...]:
    """ "A, B" -> ("A", "B")."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def seconds(text: str) -> float:
    """ "4h", "90s", "1h30m", "0" -> seconds. Raises: ValueError."""
    total, position = 0.0, 0
    for match in _PART.finditer(text):
        if match.start() != position:
            break
        total += float(match.group(1)) * _SECONDS[match.group(2).lower()]
        position = match.end()
    if not text or position != len(text) or (text[-1:].isdigit() and total):
        raise ValueError(text)
    return total


def _some_seconds(text: str) -> float:
    if not (found := seconds(text)):
        raise ValueError(text)
    return found


LARGEST = 10**15 - 1
"""The largest whole number of any setting: databases and JSON hold it exactly."""


def count(least: int = 0, most: int = LARGEST, unit: str = "N") -> Kind:
    """Whole numbers."""
    open_end = f"of at least {least}, with at most 15 digits"
    limits = open_end if most == LARGEST else f"from {least} to {most}"
    return Kind(unit, f"a whole number {limits}", int, least, most)


def words(unit: str) -> Kind:
    """Texts of any kind."""
    return Kind(unit, "a text", str)


SHARE = Kind("SHARE", "a share from 0 to 1", float, 0, 1)
NAMES = Kind("A,B", "a list of names", names)
YES_OR_NO = Kind("yes|no", "yes or no", lambda text: _ANSWERS[text.lower()])
DURATION = Kind("10m", "a duration: write 90s, 10m, 4h or 1h30m", _some_seconds)


@dataclass(frozen=True)
class Setting:
    """The declaration of a setting.

    help: its meaning. group: one of GROUPS. default: in words, for people. usual: the value in
    campaigns; None where that of the record holds there, too. name: as people write it. field: of
    the record.
    """

    help: str
    group: str
    kind: Kind
    default: str = ""
    usual: Any = None
    name: str = ""
    field: str = ""

    @property
    def described(self) -> str:
        """The meaning with the default."""
        return f"{self.help} [default: {self.default}]." if self.default else f"{self.help}."


def setting(
    default: Any,
    help: str,
    group: str,
    kind: Kind,
    *,
    usual: Any = None,
    said: str = "",
    name: str = "",
) -> Any:
    """A field of a record that people may set.

    said: the default in words, with {default} and {usual} for the values; unless it is given, both
    values are named where they differ.
    """
    if not said and usual is not None:
        said = "{usual:g}, {default:g} in corpora"
    elif not said and isinstance(default, bool):
        said = "yes" if default else "no"
    elif not said and isinstance(default, int | float):
        said = "{default:g}"
    declared = Setting(help, group, kind, said.format(default=default, usual=usual), usual, name)
    metadata = {"setting": declared}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_of(record: type) -> Iterator[Setting]:
    """The settings that a record declares, in the order of its fields."""
    for each in fields(record):
        if (declared := each.metadata.get("setting")) is not None:
            name = declared.name or each.name.replace("_", "-")
            yield replace(declared, name=name, field=each.name)
