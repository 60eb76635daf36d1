"""The page of the bugs found, made from their ledger docs/bugs (scripts/make/pages.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from nnfuzz.bugs.bug import Bug, BugState, ScriptResult
from nnfuzz.bugs.ledger import Ledger

DOCS = Path(__file__).parents[2] / "docs"
LEDGER = Ledger(DOCS / "bugs")
HEAD = """\
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


@dataclass(frozen=True)
class Section:
    """A heading of the page, and a table for each way in which its bugs were found.

    systems: those of its bugs. ways: the command that found them ("" for any), with the text above
    the table. end: a sentence behind all tables.
    """

    title: str
    systems: tuple[str, ...]
    ways: Mapping[str, str]
    end: str = ""


def _plain(title: str, about: str, system: str) -> Section:
    command = f"nnfuzz fuzz -b {system}"
    return Section(title, (system,), {command: f"{about}, by `{command}`."})


TRANSFORMS = (
    *("onnxslim", "onnxoptimizer", "onnxsim", "onnxscript", "onnx"),
    *("ort-transformers", "ort-saved"),
)
EXPORTERS = ("exporter-torchscript", "exporter-dynamo", "torch-export")
SECTIONS = (
    Section(
        "ONNX Runtime",
        ("onnxruntime",),
        {
            "nnfuzz fuzz -b onnxruntime": "CPU, by `nnfuzz fuzz -b onnxruntime`.",
            "nnfuzz fuzz -b onnxruntime --set domains=com.microsoft,ai.onnx.ml": (
                "Operators of com.microsoft and ai.onnx.ml, as their documentation has them, by "
                "`nnfuzz fuzz -b onnxruntime --set domains=com.microsoft,ai.onnx.ml`:"
            ),
            "nnfuzz fuzz -b onnxruntime --set quantize=1": (
                "[Quantised twins](HOW_IT_WORKS.md#3-inputs), by "
                "`nnfuzz fuzz -b onnxruntime --set quantize=1`:"
            ),
            "nnfuzz fuzz -b onnxruntime --set rewrites=0.5": (
                "By `nnfuzz fuzz -b onnxruntime --set rewrites=0.5` ([Rewrites](REWRITES.md)), "
                "some of them with `edges`:"
            ),
        },
    ),
    Section(
        "TVM",
        ("tvm",),
        {
            "nnfuzz fuzz -b tvm": (
                "Relax, LLVM, by `nnfuzz fuzz -b tvm`, some with `--set pipelines=1`."
            ),
            "nnfuzz fuzz -b tvm,form=exported": (
                "Its front end for PyTorch, `-b tvm,form=exported`:"
            ),
        },
    ),
    Section(
        "OpenVINO",
        ("openvino",),
        {
            "nnfuzz fuzz -b openvino": "CPU, float32 inference, by `nnfuzz fuzz -b openvino`.",
            "nnfuzz fuzz -b openvino --set quantize=1": (
                "Quantised twins, by `nnfuzz fuzz -b openvino --set quantize=1`:"
            ),
            "nnfuzz fuzz -b openvino --set domains=com.microsoft": (
                "Operators of com.microsoft, which ONNX Runtime gets right, by "
                "`nnfuzz fuzz -b openvino --set domains=com.microsoft`:"
            ),
        },
        "OpenVINO computes float64 in float32 and int64 in int32 by design; this is not counted.",
    ),
    _plain("TensorRT for RTX", "Built for SM89 without a GPU", "tensorrt-rtx"),
    _plain("IREE", "llvm-cpu", "iree"),
    _plain("torch.compile", "Inductor for CPUs", "torch"),
    Section(
        "PyTorch's exporters",
        EXPORTERS,
        {
            "": "By `nnfuzz fuzz -b exporter-torchscript` and `nnfuzz fuzz -b exporter-dynamo`, "
            "with onnxscript 0.7.2."
        },
    ),
    Section(
        "Model optimisers",
        TRANSFORMS,
        {"": "By one campaign over all nine of them, with a `-b` for each."},
    ),
)


def page(bugs: Mapping[str, Bug]) -> str:
    """The text of the page for the bugs of a ledger."""
    return "\n".join([HEAD, *(_section(section, bugs) for section in SECTIONS)])


def _section(section: Section, bugs: Mapping[str, Bug]) -> str:
    own = {n: b for n, b in bugs.items() if b.system in section.systems}
    parts = [f"## {section.title}\n"]
    for way, text in section.ways.items():
        found = {n: b for n, b in own.items() if not way or b.found_by == way}
        parts += [f"{text}\n", *_table(section.systems, found), ""]
    parts += [f"{section.end}\n"] if section.end else []
    return "\n".join(parts)


def _table(systems: Sequence[str], bugs: Mapping[str, Bug]) -> Iterator[str]:
    """A row for each bug: with a column for the system if the section has several."""
    several = len(systems) > 1
    yield f"{'| system ' if several else ''}| what | model | releases | |"
    yield f"{'| --- ' if several else ''}| --- | --- | --- | --- |"
    for system in systems:
        for name, bug in bugs.items():
            if bug.system == system:
                cells = [_what(bug), bug.model, _releases(bug), _links(name)]
                yield f"| {' | '.join([*([system] if several else []), *cells])} |"


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
