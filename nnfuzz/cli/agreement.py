"""What reference implementations say of the operators, as a table and as a page."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.check.arbitration import AGREES, STRICT, UNABLE, Arbitration, Example, Weighed
from nnfuzz.check.runtimes import EVALUATOR
from nnfuzz.cli.vocabulary import line
from nnfuzz.ir.dtypes import plain
from nnfuzz.spec.waiver import Waiver

if TYPE_CHECKING:
    from rich.table import Table

LONGEST = 300
"""Characters of what somebody raises."""
SHOWN = 12
"""Elements of a tensor that the page shows."""
COMMAND = (
    "nnfuzz ops check --implementations tests/check/standard -b onnxruntime "
    "--page docs/AGREEMENT.md"
)
INTRODUCTION = """\
What `nnfuzz ops check` found with {versions}. Do not edit; made by

    {command}

Each operator's `torch` is compared with reference implementations of ONNX: **onnx.reference**, the
**function body** that the operator's schema brings along (run by onnx.reference), a **standard
implementation** in float64 (`tests/check/standard`, written from the specification only), and ONNX
Runtime without optimisations. Instances are random: solved attributes, shapes and values, every
dtype and opset that ONNX admits. They are drawn until onnx.reference has agreed with {wanted} of
them, in their own dtypes; where it lacks the operator, until any of them has. Agreement is within
the rounding error that the oracle grants (twice it, see `SLACK`); shapes and dtypes are exact.
"""
TOTALS = """\
{total} operators; onnx.reference agrees {wanted} times or more with {served} of them{others}.
{confirmed} of {drawn} instances are confirmed by one of them at least. Problems: {problems}."""
COLUMNS = """\
## Figures

sound: solved instances, forward and backward, that ran and have the type and value claimed.
refused: instances that both PyTorch and ONNX accept and `requires` refuses, of all drawn blindly.
needless: broken conditions without which PyTorch and ONNX accept the instance, of all broken.
Then how often each one agreed; "50 of 57" where it gave another answer 7 times, all of which are
waived below (or a backend's). confirmed: instances with which at least one of them agreed.
"""
WAIVERS = """\
## Where reference implementations are wrong

Declared as `WAIVERS` beside the operators, each with the clause of the standard that decides;
`tests/check/test_waivers.py` fails for what a new version of onnx mends. The example is the
smallest of some hundred instances, its inputs are given where they are small.
"""


def table(found: Sequence[Weighed]) -> Table:
    """A rich table for the terminal: per operator, how often each implementation agreed."""
    from rich.table import Table

    names = implementations(found)
    shown = Table()
    for heading in ("operator", "drawn", "confirmed", *names):
        shown.add_column(heading, justify="left" if heading == "operator" else "right")
    for report, said in found:
        counts = (str(said.drawn), str(said.confirmed))
        cells = [_answers(said, name) for name in names]
        shown.add_row(said.operator, *counts, *cells, style="" if report.ok else "red")
    return shown


def waivers(found: Iterable[Weighed]) -> Iterator[str]:
    """Lines that list every waiver which an instance needed, with its smallest example."""
    for _, said in found:
        for waiver, example in said.examples.items():
            count = said.shown[waiver]
            yield f"{said.operator}: {waiver.implementation} {waiver.claim} ({count} times here)"
            yield f"    decided by {waiver.clause}"
            if example is not None:
                yield from (f"    {text}" for text in _example(example))


def implementations(found: Iterable[Weighed]) -> list[str]:
    """Names of all reference implementations that were asked, in order."""
    return list(dict.fromkeys(name for _, said in found for name in said.answers))


def _answers(said: Arbitration, name: str) -> str:
    """How often an implementation agreed: "50", "50 of 57", "" where it cannot run any instance."""
    counts = said.answers.get(name, Counter[str]())
    able = sum(counts.values()) - counts.get(UNABLE, 0)
    agreed = counts.get(AGREES, 0)
    return ("" if not able else str(agreed)) + (f" of {able}" if agreed < able else "")


# -- the page ---------------------------------------------------------------------------------


def markdown(
    found: Sequence[Weighed], declared: Sequence[tuple[str, Waiver]], wanted: int, versions: str
) -> str:
    """The text of docs/AGREEMENT.md. declared: (operator, waiver) for all that are declared."""
    found = sorted(found, key=lambda pair: pair[1].operator.lower())
    head = INTRODUCTION.format(command=COMMAND, versions=versions, wanted=wanted)
    lines = ["# Agreement", "", head, textwrap.fill(_totals(found, wanted), 100), "", COLUMNS]
    lines += _figures(found)
    lines += ["", WAIVERS]
    shown = {(said.operator, d): (said, e) for _, said in found for d, e in said.examples.items()}
    for name, waiver in sorted(declared, key=lambda pair: pair[0].lower()):
        lines += entry(name, waiver)
        said, example = shown.get((name, waiver), (None, None))
        if said is not None and example is not None:
            lines += ["", _shown(said, waiver), "", *(f"    {s}" for s in _example(example))]
        lines.append("")
    lines += [*_helpless(found), "", *_backends(found)]
    return "\n".join(lines).rstrip() + "\n"


def entry(name: str, waiver: Waiver) -> list[str]:
    """The lines of the page that name a waiver and the clause of the standard that decides."""
    known = f" Known as {waiver.known}." if waiver.known else ""
    first = f"**{name}**: {waiver.implementation} {waiver.claim}."
    stop = "" if waiver.clause.endswith('."') else "."
    return [first, f"Decided by {waiver.clause}{stop}{known}"]


def _shown(said: Arbitration, waiver: Waiver) -> str:
    count, settled = said.shown[waiver], said.settled[waiver]
    where = f"of {said.drawn} instances"
    if not count:
        return f"None {where} above shows it, this one does. Example:"
    return f"Shown by {count} {where}; another one confirms {settled} of them. Example:"


def _totals(found: Sequence[Weighed], wanted: int) -> str:
    said = [s for _, s in found]
    rest = [s for s in said if s.agreed(EVALUATOR) < wanted]
    texts = (f"{s.operator} {s.agreed(EVALUATOR)} ({s.confirmed} confirmed)" for s in rest)
    return TOTALS.format(
        wanted=wanted,
        total=len(said),
        served=len(said) - len(rest),
        others=f"; the others: {', '.join(texts)}" if rest else "",
        confirmed=sum(s.confirmed for s in said),
        drawn=sum(s.drawn for s in said),
        problems=sum(len(report.problems) for report, _ in found),
    )


def _figures(found: Sequence[Weighed]) -> Iterator[str]:
    names = implementations(found)
    yield line(("operator", "sound", "refused", "needless", *names, "confirmed"))
    yield line(["---"] + ["---:"] * (len(names) + 4))
    for report, said in found:
        sound = str(report.forward + report.backward)
        refused = f"{report.refused} of {report.accepted}"
        needless = f"{report.needless} of {report.broken}"
        cells = [_answers(said, name) for name in names]
        last = f"{said.confirmed} of {said.drawn}"
        yield line((f"`{said.operator}`", sound, refused, needless, *cells, last))


def _helpless(found: Sequence[Weighed]) -> Iterator[str]:
    """Lines that list operators with valid instances which onnx.reference cannot run."""
    yield f"## What {EVALUATOR} can not run"
    yield ""
    yield "Valid models, all of them; another one runs nearly all. The first one of each."
    yield ""
    for _, said in found:
        if EVALUATOR in said.helpless:
            count = said.answers[EVALUATOR][UNABLE]
            text = " ".join(said.helpless[EVALUATOR].split())
            yield f"- {count} of {said.drawn}: {_cut(text)}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _backends(found: Sequence[Weighed]) -> Iterator[str]:
    texts = [
        f"- {name}: {_cut(text)}"
        for _, said in found
        for name, text in dict(said.unexplained).items()
        if name not in STRICT
    ]
    if texts:
        yield "## Where a backend differs from all of them"
        yield ""
        yield "Without optimisations; what is wrong there is for a campaign to find. One each."
        yield ""
        yield from texts


def _example(example: Example) -> list[str]:
    question, text = example
    lines = [str(question)]
    for i, array in enumerate(question.arrays):
        if array.size <= SHOWN:
            values = np.array2string(plain(array), separator=", ", max_line_width=1 << 20)
            lines.append(f"x{i} = {' '.join(values.split())}")
    return [*lines, text]
