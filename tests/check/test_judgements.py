"""Judgements on operators that are kept between processes."""

from __future__ import annotations

import json

import pytest

from nnfuzz.check.versions import Judgements, illegal, version_of
from nnfuzz.operators.families.elementwise import Unary
from nnfuzz.operators.operator import operator
from nnfuzz.operators.registry import OpRegistry

NAMES = ("Acos", "Mish", "LinearNorm")


@pytest.fixture(scope="module")
def specs():
    return [spec for spec in OpRegistry.load().specs() if spec.name in NAMES]


def judged(specs, judgements):
    return [illegal([s], o, r, judgements) for s in specs for o in (13, 26) for r in (None, "1.14")]


def test_judgements_are_those_that_were_made(specs, tmp_path):
    first = Judgements.kept_in(tmp_path)
    assert judged(specs, first) == judged(specs, Judgements())
    first.save()
    (path,) = tmp_path.glob("judgements-*.json")
    text = path.read_text()
    later = Judgements.kept_in(tmp_path)
    assert judged(specs, later) == judged(specs, first)
    assert [version_of(s, 17, later) for s in specs] == [version_of(s, 17) for s in specs]
    assert path.read_text() == text


def test_a_kept_judgement_is_not_made_again(specs, tmp_path):
    first = Judgements(tmp_path / "kept.json")
    first.answer(specs[0], "13", "[01]+", lambda: "10")
    first.answer(specs[0], "written", ".+", lambda: "A B")
    first.save()
    later = Judgements(tmp_path / "kept.json")
    assert later.answer(specs[0], "13", "[01]+", lambda: pytest.fail("asked")) == "10"
    assert later.answer(specs[0], "written", ".+", lambda: pytest.fail("asked")) == "A B"
    assert later.answer(specs[0], "14", "[01]+", lambda: "11") == "11"


def test_processes_that_work_side_by_side_keep_the_judgements_of_both(specs, tmp_path):
    one, other = Judgements(tmp_path / "kept.json"), Judgements(tmp_path / "kept.json")
    one.answer(specs[0], "13", "[01]+", lambda: "1")
    one.save()
    other.answer(specs[0], "14", "[01]+", lambda: "0")
    one.answer(specs[0], "written", ".+", lambda: "A")
    other.save()
    one.save()
    later = Judgements(tmp_path / "kept.json")
    assert later.answer(specs[0], "13", "[01]+", lambda: pytest.fail("asked")) == "1"
    assert later.answer(specs[0], "14", "[01]+", lambda: pytest.fail("asked")) == "0"
    assert later.answer(specs[0], "written", ".+", lambda: pytest.fail("asked")) == "A"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Acos@13": 3}', "[" * 9999])
def test_a_damaged_file_counts_as_empty(specs, tmp_path, text):
    path = tmp_path / "kept.json"
    path.write_text(text)
    kept = Judgements(path)
    assert kept.answer(specs[0], "13", "[01]+", lambda: "1") == "1"
    kept.save()
    assert json.loads(path.read_text()) == {f"{specs[0].name}@13": "1"}


@pytest.mark.parametrize("digits", ["", "1", "111", "1x"])
def test_an_answer_of_another_form_is_asked_again(specs, tmp_path, digits):
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({f"{specs[0].name}@13": digits}))
    assert Judgements(path).answer(specs[0], "13", "[01]{2}", lambda: "10") == "10"


def test_operators_whose_sources_are_unknown_are_judged_each_time(tmp_path):
    @operator
    class Acos(Unary):
        """Has the name of another one."""

    kept = Judgements(tmp_path / "kept.json")
    assert kept.answer(Acos, "13", "[01]", lambda: "0") == "0"
    assert kept.answer(Acos, "13", "[01]", lambda: "1") == "1"
    kept.save()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_nothing_else(specs, tmp_path):
    (tmp_path / "file").write_text("")
    kept = Judgements(tmp_path / "file" / "kept.json")
    assert kept.answer(specs[0], "13", "[01]", lambda: "1") == "1"
    kept.save()
