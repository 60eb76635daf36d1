"""Exceptions as text."""

from nnfuzz.sandbox.exceptions import TEXT_CHARS, described_error, shortened


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return described_error(caught)


def test_type_message_and_traceback():
    text = raised(KeyError("x"))
    assert text["error_type"] == "KeyError" and text["message"] == "'x'"
    assert text["traceback"].startswith("Traceback") and "in raised" in text["traceback"]
    assert "^^^" not in text["traceback"]


def test_a_cause_is_part_of_the_traceback():
    try:
        try:
            raise OSError("first")
        except OSError as cause:
            raise RuntimeError("second") from cause
    except RuntimeError as error:
        trace = described_error(error)["traceback"]
    assert trace.index("first") < trace.index("second") and "^^^" not in trace


def test_an_error_without_a_text_is_described_all_the_same():
    assert "str() of the error failed" in raised(Unprintable())["message"]


def test_a_long_text_keeps_both_ends():
    text = shortened("a" * TEXT_CHARS + "b" * TEXT_CHARS)
    assert text[0] == "a" and text[-1] == "b" and f"{TEXT_CHARS} characters left out" in text
    assert shortened("short") == "short"
