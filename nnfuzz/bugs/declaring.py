"""Declares the model in a bug's script for the oldest opset, so that more releases read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from nnfuzz.base.files import PARTIAL, write_atomically
from nnfuzz.base.untrusted import read_text
from nnfuzz.bugs.bug import ScriptResult
from nnfuzz.bugs.scripts import ScriptRun

_IR, _OPSET = re.compile(r"(ir_version:\s*)\d+"), re.compile(r'(""\s*:\s*)\d+')
_MODEL = re.compile(r'^MODEL = """\n(?P<text>.*?)\n?"""$', re.MULTILINE | re.DOTALL)


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
