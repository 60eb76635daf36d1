"""Nothing that a compiler prints can break out of a report or of a script."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.report.text import code, docstring, fenced, inline, python, trimmed
from nnfuzz.text import visible

TEXT = st.text(
    alphabet=st.sampled_from("ab`|*\\\"'\n\r\t\x00\x1b[31m<>#é\u202e\ud800 ~"), max_size=40
)


@given(TEXT)
def test_visible_has_no_control_characters(text):
    shown = visible(text)
    assert all(c in "\n\t" or c.isprintable() for c in shown), ascii(shown)
    shown.encode()


@given(TEXT)
def test_fence_cannot_be_closed_by_its_text(text):
    opening, *body, closing = fenced(text).split("\n")
    assert set(opening) == {"`"} and closing == opening
    assert not any(line.strip().startswith(opening) for line in body)


@given(TEXT)
def test_cells_have_one_line_and_no_bare_bar(text):
    for cell in (code(text), inline(text)):
        assert "\n" not in cell and "|" not in cell.replace("\\|", "")


@given(TEXT)
def test_docstring_stays_inside(text):
    source = f'"""{docstring(text)}"""\n'
    assert isinstance(ast.literal_eval(source), str)


@given(st.recursive(st.text(max_size=9) | st.integers() | st.booleans(), st.lists))
def test_python_literal(value):
    source = python(value)
    assert source.isascii() and ast.literal_eval(source) == value


def test_trimmed_keeps_both_ends():
    shown = trimmed("a" * 50 + "b" * 50, 20)
    assert shown.startswith("a" * 10 + "\n") and shown.endswith("\n" + "b" * 10)
    assert "80 characters left out" in shown
    assert trimmed("short", 20) == "short"
