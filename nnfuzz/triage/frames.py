"""Stack frames of a compiler, out of Python tracebacks and of what crash handlers print."""

from __future__ import annotations

import re

from nnfuzz.backend.backtrace import function_name, split_frames
from nnfuzz.backend.causes import DIRECT
from nnfuzz.base.code_paths import ADAPTER, LIBRARY

_PYTHON = re.compile(r'^\s*File "([^"]*)", line (\d+),? in (.+)$')
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
_PANICKED = re.compile(r"\bpanicked at (?:'.*', )?(?:\S*[/\\])?([\w.-]+):(\d+)(?::\d+)?:?$", re.M)
_FIRST = re.compile(r"most recent call first", re.IGNORECASE)


def python_frames(text: str) -> list[str]:
    """Frames of the innermost cause's traceback, outermost first, as "file.py:function".

    Those of Python's library are left out. C++ frames that a compiler adds to its tracebacks count.
    """
    _, _, last = text.partition(DIRECT)[0].rpartition("Traceback (most recent call last)")
    frames = [frame for frame in _foreign(last or text) if not frame[1].startswith(LIBRARY)]
    places = [f"{_name(frame)}:{function_name(frame[3])}" for frame in frames]
    return places[::-1] if _FIRST.search(text) else places


def innermost_line(text: str) -> str:
    """ "file.py:123", the place of the innermost frame of the last traceback, or where something
    panicked; "" if neither is in the text.
    """
    if panicked := _PANICKED.search(text):
        return f"{panicked[1]}:{panicked[2]}"
    frames = _foreign(text.rpartition("Traceback (most recent call last)")[2])
    inner = frames[0 if _FIRST.search(text) else -1] if frames else None
    return f"{_name(inner)}:{inner[2]}" if inner else ""


def _foreign(text: str) -> list[re.Match[str]]:
    """The frames of Python, but those of an adapter; nnfuzz's own are in no text of a compiler."""
    frames = filter(None, map(_PYTHON.match, text.splitlines()))
    return [frame for frame in frames if not frame[1].startswith(ADAPTER)]


def _name(frame: re.Match[str]) -> str:
    return frame[1].rsplit("/", 1)[-1]


def native_frames(text: str) -> list[str]:
    """Functions of compiled code in a text, innermost first, without those of any runtime."""
    return [name for name in split_frames(text).functions if name and not _RUNTIME.fullmatch(name)]


def is_native(frame: str) -> bool:
    """Whether a frame is one of compiled code, and not "file.py:function"."""
    return "::" in frame or ":" not in frame
