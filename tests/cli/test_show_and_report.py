"""show and report, from the command line to the file."""

import json
from xml.etree import ElementTree

import pytest

from nnfuzz.campaign.rows import FindingRow, Occurrence, Record, TestRow
from nnfuzz.campaign.store import Store
from nnfuzz.cli.main import application, run
from nnfuzz.ir.features import features
from tests.report.graphs import branching


def command(*args):
    """Exit code of `nnfuzz ARGS`."""
    with pytest.raises(SystemExit) as end:
        run(lambda: application()([str(a) for a in args]))
    return end.value.code


def test_show_prints_and_draws(tmp_path, capsys):
    (tmp_path / "finding.json").write_text(json.dumps({"graph": branching()}))
    (tmp_path / "bare.json").write_text(json.dumps(branching()))
    assert command("show", tmp_path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "input  x: f32[1, 4, 8]" and printed[-1] == "output b: f32[1, 2, 8]"
    assert "a: f32[1, 2, 8], b: f32[1, 2, 8] = Split(x, axis=1)" in printed
    assert command("show", tmp_path / "bare.json", "--svg", tmp_path / "g.svg") == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "g.svg")
    ElementTree.parse(tmp_path / "g.svg")


@pytest.mark.parametrize("text", ["{", "[]", '{"graph": null}', '{"nodes": [{}], "values": []}'])
def test_what_is_no_graph_is_refused(tmp_path, capsys, text):
    (tmp_path / "x.json").write_text(text)
    assert command("show", tmp_path / "x.json") == 2
    assert "graph" in capsys.readouterr().err


def test_report_of_a_store(tmp_path, capsys):
    folder = tmp_path / "camp"
    finding = FindingRow("5i6", 1, "crash", "compile", "toy", "O1", "boom", "findings/gone")
    with Store.create(folder, {"seed": 9}) as store:
        store.begin_session()
        store.set_meta("versions", {"toy": "1.2.3"})
        store.set_epoch(0, {"Add(bool)"}, {"Add(bool)": "toy: no"})
        for index in range(3):
            levels = {"O0": "ok", "O1": {"kind": "crash"} if index == 1 else "ok"}
            parts = features(branching()) if index else None
            test = TestRow(index, "run", 1, {"toy": levels}, {"execute": 0.25}, features=parts)
            found = (finding,) if index == 1 else ()
            seen = (Occurrence("5i6", 1),) if index == 1 else ()
            store.record(Record(test, found, seen))
        assert command("report", folder) == 0  # while it is running
    assert capsys.readouterr().out.strip() == str(folder / "report.html")
    page = (folder / "report.html").read_text()
    for text in ("boom", "toy&nbsp;1.2.3", "Add(bool)", "1 &middot; 0 &middot; 1", "2 tests<"):
        assert text in page, text
    out = tmp_path / "elsewhere.html"
    assert command("report", folder, "--out", out) == 0 and out.is_file()


def test_a_folder_without_a_campaign(tmp_path, capsys):
    assert command("report", tmp_path) == 2
    assert "no campaign" in capsys.readouterr().err
