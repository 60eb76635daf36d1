"""Messages of many systems, and what a person reads in them (tests/triage/speech)."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.backend.complaint import CompilerError, ComplaintKind, read_complaint
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.triage.signature import error_details

FOLDER = Path(__file__).parent / "speech"
SLACK = 3
"""Words beside the cause that a reading may have, or half as many as the cause if that is more."""


@dataclass(frozen=True)
class Said:
    """A message, and what a person reads in it. title: without system and stage. text: the
    exception's, or what a process printed before it died.
    """

    id: str
    system: str
    thread: str
    kind: str
    text: str
    cause: str
    place: str
    stage: Stage = Stage.COMPILE
    error: str = ""
    traceback: str = ""
    bases: list[str] = field(default_factory=list)
    title: str = ""
    friend: bool = False
    planted: bool = False

    @property
    def outcome(self) -> Outcome:
        target = Target("unknown")
        if self.kind == "crash":
            return Outcome(
                OutcomeKind.CRASH, self.stage, target, signal="SIGABRT", captured=self.text
            )
        texts = self.error, self.text.strip("\n"), self.traceback.strip("\n")
        return Outcome(OutcomeKind.EXCEPTION, self.stage, target, *texts)


@dataclass(frozen=True)
class Reading:
    """What the engine reads: refuses (as a campaign counts it), cause and place."""

    refuses: bool
    cause: str
    place: str

    def right(self, said: Said) -> tuple[bool, bool, bool]:
        """Whether the cause, the refusal and the place are those that a person reads."""
        refuses = self.refuses == (said.kind == "refusal")
        place = re.sub(r"\d+", "N", said.place)  # as in signatures
        return states(self.cause, said.cause), refuses, self.place == place


def messages() -> list[Said]:
    files = sorted(FOLDER.glob("*.toml"))
    rows = [row for file in files for row in tomllib.loads(file.read_text())["said"]]
    return [Said(**{**row, "stage": Stage(row.get("stage", "compile"))}) for row in rows]


def read(said: Said) -> Reading:
    """What the engine makes of a message without an adapter's help."""
    outcome = said.outcome
    if said.kind == "crash":
        error = CompilerError(said.stage, captured=said.text)
    else:
        texts = outcome.error_type, outcome.message, outcome.traceback
        error = CompilerError(said.stage, *texts, bases=tuple(said.bases))
    found = read_complaint(error)
    frames = error_details(outcome).frames
    refuses = found.kind is ComplaintKind.UNSUPPORTED and said.kind != "crash"
    return Reading(refuses, " ".join(found.subject.split()), frames[-1] if frames else "")


def states(told: str, cause: str) -> bool:
    """Whether a text has the cause and little else."""
    mine, wanted = plain(told), plain(cause)
    more = len(mine.split()) - len(wanted.split())
    return wanted in mine and more <= max(SLACK, len(wanted.split()) // 2)


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))
