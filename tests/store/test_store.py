"""What is recorded stays, whatever happens to the process."""

from __future__ import annotations

import sqlite3

import pytest

from nnfuzz.backend.complaint import CompilerError
from nnfuzz.backend.outcome import Brief
from nnfuzz.backend.stage import Stage
from nnfuzz.feedback.support import ProbeAnswer, ProbeAnswers
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis, KeptCase
from nnfuzz.ir.features import Features, NodeFeatures
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.records.rows import (
    AvoidedRow,
    ErrorText,
    EventRow,
    FindingRow,
    Occurrence,
    Record,
    TestRow,
)
from nnfuzz.store.finding_folders import mend
from nnfuzz.store.store import FILE, Store, StoreError
from nnfuzz.testcase.identity import Numbered


def finding(signature: str, index: int) -> FindingRow:
    return FindingRow(
        signature, Numbered(1, index), "crash", "compile", "toy", "O1", "title", "findings/x"
    )


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "campaign", {"seed": 1}) as store:
        store.sessions.begin()
        yield store


def test_records_come_back(store):
    row = TestRow(7, "run", 2, {"toy": {"O0": Brief("ok")}}, {"generate": 0.25}, 0.5)
    event = EventRow(Numbered(1, 7), "death", "toy", "compile O1", "SIGSEGV", "killed", "trace")
    store.record(Record(row, (finding("a", 7),), (Occurrence("a", Numbered(1, 7)),), (event,)))
    store.record(Record(TestRow(3, "inputs", 2), (), (Occurrence("a", Numbered(1, 3)),)))
    assert list(store.tests.rows()) == [TestRow(3, "inputs", 2), row]
    assert {*store.tests.done()} == {3, 7}
    assert store.events.rows() == [event]
    (found,) = store.findings()
    assert (found.signature, found.test.index, found.occurrences) == ("a", 7, 2)
    assert store.occurrences.buckets() == {"finding": 2}


def test_error_texts_come_back_in_whole_and_are_kept_once(store):
    error = CompilerError(Stage.COMPILE, "E", "a line\n" * 900, "trace", bases=("E", "Exception"))
    written = ErrorText.of(error, ("line", "elsewhere"))
    assert written.words == ("line",)
    for index in (1, 2):
        store.record(Record(TestRow(index, "run", 0, errors={("toy", "O0"): written})))
    assert (
        store.tests.errors.of_test(1) == store.tests.errors.of_test(2) == {("toy", "O0"): written}
    )
    assert store.tests.errors.of_test(3) == {}
    with sqlite3.connect(store.folder / FILE) as db:
        assert db.execute("SELECT count(*), max(length(text)) < 300 FROM texts").fetchone() == (
            1,
            1,
        )


def test_an_index_that_is_redone_counts_once(store):
    for _ in range(2):
        store.record(
            Record(TestRow(1, "run", 1), (finding("a", 1),), (Occurrence("a", Numbered(1, 1)),))
        )
    assert len(list(store.tests.rows())) == 1
    assert store.findings()[0].occurrences == 1


def test_a_record_is_all_or_nothing(store):
    broken = Occurrence("a", Numbered(1, 1), bucket=None)
    with pytest.raises(sqlite3.IntegrityError):
        store.record(Record(TestRow(1, "run", 1), (finding("a", 1),), (broken,)))
    assert {*store.tests.done()} == set() and store.findings() == []
    store.record(Record(TestRow(2, "run", 1)))
    assert {*store.tests.done()} == {2}


def test_epochs_keep_their_refusals(store):
    assert (
        store.restraints.last() == -1
        and store.restraints.refused_in(-1) == store.restraints.refused_in(0) == ()
    )
    store.restraints.set_epoch(0, [], {})
    store.restraints.set_epoch(3, {"B", "A"}, {"A": "toy: no"}, [AvoidedRow("C", "sig", "why")])
    assert store.restraints.last() == 3
    assert store.restraints.refused_in(0) == store.restraints.refused_in(2) == ()
    assert store.restraints.refused_in(3) == store.restraints.refused_in(9) == ("A", "B")
    settings = {"refused": ("A", "B"), "avoid": ("C",), "emphasis": NO_EMPHASIS}
    assert store.restraints.settings_in(4) == settings
    graph = GraphView((ValueView("x", "int8", (2,)),), (NodeView("Abs", ("x",), ("y",), {"a": 1}),))
    asked = Emphasis({"Abs": 2.5}, {}, {"int8": 0.5}, 1.2, 0.25, (KeptCase(7, "direct", graph),))
    store.restraints.set_epoch(4, ["A"], {}, [], asked)
    assert store.restraints.settings_in(5)["emphasis"] == asked
    assert store.restraints.reasons() == {"A": "toy: no"}


def test_answers_of_probes_come_back(store):
    ran, failed = map(SupportKey.parse, "kl")
    store.probes.add("toy", ran, 1, 0, {"O0": ProbeAnswer("ok")})
    store.probes.add("toy", failed, 0, 16, {"O0": ProbeAnswer("failing", "why")})
    answers = ProbeAnswers()
    store.probes.load(answers)
    assert answers.get("toy", failed, 0, ["O0"]) == ProbeAnswer("failing", "why")
    assert store.probes.before(0) == ["k"] and store.probes.before(16) == ["l"]


def test_what_there_is_to_learn_from_tests(store):
    told = {"toy": {"O0": Brief("ok"), "O1": Brief("unsupported", message="no")}}
    row = TestRow(1, "run", 2, told, exporter="direct", items=("A()->x", "A->B(x)"), digest="0f")
    seen = Occurrence("a", Numbered(1, 1), "known", "toy crash compile")
    flaky = Occurrence("b", Numbered(1, 1), "flaky", "toy crash compile")
    store.record(Record(row, (), (seen, flaky)))
    store.record(Record(TestRow(5, "run", 2)))
    (found,) = store.observed(0, 5)
    assert found.outcomes == {"toy": (("ok", ""), ("unsupported", "no"))}
    assert found.failures == {"a": "toy crash compile"} and found.items == row.items
    assert next(store.tests.rows()) == row
    assert store.occurrences.first_tests() == {"a": 1}


def test_the_time_of_earlier_sessions_is_kept(store, tmp_path):
    store.record(Record(TestRow(1, "run", 1)))
    spent = store.sessions.seconds()
    assert store.sessions.seconds_before() == 0
    store.close()
    with Store.open(tmp_path / "campaign") as again:
        again.sessions.begin()
        assert 0 < again.sessions.seconds_before() <= spent


def test_the_share_of_time_in_compilers_is_over_all_sessions(tmp_path):
    store = Store.create(tmp_path, {})
    for _ in range(2):
        store.sessions.begin()
        store.sessions.account(2, lambda: {"toy": 3 * store.sessions.seconds() / 2})
        store.record(Record(TestRow(1, "run", 1)))
    assert store.sessions.sut_shares() == {"toy": pytest.approx(0.75, rel=0.5)}
    store.close()


def test_readers_do_not_wait_for_the_writer(store, tmp_path):
    store.record(Record(TestRow(1, "run", 1)))
    with Store.open(tmp_path / "campaign", write=False) as reader:
        assert {*reader.tests.done()} == {1} and reader.config() == {"seed": 1}


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough" * 50])
def test_foreign_files_are_refused(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(StoreError, match=r"schema 0|not the file of a campaign"):
        Store.open(tmp_path)


def test_an_empty_folder_is_no_campaign(tmp_path):
    with pytest.raises(StoreError, match="holds no campaign"):
        Store.open(tmp_path)


def test_an_interrupted_replacement_is_mended(tmp_path):
    (tmp_path / ".replaced-a").mkdir()
    (tmp_path / ".replaced-b").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / ".partial-c-xyz").mkdir()
    mend(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_features_and_times_of_tests(store):
    add = NodeFeatures("Add", "float32,float32", "0badcafe", "2x3,", ())
    parts = Features((add, NodeFeatures("Cast", "int8", "1", "2", ("to=more",))), ((0, 1),))
    store.record(Record(TestRow(1, "run", 1, features=parts)))
    store.record(Record(TestRow(2, "fault", 1)))
    assert list(store.tests.features()) == [(1, parts)]
    (_, one), (_, two) = store.lines()
    assert one.features == parts and two.features is None
    assert 0 <= one.at <= two.at <= store.sessions.seconds() + 1
    assert [index for index, _ in store.lines(first=2)] == [2]
    assert [index for index, _ in store.lines(most=1)] == [1]


def test_who_reads_changes_no_file(store):
    def held():
        return {path.name: path.read_bytes() for path in sorted(store.folder.iterdir())}

    store.record(Record(TestRow(1, "run", 1)))
    before = held()
    with Store.open(store.folder, write=False) as reader:
        assert {*reader.tests.done()} == {1}
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.set_meta("a", 1)
        store.record(Record(TestRow(2, "run", 1)))
        assert {*reader.tests.done()} == {1, 2}
    assert before.keys() == held().keys()
    store.close()
    before = held()
    with Store.open(store.folder, write=False) as reader:
        assert {*reader.tests.done()} == {1, 2}
    assert held() == before


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="holds other files"):
        Store.create(tmp_path, {})
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
