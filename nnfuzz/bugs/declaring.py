"""Declares the model in a bug's script for the oldest opset, so that more releases read it; the
report shows the model that the script holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from nnfuzz.base.files import PARTIAL, write_atomically
from nnfuzz.base.untrusted import below, read_bytes, read_text
from nnfuzz.bugs.bug import ScriptResult
from nnfuzz.bugs.ledger import REPORT, SCRIPT
from nnfuzz.bugs.scripts import ScriptRun
from nnfuzz.report.text import fenced
from nnfuzz.report.tracker import model_text

_IR, _OPSET = re.compile(r"(ir_version:\s*)\d+"), re.compile(r'(""\s*:\s*)\d+')
_MODEL = re.compile(r'^MODEL = """\n(?P<text>.*?)\n?"""$', re.MULTILINE | re.DOTALL)
_FILE = '(HERE / "model.onnx")'
"""In a script that reads its model from the file beside it."""
_SHOWN = re.compile(r"(?<=\n## Model\n\n)(?P<fence>`{3,})\n.*?\n(?P=fence)(?=\n)", re.DOTALL)
_EXIT = re.compile(r"(?<!\w)Exit code \d[^\n]*(?:\n(?! *\n|\"|#)[^\n]+)*")


def at_oldest(source: str) -> str:
    """A script with its model at the oldest opset at which all operators have the schemas that they
    have now; the script itself if it holds no model in ONNX's textual form, or is that old already.
    """
    import onnx
    from onnx import parser

    from nnfuzz.materialize.oldest import at_oldest_opset

    match = _MODEL.search(source)
    if match is None:
        return source
    try:
        model = parser.parse_model(match["text"])
    except parser.ParseError:
        return source
    older = onnx.load_model_from_string(at_oldest_opset(model.SerializeToString()))
    text = _IR.sub(rf"\g<1>{older.ir_version}", match["text"], count=1)
    text = _OPSET.sub(rf"\g<1>{older.opset_import[0].version}", text, count=1)
    if parser.parse_model(text) != older:
        return source
    return source[: match.start("text")] + text + source[match.end("text") :]


def declare_oldest(script: Path, run: Callable[[Path], ScriptRun]) -> bool:
    """Writes a script with its model at the oldest opset, if it then reproduces in the same words.

    run: runs a script in a release that has the bug. Returns whether it was written.
    Raises: OSError.
    """
    source = read_text(script)
    older = at_oldest(source)
    if older == source:
        return False
    draft = script.with_name(f"{PARTIAL}{script.name}")
    try:
        draft.write_text(older, encoding="utf-8")
        before, after = run(script), run(draft)
    finally:
        draft.unlink(missing_ok=True)
    same = (before.result, before.message) == (after.result, after.message)
    if after.result is not ScriptResult.REPRODUCES or not same:
        return False
    write_atomically(script, older.encode())
    return True


def follow_script(folder: Path) -> bool:
    """Makes the report of a bug show the model and the exit codes of the script beside it, which
    may have been declared for an older opset or mended by hand; returns whether it was written.

    Raises: OSError, Unreadable.
    """
    script, report = below(folder, SCRIPT), below(folder, REPORT)
    if not (script.is_file() and report.is_file()):
        return False
    before = read_text(report)
    after = following(before, read_text(script), folder)
    if after == before:
        return False
    write_atomically(report, after.encode())
    return True


def following(report: str, script: str, folder: Path) -> str:
    """The text of a report with the model and the exit codes of a script in a folder."""
    if model := _model_of(script, folder):
        report = _SHOWN.sub(lambda _: fenced(model, limit=len(model) + 1), report, count=1)
    codes = _EXIT.search(script)
    return _EXIT.sub(lambda _: " ".join(codes[0].split()), report, count=1) if codes else report


def _model_of(script: str, folder: Path) -> str:
    """The text of a script's model; "" if it has none, as for a module of PyTorch."""
    if match := _MODEL.search(script):
        return match["text"]
    if _FILE not in script:
        return ""
    return model_text(read_bytes(below(folder, "model.onnx")))
