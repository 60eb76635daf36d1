"""Stack frames of a compiler, out of Python tracebacks and of what crash handlers print."""

from __future__ import annotations

import re

from nnfuzz.backend.backtrace import function_name, split_frames
from nnfuzz.backend.causes import DIRECT

_PYTHON = re.compile(r'^\s*File "([^"]*)", line (\d+),? in (.+)$')
_OURS = re.compile(r"(?:^|/)(?:nnfuzz/(?:\w+/)*|backends/)\w+\.py$|^<frozen ")
_RUNTIMES = (
    r"_?_?libc_\w+|_?_?GI_\w+|_start|clone\d?|gsignal|raise|abort|killpg|pthread_\w+|__\w*|main"
    r"|start_thread|_nl_load_domain.*|mem(?:cpy|move|set|cmp)|strn?(?:len|cpy|cmp|cat|dup)|(?:m|c|re)alloc"
    r"|free",
    r"std::.*|__gnu_cxx::.*|operator (?:new|delete).*|operator\(\)|absl::.*|google::.*",
    r"<.*|rust_\w+|rustc\w*|(?:backtrace|anyhow|eyre|std_\w+|pyo3|tokio)::.*"
    r"|core::(?:panicking|result|option|ops|fmt|iter|slice|str|num|ptr|mem|array|intrinsics)::.*"
    r"|alloc::(?:alloc|boxed|collections|fmt|raw_vec|rc|slice|str|string|sync|vec)::.*",
    r"runtime\.\w.*|main\.main|reflect\..*|syscall\..*|panic",
    r"(?:java|javax|jdk|sun|scala|kotlin|android|dalvik|akka)[./].*|node:.*|eval|async",
    r"\$s.*|_?swift_\w+|_assertionFailure|_dispatch_\w+",
    r"_?Py\w*|cfunction_\w+|vectorcall\w*|method_\w+|slot_\w+|_run_code|_run_module_as_main"
    r"|gen_\w+|builtin_\w+|pymain_\w+|_ctypes_\w+|_call_function_pointer|ffi_\w+",
    r".*(?:Signal_?Handlers?|segfault_handler|Stack_?Trace|Backtrace)\w*",
    r"(?:.*[.:_])?(?:fatal\w*|assert(?:ion)?(?:_fail\w*)?|panic\w*|LogMessage\w*|Unimplemented)",
    r"(?:.*(?:::|\.))?(?:[Ee]rrors?|Exception|panicking|Log(?:Fatal|Message)|Status)(?:::|\.).*",
)
"""By language: libc, C++ and its libraries, Rust, Go, Java and JavaScript, Swift, Python; then what
reports a failure, by its name."""
_RUNTIME = re.compile("|".join(_RUNTIMES))
_LIBRARY = re.compile(r"/lib/python3\.\d+/(?!(?:site|dist)-packages/)")
_PANICKED = re.compile(r"\bpanicked at (?:'.*', )?(?:\S*[/\\])?([\w.-]+):(\d+)(?::\d+)?:?$", re.M)
_INSTALLED = re.compile(r'"[^"]*/(?:site|dist)-packages/')
_FIRST = re.compile(r"most recent call first", re.IGNORECASE)


def python_frames(text: str) -> list[str]:
    """Frames of the innermost cause's traceback, outermost first, as "file.py:function".

    Those of nnfuzz itself and of Python's library are left out. C++ frames that a compiler adds to
    its tracebacks count.
    """
    _, _, last = text.partition(DIRECT)[0].rpartition("Traceback (most recent call last)")
    frames = []
    for line in (last or text).splitlines():
        match = _PYTHON.match(line)
        if match and not (_OURS.search(match.group(1)) or _LIBRARY.search(match.group(1))):
            frames.append(f"{match.group(1).rsplit('/', 1)[-1]}:{function_name(match.group(3))}")
    return frames[::-1] if _FIRST.search(text) else frames


def innermost_line(text: str) -> str:
    """ "file.py:123", the place of the innermost foreign frame of the last traceback, or where
    something panicked; "" if neither is in the text.
    """
    if panicked := _PANICKED.search(text):
        return f"{panicked[1]}:{panicked[2]}"
    _, _, last = text.rpartition("Traceback (most recent call last)")
    frames = [match for line in last.splitlines() if (match := _PYTHON.match(line))]
    foreign = [match for match in frames if not _OURS.search(match.group(1))]
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
    """Functions of compiled code in a text, innermost first, without those of any runtime."""
    return [name for name in split_frames(text).functions if name and not _RUNTIME.fullmatch(name)]


def is_native(frame: str) -> bool:
    """Whether a frame is one of compiled code, and not "file.py:function"."""
    return "::" in frame or ":" not in frame
