"""Judgements on operators that are kept between processes."""

from __future__ import annotations

import json

import pytest

from nnfuzz.check.judgements import Judgements
from nnfuzz.check.legality import illegal
from nnfuzz.check.versions import version_of
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
    first.legal(specs[0], "13", 2, lambda: [True, False])
    first.written(specs[0], lambda: ["A", "B"])
    first.save()
    later = Judgements(tmp_path / "kept.json")
    assert later.legal(specs[0], "13", 2, lambda: pytest.fail("asked")) == [True, False]
    assert later.written(specs[0], lambda: pytest.fail("asked")) == ("A", "B")
    assert later.legal(specs[0], "14", 2, lambda: [True, True]) == [True, True]


def test_processes_that_work_side_by_side_share_their_judgements(specs, tmp_path):
    one, other = Judgements(tmp_path / "kept.json"), Judgements(tmp_path / "kept.json")
    one.legal(specs[0], "13", 1, lambda: [True])
    one.save()
    assert other.legal(specs[0], "13", 1, lambda: pytest.fail("asked")) == [True]
    other.legal(specs[0], "14", 1, lambda: [False])
    one.written(specs[0], lambda: ["A"])
    other.save()
    one.save()
    later = Judgements(tmp_path / "kept.json")
    assert later.legal(specs[0], "14", 1, lambda: pytest.fail("asked")) == [False]
    assert later.written(specs[0], lambda: pytest.fail("asked")) == ("A",)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"legal": 3}', '{"legal": {"Acos@13": [1]}}', "[" * 9999]
)
def test_a_damaged_file_counts_as_empty(specs, tmp_path, text):
    path = tmp_path / "kept.json"
    path.write_text(text)
    kept = Judgements(path)
    assert kept.legal(specs[0], "13", 1, lambda: [True]) == [True]
    kept.save()
    assert json.loads(path.read_text())["legal"] == {f"{specs[0].name}@13": "1"}


@pytest.mark.parametrize("digits", ["", "1", "111", "1x"])
def test_digits_that_do_not_fit_are_judged_again(specs, tmp_path, digits):
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({"legal": {f"{specs[0].name}@13": digits}, "written": {}}))
    assert Judgements(path).legal(specs[0], "13", 2, lambda: [True, False]) == [True, False]


def test_operators_whose_sources_are_unknown_are_judged_each_time(tmp_path):
    @operator
    class Acos(Unary):
        """Has the name of another one."""

    kept = Judgements(tmp_path / "kept.json")
    assert kept.legal(Acos, "13", 1, lambda: [False]) == [False]
    assert kept.legal(Acos, "13", 1, lambda: [True]) == [True]
    assert kept.written(Acos, lambda: ["A"]) == ("A",)
    kept.save()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_nothing_else(specs, tmp_path):
    (tmp_path / "file").write_text("")
    kept = Judgements(tmp_path / "file" / "kept.json")
    assert kept.legal(specs[0], "13", 1, lambda: [True]) == [True]
    kept.save()
