"""An adapter's description of the place where bugs of its compiler are reported."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter

PARTS = (
    *("symptom", "report", "repro", "error", "versions", "platform", "expected"),
    *("device", "machine"),
)
"""The fields of a section, in braces: one sentence; the whole report; the stand-alone script; the
error with its traceback; versions of everything; operating system and processor; what is right; the
device that the failing target runs on; the processor's architecture."""


@dataclass(frozen=True)
class IssueForm:
    """A tracker on GitHub and the form that it asks to be filled in.

    repository: "owner/name"; "" for a tracker that nobody knows. sections: heading -> text, with
    PARTS in braces. prefix: of titles.
    """

    repository: str
    sections: tuple[tuple[str, str], ...]
    prefix: str = ""

    def __post_init__(self) -> None:
        """Raises: ValueError for a part that there is not."""
        for heading, text in self.sections:
            for _, name, _, _ in Formatter().parse(text):
                if name is not None and name not in PARTS:
                    raise ValueError(f"section {heading!r}: {name!r} is none of {', '.join(PARTS)}")


PLAIN = IssueForm(
    "",
    (
        ("What happens", "{symptom}\n\n{error}"),
        ("What is expected", "{expected}"),
        ("How to reproduce", "{repro}"),
        ("Versions", "{platform}\n\n{versions}"),
        ("Report", "{report}"),
    ),
)
"""The form for a compiler whose adapter names no tracker."""
