"""Whether words are a compiler's own statement that it does not implement something.

A refusal is no bug. A failure by accident is a bug whatever its words are: a slip of Python's
("unsupported operand type(s)"), an assertion, an error that calls itself internal. The rules are
about programming languages and ordinary English; where a compiler speaks otherwise, its adapter
says so (`Backend.complaint`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nnfuzz.backend.causes import ChainedError
from nnfuzz.backend.slips import accidental

_CLASS = re.compile(r"Unsupported|Not_?(?:Yet)?(?:Supported|Implemented)|Unimplemented")
_OF_PYTHON = ("io.UnsupportedOperation",)
"""Raised for streams that are no files."""
_BE = r"(?:is|are|was|were|be|been)"
_DTYPE = r"(?:u?int|b?float|bool|string|complex|bf|fp|[fiu])\d*(?:_?e\dm\d\w*)?"
_NOT = r"(?:not(?: (?:yet|currently|fully|directly))?|never)"
_WORDS = re.compile(
    # unsupported, UNSUPPORTED_NODE, not yet implemented, NotSupportedError, "Not support: Not"
    rf"\b\w*?(?:un|not_?(?:yet_?)?|{_NOT} (?:\w+ or )?)"
    r"(?:supported|implemented|support|implement)\w*"
    r"|\b(?:does|do|did|can|could|will)(?: ?not|n't)(?: (?:yet|currently|fully|directly))?"
    r" (?:support|implement)\b"
    rf"|\bonly (?:supports?|implements?)\b|\bsupports? only\b"
    r"|\bonly\b[^.;:]{0,60}\b(?:supported|implemented)\b"
    rf"|\b{_BE} only (?:supported|implemented)\b"
    r"|\b(?:supported|implemented)\b[^.;:]{0,60}\bonly\b"
    r"|\b(?:no|not? find an?|didn't find(?: an?)?) (?:\w+ )?(?:conversion|implementation|converter"
    r"|kernel|lowering|translation|handler|op)\b(?! name)"
    r"|\bno (?:registered|known) \S+ ?(?:\w*kernel|op|operator|implementation|converter)?\b"
    r"|\b(?:un(?:known|registered|recognized|recognised|handled)) "
    r"(?:onnx )?(?:op|operator|operation|layer|attribute)s?\b"
    r"|\b(?:not|n't) (?:exists? or )?registered\b"
    r"|\bcan(?: ?not|'t) resolve (?:op|operator|operation|layer)\b"
    r"|\b(?:conversion|implementation|converter|kernel|lowering) (?:is |was )?not found\b"
    r"|\bfailed to legalize\b"
    # ONNX lets inputs be computed: a compiler that needs a constant lacks the rest
    rf"|\b(?:must be|needs to be|should be|requires?|expects?|{_BE} not|isn't|aren't) (?:an? )?"
    r"(?:compile[- ]time )?(?:const(?:ant)?s?|initializers?)"
    r"(?= *(?:$|[.,;:)]|but\b|input|tensor|\w+ *(?:$|[.,;:)])))"
    r"|\bno support\b|\blimitations?:|\bknown limitation\b"
    r"|\bonly accepts?\b|\baccept(?:s|ing)? only\b"
    # and not "has not been initialised yet", which is a state that nobody has foreseen
    r"|(?:\bnot|n't) (?:handled|covered|part of [^.;:]{1,20})\b[^.;:]{0,20} yet\b"
    r"|\b(?:do not|don't|does not|doesn't) know how to (?:convert|import|lower|translate)\b"
    r"|\b(?:feature|op|operator)\b[^.;:]{0,40}\bnot enabled\b"
    rf"|\bunknown (?:(?:data|datum|element|tensor|scalar) ?)?type:? ['\"]?{_DTYPE}\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\bfall(?:s|ing)? ?back\b|\bfallback\b|\bwill be (?:ignored|skipped|interpreted|used)\b"
    r"|\bignor(?:ed|ing)\b|\bskipp(?:ed|ing)\b",
    re.IGNORECASE,
)
"""Words on a substitute for an unsupported feature: a remark, and no reason of a failure."""


def refuses(cause: ChainedError, bases: Iterable[str], statement: Iterable[str]) -> bool:
    """Whether an exception is a refusal, by its class or else by its words.

    bases: classes that it derives from. statement: its lines, without dumps.
    """
    error_type = cause.type
    if accidental(error_type, cause.text, cause.traceback):
        return False
    names = (error_type.rpartition(".")[2], *bases)
    if error_type not in _OF_PYTHON and any(_CLASS.search(name) for name in names):
        return True
    return bool(refusing_lines(statement))


def refusing_lines(lines: Iterable[str]) -> list[str]:
    """The lines that call something unsupported, without those about a substitute."""
    return [line for line in lines if _WORDS.search(line) and not _GOES_ON.search(line)]
