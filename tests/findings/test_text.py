"""Nothing that a compiler prints can break out of a report or of a script."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nnfuzz.base.text import visible
from nnfuzz.findings.text import code, docstring, fenced, inline, python, seconds, trimmed

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


@pytest.mark.parametrize("call", ["@octocat", "(@octo-org/team)", "#12", "octo/cat#12", "gh-12"])
def test_text_calls_no_person_and_no_issue(call):
    assert call not in MarkdownIt().render(inline(f"see {call}"))
    assert call in MarkdownIt().render(code(f"see {call}"))  # nothing in code is a link


def test_what_is_no_call_is_left_alone():
    for text in ("onnxruntime@1.31.1/cpu", "a @ b", "C#", "8bit"):
        assert MarkdownIt().render(inline(text)) == f"<p>{text}</p>\n"


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


def test_durations_are_for_people():
    assert [seconds(s) for s in (1.5, 600, 9000)] == ["1.5 s", "10 min", "2 h 30 min"]
