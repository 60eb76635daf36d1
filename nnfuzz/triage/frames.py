"""Stack frames of a compiler, out of Python tracebacks and of what crash handlers print."""

from __future__ import annotations

import re

from nnfuzz.execute.normalise import normalise

_PYTHON = re.compile(r'^\s*File "([^"]*)", line (\d+),? in (.+)$')
_OURS = re.compile(r"(?:^|/)(?:nnfuzz/(?:\w+/)*|backends/)\w+\.py$|^<frozen ")
# debuggers "#3 0x00 in f(x) at a.cc:1", others "3: f(x)", backtrace_symbols "lib.so(f+0x1) [0x2]"
_NATIVE = (
    re.compile(r"^\s*#?\d+:?\s+(?:0x[0-9a-fA-F]+\s+)?(?:in\s+)?([A-Za-z_~][^\n]*?\(.*)$"),
    re.compile(r"^\s*#?\d+:\s+(?:0x[0-9a-fA-F]+\s+)?([A-Za-z_]\w*(?:::[~\w<>, ]+)+.*)$"),
    re.compile(r"^\s*(?:#?\d+:?\s+)?\S+\.so\S*?\(([A-Za-z_]\w*)\+0x[0-9a-fA-F]+\)\s*\[0x"),
)
_RUNTIME = re.compile(
    r"^(?:_?_?libc_\w+|_?_?GI_\w+|_start|clone\d?|gsignal|raise|abort|__\w*|std::\w+.*"
    r"|_?Py\w*|cfunction_\w+|vectorcall\w*|method_\w+|slot_\w+|operator\(\)|segfault_handler"
    r"|killpg|pthread_\w+|start_thread|_run_code|_run_module_as_main|.*SignalHandler.*"
    r"|.*PrintStackTrace.*|.*Backtrace.*)$"
)
_INSTALLED = re.compile(r'"[^"]*/(?:site|dist)-packages/')
_FIRST = re.compile(r"most recent call first", re.IGNORECASE)


def python_frames(text: str) -> list[str]:
    """Frames of the last traceback in the text, outermost first, as "file.py:function".

    Those of nnfuzz itself are left out. C++ frames that a compiler adds to its tracebacks count.
    """
    _, _, last = text.rpartition("Traceback (most recent call last)")
    frames = []
    for line in (last or text).splitlines():
        match = _PYTHON.match(line)
        if match and not _OURS.search(match.group(1)):
            frames.append(f"{match.group(1).rsplit('/', 1)[-1]}:{_function(match.group(3))}")
    return frames[::-1] if _FIRST.search(text) else frames


def innermost_line(text: str) -> str:
    """ "file.py:123", the place of the innermost foreign frame of the last traceback, or ""."""
    _, _, last = text.rpartition("Traceback (most recent call last)")
    found = [match for line in last.splitlines() if (match := _PYTHON.match(line))]
    foreign = [match for match in found if not _OURS.search(match.group(1))]
    if not foreign:
        return ""
    inner = foreign[0 if _FIRST.search(text) else -1]
    return f"{inner.group(1).rsplit('/', 1)[-1]}:{inner.group(2)}"


def foreign_traceback(text: str) -> str:
    """A traceback without the frames of nnfuzz, and with paths that start at the package."""
    kept, ours = [], False
    for line in text.splitlines():
        match = _PYTHON.match(line)
        if match:
            ours = bool(_OURS.search(match.group(1)))
            line = _INSTALLED.sub('"', line)
        elif not line.startswith("    "):
            ours = False
        if not ours:
            kept.append(line)
    return "\n".join(kept)


def native_frames(text: str) -> list[str]:
    """C and C++ functions in captured output, innermost first, without those of the runtime."""
    frames = []
    for line in text.splitlines():
        for pattern in _NATIVE:
            if match := pattern.match(line):
                name = _function(match.group(1))
                if name and not _RUNTIME.match(name):
                    frames.append(name)
                break
    return frames


def _function(signature: str) -> str:
    """The qualified name in a C++ or Python signature: no result, template or arguments."""
    text = signature.strip().replace("(anonymous namespace)", "anonymous")
    text = normalise(text).replace("operator()", "operator-call")
    text = re.sub(r"\s*\(.*$", "", text)
    return text.rsplit(" ", 1)[-1].strip("*&") if text else ""
