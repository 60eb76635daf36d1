"""Exceptions as text of limited length, made where they were raised."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from nnfuzz.base.text import visible

TEXT_CHARS = 8000
"""The longest message or traceback that is kept; rules may need time quadratic in its length."""
_HEAD = "Traceback (most recent call last):\n"


def described_error(error: BaseException) -> dict[str, str]:
    """The error's type, message and traceback as text of limited length."""
    try:
        message = str(error)
    except Exception as nested:
        message = f"(str() of the error failed: {nested!r})"
    try:
        trace = "".join(_trace(error))
    except Exception:
        trace = ""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    texts = {"error_type": name, "message": message, "traceback": trace}
    return {name: shortened(visible(shortened(text))) for name, text in texts.items()}


def _trace(error: BaseException) -> Iterable[str]:
    """The traceback without marks under the failing part of each line, for which Python parses the
    line again: that takes longer than most compilers take for an error.
    """
    if error.__cause__ or error.__context__ or isinstance(error, BaseExceptionGroup):
        return _without_marks(traceback.TracebackException.from_exception(error)).format()
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))
    last = traceback.format_exception_only(error)
    return (_HEAD, *frames.format(), *last) if error.__traceback__ else last


def _without_marks(trace: traceback.TracebackException) -> traceback.TracebackException:
    """The trace without marks under the failing part of each line, for which Python parses it
    again: that takes longer than most compilers take for an error.
    """
    for frame in trace.stack:
        frame.colno = None
    for other in (trace.__cause__, trace.__context__):
        if other is not None:
            _without_marks(other)
    return trace


def shortened(text: str) -> str:
    """Keeps both ends: a compiler's message carries its cause at one of them."""
    if len(text) <= TEXT_CHARS:
        return text
    half = TEXT_CHARS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
