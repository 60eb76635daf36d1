"""The pages that are made from the code and the ledger when the site is built.

python -m scripts.make.pages FOLDER     # the same as files
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from onnx import parser
from packaging.version import Version

from nnfuzz.bugs.bug import Bug, BugState, ScriptResult
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.cli.commands.ops import HEADINGS, operator_facts
from nnfuzz.findings.drawing import draw
from nnfuzz.findings.folder import is_finding, read_finding
from nnfuzz.findings.page import picture
from nnfuzz.materialize.model_graph import graph_of
from nnfuzz.materialize.opsets import OPSETS, default_opset
from nnfuzz.operators.motif import Motif, load_motifs
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.vary.faults.catalogue import KINDS
from nnfuzz.vary.rewrite.rewriting import RULES
from scripts.recall import page as recall

EXPORTERS = tuple(name for name in OPSETS if name != "direct")
NOTE = "Made from the code when the site is built."


def rules() -> str:
    """Every rewrite rule with the reason why the meaning is kept."""
    return (
        f"# Rewrite rules\n\n{NOTE}\n"
        f"[Rewrites](REWRITES.md) explains what rules are used for.\n\n{rules_text()}\n"
    )


def rules_text() -> str:
    """All rules by family, a line each."""
    families = dict.fromkeys(rule.family for rule in RULES.values())
    lines: list[str] = []
    for family in families:
        lines += ["", f"## {family.capitalize()}", ""]
        for rule in RULES.values():
            if rule.family == family:
                results = "" if rule.bits else " *In the envelope.*"
                lines.append(f"- `{rule.name}`: {rule.obligation}{results}")
    return "\n".join(lines[1:])


def faults() -> str:
    """Every kind of fault with the clause of the standard that forbids it."""
    rows = (f"| {kind.name} | {kind.text} | {kind.clause} |\n" for kind in KINDS.values())
    return (
        f"# Faults of invalid models\n\n{NOTE}\n"
        "[Models that must be refused](INVALID.md) explains how the faults are used. The clause "
        "decides that a\nmodel is invalid: ONNX IR is `docs/IR.md` of ONNX, Operators the text of "
        "the operator.\n\n"
        f"| kind | what is wrong | clause |\n| --- | --- | --- |\n{''.join(rows)}"
    )


def skeletons() -> str:
    """Every skeleton with its first line, by the file that it is written in."""
    written = [motif for motif in load_motifs() if motif.skeleton]
    sections = []
    for home, group in itertools.groupby(written, lambda motif: motif.write.__module__):
        heading = (sys.modules[home].__doc__ or "").strip().rstrip(".")
        rows = (f"| `{m.name}` | {_sentence(m)} | {m.size} |\n" for m in group)
        head = "| skeleton | part of a model | nodes, at most |\n| --- | --- | --- |\n"
        sections.append(f"## {heading}\n\n{head}{''.join(rows)}")
    return f"# Skeletons\n\n{NOTE}\n{SKELETONS}\n" + "\n".join(sections)


def _sentence(motif: Motif) -> str:
    return " ".join((motif.write.__doc__ or "").split())


SKELETONS = """
A skeleton is a part of a model as people deploy it, from an embedding to a detection head. One
model in five of a campaign has one, since optimisers look for patterns of twenty or sixty nodes
that random graphs do not have:

    nnfuzz fuzz -b onnxruntime --set skeletons=0.5

Sizes are drawn small, at and next to the widths of vectors and tiles; masks, caches, biases, groups
of heads and the spelling of norms and activations are drawn, too. Two in three skeletons stand in
the graph as they are; one in three is a near miss, changed in one place. A few nodes grow around
each. Parameters and tables are weights, ids, masks and caches are inputs, as in deployed models.
Skeletons take turns by the index of the test, so all of them occur in ten times as many tests as
there are skeletons. Graphs of fewer than six nodes (`--nodes`) get none.

A skeleton consists of ordinary nodes behind operator specs, as motifs do
([how it works](HOW_IT_WORKS.md#2-generation)), so all exporters write it, and comparison and
reduction know nothing of it. [Contributing](../CONTRIBUTING.md#add-a-skeleton) says how to add one.
"""


def operators() -> str:
    """Every operator with its types and what exporters write of it."""
    specs = sorted(OpRegistry.load().specs(), key=lambda spec: spec.name.lower())
    written = [_written(specs, exporter) for exporter in EXPORTERS]
    lines = []
    for spec, facts in zip(specs, operator_facts(specs)):
        name, *cells = facts.cells
        family, (lo, hi) = spec.__module__.rpartition(".")[2], spec.arity()
        inputs = str(lo) if lo == hi else f"{lo}-{hi}"
        shares = [f"{len(made.intersection(facts.keys))} of {len(facts.keys)}" for made in written]
        summary = inspect.cleandoc(vars(spec).get("__doc__") or "").partition("\n")[0]
        lines.append((f"`{name}`", family, inputs, *cells, *shares, summary))
    headings = (HEADINGS[0], "family", "inputs", *HEADINGS[1:], *EXPORTERS, "")
    table = [headings, ["---"] * len(headings), *lines]
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in table)
    return (
        f"# Operators\n\n{len(specs)} operators. {NOTE}\n\n"
        "opset: the first one that the operator can be emitted for. dtypes: of each type variable "
        "of the inputs;\nan arrow precedes those of an output of its own. "
        f"{', '.join(EXPORTERS)}: how many of the operator's\nsignatures the exporter writes at "
        "its newest opset; direct emission writes all.\n\n"
        + "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)
    )


def _written(specs: Iterable[type[OpSpec]], exporter: str) -> frozenset[str]:
    """The signatures that generation uses with an exporter, at the opset it has by default."""
    from nnfuzz.check.versions import admitted_by_schema
    from nnfuzz.generate.catalog import Catalog, NothingLeft
    from nnfuzz.generate.config import GenerateConfig

    opset = default_opset(exporter)
    there = [spec for spec in specs if spec.since <= opset]
    config = admitted_by_schema(GenerateConfig(exporter=exporter, opset=opset), there)
    try:
        return frozenset(Catalog(there, config).signature_keys())
    except NothingLeft:
        return frozenset()


DOCS = Path(__file__).parents[2] / "docs"
LEDGER = Ledger(DOCS / "bugs")
BUGS = """\
# Bugs found

Distinct true bugs that nnfuzz has found, by system. A script needs only the system, onnx and NumPy
(and onnxruntime for a model optimiser; nnfuzz, where one program runs several times). It exits
with 1, or crashes, as long as the bug exists.
`docs/bugs` is a [ledger](LEDGER.md), of which this page is made. These commands run every script in
a process of its own and list the bugs that remain:

    nnfuzz bugs check --ledger docs/bugs
    nnfuzz bugs check --ledger docs/bugs onnxruntime --release 1.20.1

The column of releases says where the scripts reproduce, and where they are right. In another
release, a script may fail for another reason than the bug, such as an opset that the release
refuses ("fails otherwise").
"""
_LOUD = re.compile(
    r"\b(wrong values|wrong dtype|wrong shape|SIGSEGV|SIGABRT|Segmentation fault|Hang)\b"
)


def bugs_page(bugs: Mapping[str, Bug]) -> str:
    """The text of the page for the bugs of a ledger: a table for each system."""
    parts = [BUGS]
    for system in sorted({bug.system for bug in bugs.values()}):
        own = {name: bug for name, bug in bugs.items() if bug.system == system}
        ways = sorted({f"`{bug.found_by}`" for bug in own.values() if bug.found_by})
        parts += [f"## {system}\n", *([f"By {', '.join(ways)}.\n"] if ways else [])]
        parts += ["| what | model | releases | |", "| --- | --- | --- | --- |"]
        for name, bug in own.items():
            parts.append(f"| {_what(bug)} | {bug.model} | {_releases(bug)} | {_links(name)} |")
        parts.append("")
    return "\n".join(parts)


def _what(bug: Bug) -> str:
    state = f" ({bug.state})" if bug.state in (BugState.FIXED, BugState.FLAKY) else ""
    return _LOUD.sub(r"**\1**", bug.title) + state


def _releases(bug: Bug) -> str:
    """The releases in which it was observed, and those without it."""
    shown = sorted(bug.releases, key=Version)
    bad = [r for r in shown if bug.releases[r] is ScriptResult.REPRODUCES]
    right = [r for r in shown if bug.releases[r] is ScriptResult.RIGHT]
    told = ", ".join(bad or [bug.last_bad_release])
    return told + (f"; right in {', '.join(right)}" if right else "")


def _links(name: str) -> str:
    place = LEDGER.place(name)
    files = (("repro", "repro.py"), ("report", "report.md"))
    return ", ".join(
        f"[{text}](bugs/{name}/{file})" for text, file in files if (place / file).is_file()
    )


def pictured(report: str, place: Path) -> str:
    """A report.md of the ledger with a drawing above its model, in which the node of the first
    wrong output is marked, and heat maps of that output if its folder has the values; without both
    for models whose text ONNX does not read.
    """
    head, heading, rest = report.partition("## Model\n\n")
    with suppress(parser.ParseError):
        graph = graph_of(parser.parse_model("".join(rest.split("```")[1:2])))
        wrong = re.search(r"\n\| `(\w+)` \| `\[", head)
        heat = picture(read_finding(place))["heat"] if wrong and is_finding(place) else None
        pictures = draw(graph, wrong=wrong[1] if wrong else ""), *filter(None, [heat])
        return "".join([head, heading, *(f"<div>{own}</div>\n\n" for own in pictures), rest])
    return report


PAGES: dict[str, Callable[[], str]] = {
    "BUGS.md": lambda: bugs_page(LEDGER.bugs()),
    "INVALID_FAULTS.md": faults,
    "OPERATORS.md": operators,
    "RECALL.md": recall.text,
    "REWRITE_RULES.md": rules,
    "SKELETONS.md": skeletons,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
