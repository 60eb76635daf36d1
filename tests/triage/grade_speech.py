"""How well messages of many systems are read, against what a person reads in them.

    python -m tests.triage.grade_speech            shares that are right, known and held out
    python -m tests.triage.grade_speech --wrong    and what is read wrongly

The messages are in tests/triage/speech: see the head of messages_1.toml.
"""

import hashlib
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.backend.complaint import CompilerError, ComplaintKind, read_complaint
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.triage.signature import error_details

FOLDER = Path(__file__).parent / "speech"
HELD_OUT_OF = 3
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
    def held_out(self) -> bool:
        return int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % HELD_OUT_OF == 0

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


def table(rows: list[Said]) -> dict[str, tuple[int, int]]:
    """Question -> (answered right, asked)."""
    answers = [(said, *read(said).right(said)) for said in rows]
    causes = [cause for _, cause, _, _ in answers]
    refused = [refusal for said, _, refusal, _ in answers if said.kind == "refusal"]
    others = [refusal for said, _, refusal, _ in answers if said.kind != "refusal"]
    friends = [refusal for said, _, refusal, _ in answers if said.friend]
    places = [place for said, _, _, place in answers if said.place]
    without = [place for said, _, _, place in answers if not said.place]
    asked = {
        "cause": causes,
        "refusals that are taken for refusals": refused,
        "others that are not": others,
        "of these false friends": friends,
        "place": places,
        "no place where there is none": without,
    }
    return {question: (sum(right), len(right)) for question, right in asked.items()}


def main(wrong: bool) -> None:
    rows = messages()
    known, held = ([s for s in rows if s.held_out is out] for out in (False, True))
    first, second = table(known), table(held)
    for question in first:
        shares = (f"{a:3} of {b:3}" for a, b in (first[question], second[question]))
        print(f"{question:40}", *shares)
    for said in rows if wrong else ():
        found = read(said)
        if not all(found.right(said)):
            print(said.id, "(held out)" if said.held_out else "", said.kind, found.right(said))
            print(f"   cause {said.cause[:200]!r}\n    read {found.cause[:300]!r}")
            print(f"   place {said.place!r}\n    read {found.place!r}   refuses {found.refuses}")


if __name__ == "__main__":
    main("--wrong" in sys.argv)
