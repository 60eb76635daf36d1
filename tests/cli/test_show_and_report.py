"""show and report, from the command line to the file."""

from nnfuzz.backend.outcome import Brief
from nnfuzz.base.writing import as_json
from nnfuzz.ir.features import features
from nnfuzz.records.rows import FindingRow, Occurrence, TestRow
from nnfuzz.store.database import dumps
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered
from tests.command import exit_code as command
from tests.findings.graphs import branching


def test_report_of_a_store(tmp_path, capsys):
    folder = tmp_path / "camp"
    finding = FindingRow(
        "5i6", Numbered(1, 1), "crash", "compile", "toy", "O1", "boom", "findings/gone"
    )
    with Store.create(folder, {"seed": 9}) as store:
        store.sessions.begin()
        store.set_meta("versions", {"toy": "1.2.3"})
        store.restraints.set_epoch(0, {"Add(bool)"}, {"Add(bool)": "toy: no"})
        for index in range(3):
            levels = {"O0": Brief("ok"), "O1": Brief("crash" if index == 1 else "ok")}
            parts = dumps(as_json(features(branching()))) if index else ""
            test = TestRow(index, "run", 1, {"toy": levels}, {"execute": 0.25}, features=parts)
            found = (finding,) if index == 1 else ()
            seen = (Occurrence("5i6", Numbered(1, 1)),) if index == 1 else ()
            store.record(test, found, seen)
        store.flush()
        assert command("report", folder) == 0  # while it is running
    assert capsys.readouterr().out.strip() == str(folder / "report.html")
    page = (folder / "report.html").read_text()
    for text in ("boom", "toy&nbsp;1.2.3", "Add(bool)", "crash</th>"):
        assert text in page, text
    out = tmp_path / "elsewhere.html"
    assert command("report", folder, "--out", out) == 0 and out.is_file()


def test_a_folder_without_a_campaign(tmp_path, capsys):
    assert command("report", tmp_path) == 2
    assert "no campaign" in capsys.readouterr().err
