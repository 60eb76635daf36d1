"""Files and folders of somebody else end a command with one line and exit code 2, if at all."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import struct
import zipfile
from dataclasses import replace

import onnx
import pytest
from jinja2 import nodes as jinja_nodes

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base import untrusted
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import below, read_bytes, read_model
from nnfuzz.cli.consent import Consent
from nnfuzz.cli.main import application, run
from nnfuzz.findings.folder import read_finding
from nnfuzz.findings.report import tracker_report
from nnfuzz.findings.repro import repro_script
from nnfuzz.findings.text import environment
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.records.finding import Origin
from nnfuzz.reduction.candidate import ReductionFigures
from nnfuzz.reduction.diagnosis import Diagnosis
from nnfuzz.store.store import Store
from nnfuzz.triage.keys import Claim, Hypothesis
from nnfuzz.triage.signature import Signature
from tests.attacks import samples
from tests.corpus import by_hand

HOSTILE = (
    '"""\n```\n| </script><img src=x onerror=alert(1)> `|` {{ 7*7 }} \\\\" \x1b[31m\u202e\x00 \''
)


@pytest.fixture
def command(capfd):
    """A function that runs `nnfuzz ARGS`: the exit code and what stderr says."""

    def call(*args):
        with pytest.raises(SystemExit) as end:
            run(lambda: application()([str(arg) for arg in args]))
        return end.value.code, capfd.readouterr().err

    return call


def refused(answer):
    """Whether a command ended with exit code 2 and one line."""
    code, told = answer
    lines = [line for line in told.splitlines() if not line.startswith("note: ")]
    return code == 2 and len(lines) == 1 and lines[0].startswith("error: ")


@pytest.fixture
def folder(tmp_path):
    return samples.finding_folder(tmp_path / "finding")


def archive(**members):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return data.getvalue()


def npy(header):
    text = header.ljust(118).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


NPZ = {
    "empty": b"",
    "cut off": archive(x=b"\x93NUMPY")[:20],
    "no archive": b"PK\x03\x04" + b"\xff" * 200,
    "bomb": archive(x=b"\0" * (64 << 20)),
    "shape": archive(x=npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,), }")),
    "negative": archive(x=npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -3), }")),
    "pickle": archive(
        x=npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"cos\n."
    ),
    "code": archive(x=npy("{'descr': __import__('os').abort(), 'shape': (1,), }")),
    "no text": archive(
        x=npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }") + b"\xff\xff\xff\x7f"
    ),
    "struct": archive(x=npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }")),
}


@pytest.mark.parametrize("name", NPZ)
def test_a_damaged_archive_is_refused(name, folder, command, monkeypatch):
    monkeypatch.setattr(untrusted, "MAX_ARRAY_BYTES", 32 << 20)
    (folder / "inputs.npz").write_bytes(NPZ[name])
    assert refused(command("replay", folder))


def special(kind, path):
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)  # a circle


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        *((kind, "finding.json") for kind in ("pipe", "device", "folder", "circle")),
        *(("pipe", file) for file in ("model.onnx", "inputs.npz", "actual.npz")),
    ],
)
def test_what_is_no_regular_file_is_refused(kind, file, folder, command):
    special(kind, folder / file)
    assert refused(command("replay", folder))
    assert refused(command("reduce", folder))


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_seed_model_that_is_no_regular_file_is_refused(kind, tmp_path, command):
    special(kind, tmp_path / "a.onnx")
    args = ("--backend", "onnxruntime", "--out", tmp_path / "out")
    assert refused(command("fuzz", "--set", f"seed-models={tmp_path}", *args))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_settings_that_are_no_regular_file_are_refused(
    kind, folder, tmp_path, command, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    special(kind, tmp_path / "nnfuzz.toml")
    assert refused(command("show", folder))


def test_reading_has_limits(tmp_path, monkeypatch):
    file = tmp_path / "large"
    file.write_bytes(b"1" * 100)
    with pytest.raises(Unreadable, match="more than 99 bytes"):
        read_bytes(file, 99)
    with pytest.raises(Unreadable, match="more than 9 bytes"):
        read_bytes("/proc/self/maps", 9)  # it says that it has none
    monkeypatch.setattr(untrusted, "_content", lambda *about: __import__("time").sleep(5))
    with pytest.raises(Unreadable, match="takes longer than"):
        read_bytes(file, 200, seconds=0.05)


JSON = {
    "nothing": "",
    "cut off": '{"schema": 3, "sig',
    "deep": "[" * 100_000,
    "deep objects": '{"a":' * 500 + "1" + "}" * 500,
    "digits": '{"schema": ' + "9" * 5000 + "}",
    "list": "[]",
    "another schema": '{"schema": 99}',
}


@pytest.mark.parametrize(
    ("verb", "name"), [*(("replay", n) for n in JSON), ("reduce", "deep"), ("show", "deep")]
)
def test_a_damaged_document_is_refused(name, verb, folder, command):
    (folder / "finding.json").write_text(JSON[name])
    assert refused(command(verb, folder))


FIELDS = {
    "targets": [],
    "seed": "one",
    "test": "test 1/x",
    "kind": "great",
    "graph": {"schema": 1, "values": [["x", "float32", [10**12]]], "nodes": [], "inputs": ["x"],
              "weights": [], "outputs": ["x"]},
    "config": {"nodes": "many"},
    "verdict": {"mismatches": {"a": [{"output": 1}]}},
    "outcomes": [{"kind": "ok"}],
    "backend": {"name": 7, "options": {}, "plugins": []},
    "localisation": {"party": ["x"]},
    "campaign": {"right_in": 3},
    "signature": None,
}  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_the_wrong_type_is_refused(field, folder, command):
    file = folder / "finding.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: FIELDS[field]}))
    assert refused(command("replay", folder))


def test_a_model_that_is_missing_or_empty_is_refused(folder, command):
    (folder / "model.onnx").write_bytes(b"")
    assert refused(command("replay", folder))
    (folder / "model.onnx").unlink()
    assert refused(command("replay", folder))


def test_a_graph_that_does_not_fit_its_data_is_refused(folder, command):
    file = folder / "finding.json"
    data = json.loads(file.read_text())
    data["graph"]["nodes"][0]["op"] = "Conv"
    file.write_text(json.dumps(data))
    code, told = command("replay", folder)
    assert refused((code, told)) and "its graph is damaged" in told


def test_a_model_names_no_file_outside_of_its_folder(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 12)
    proto = onnx.load_model_from_string(by_hand.model())
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], "../secret")
    proto.graph.initializer[0].ClearField("raw_data")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(Unreadable, match="not inside of it"):
        read_model(tmp_path / "in" / "m.onnx")
    shutil.copy(secret, tmp_path / "in" / "secret")
    proto.graph.initializer[0].external_data[0].value = "secret"
    (tmp_path / "in" / "m.onnx").write_bytes(proto.SerializeToString())
    assert read_model(tmp_path / "in" / "m.onnx").graph.initializer[0].raw_data == b"\0" * 12


def test_verify_goes_on_behind_a_damaged_case(tmp_path, command, capfd):
    folder = samples.corpus(tmp_path / "c")
    whole = next(folder.iterdir())
    about = json.loads((whole / "nnfuzz.json").read_text())
    other = {**about, "graph": {**about["graph"], "schema": 7}}
    texts = ["{", '{"schema": 2, "test": 3}', json.dumps(other), json.dumps({**about, "test": "x"})]
    for name, text in zip("abde", texts):
        damaged = shutil.copytree(whole, folder / f"test_{name}")
        (damaged / "nnfuzz.json").write_text(text)
    shutil.copytree(whole, folder / "test_c")
    special("pipe", folder / "test_c" / "test_data_set_0" / "input_0.pb")
    with pytest.raises(SystemExit) as end:
        run(lambda: application()(["verify", str(folder), "-b", "onnxruntime", "--level", "O0"]))
    assert end.value.code == 1
    assert "1 passed, 5 error" in capfd.readouterr().out.replace(
        "5 error, 1 passed", "1 passed, 5 error"
    )


# -- campaigns ------------------------------------------------------------------------------------


def test_the_page_shows_what_there_is_of_a_damaged_campaign(tmp_path, command):
    folder = samples.campaign(tmp_path / "c")
    with sqlite3.connect(folder / "campaign.sqlite") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("UPDATE tests SET outcomes = '{' WHERE idx = 20")
        db.execute("UPDATE findings SET reduction = '[1]'")
    db.close()
    code, told = command("report", folder)
    assert code == 0 and "missing from the page: the tests" in told
    assert "Missing, since the campaign is damaged" in (folder / "report.html").read_text()


def test_a_campaign_with_damaged_pages_is_not_written_to(tmp_path, command):
    folder = samples.campaign(tmp_path / "c")
    file = folder / "campaign.sqlite"
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()[0]
    db.close()
    data = bytearray(file.read_bytes())
    data[(page - 1) * 4096 : (page - 1) * 4096 + 300] = b"\x07" * 300
    file.write_bytes(data)
    assert refused(command("reduce", folder))
    assert refused(command("fuzz", "--out", folder, "--resume", "--tests", 40))
    code, told = command("report", folder)
    assert code == 0 and "missing from the page" in told


@pytest.mark.parametrize("where", ["../victim", "/victim", "findings/../../victim", "other/x", ""])
def test_folders_outside_of_a_campaign_are_not_touched(where, tmp_path, command):
    victim = samples.finding_folder(tmp_path / "victim")
    before = sorted(path.name for path in victim.iterdir())
    named = str(victim) if where == "/victim" else where
    folder = samples.campaign(tmp_path / "c", named)
    assert refused(command("reduce", folder))
    assert refused(command("fuzz", "--out", folder, "--resume", "--tests", 40))
    assert sorted(path.name for path in victim.iterdir()) == before


def test_links_out_of_a_campaign_are_not_followed(tmp_path, command):
    folder = samples.campaign(tmp_path / "c")
    victim = tmp_path / "victim"
    os.replace(folder / "findings" / "one", victim)
    (folder / "findings" / "one").symlink_to(victim)
    assert refused(command("reduce", folder))
    (tmp_path / "file").write_text("precious")
    (folder / "campaign.lock").unlink()
    (folder / "campaign.lock").symlink_to(tmp_path / "file")
    assert refused(command("reduce", folder))
    assert (tmp_path / "file").read_text() == "precious" and len(list(victim.iterdir())) > 5


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON tests BEGIN DELETE FROM findings; END",
        "CREATE VIEW v AS WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x FROM r) SELECT * FROM r",
        "DROP TABLE events",
    ],
)
def test_a_campaign_with_programs_in_it_is_refused(sql, tmp_path, command):
    folder = samples.campaign(tmp_path / "c")
    with sqlite3.connect(folder / "campaign.sqlite") as db:
        db.execute(sql)
    db.close()
    for args in (("report", folder), ("reduce", folder)):
        assert refused(command(*args))


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
def test_what_sqlite_would_follow_or_wait_for_is_refused(suffix, tmp_path, command):
    folder = samples.campaign(tmp_path / "c")
    special("pipe", folder / f"campaign.sqlite{suffix}")
    assert refused(command("report", folder))


def test_settings_of_a_campaign_name_no_code_and_no_crowd(tmp_path, command):
    folder = samples.campaign(tmp_path / "c")
    with Store.open(folder) as store:
        config = store.config()
        assert "service" not in config["producer"] and "preload" not in config["reducer"]
        for change in (
            {"workers": 10**6},
            {"producer": {"seconds": "x"}},
            {"seed": None},
            {"x": 1},
        ):
            store.set_meta("config", {**config, **change})
            store.close()
            assert refused(command("fuzz", "--out", folder, "--resume", "--tests", 40)), change
            store = Store.open(folder)
        store.close()


def test_names_stay_below_their_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    for name in ("", ".", "..", "../x", "/etc/passwd", "a/../../b", "out/x", "a\0b"):
        with pytest.raises(Unreadable):
            below(tmp_path / "in", name)
    assert below(tmp_path / "in", "a/b") == tmp_path / "in" / "a" / "b"


# -- plug-ins -------------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path):
    """A plug-in that tells when it was run, and the file by which it does."""
    mark = tmp_path / "mark"
    file = tmp_path / "evil.py"
    file.write_text(f"open({str(mark)!r}, 'a').write('run ')\n")
    return file, mark


@pytest.mark.parametrize("verb", ["replay", "reduce"])
def test_a_plugin_of_a_finding_is_not_run(verb, trap, tmp_path, command):
    file, mark = trap
    folder = samples.finding_folder(tmp_path / "f", plugins=(str(file),), backend="mine")
    code, told = command(verb, folder)
    assert code == 2 and f"add --plugin {folder / file.name}" in told and not mark.exists()


def test_a_plugin_of_a_campaign_is_not_run(trap, tmp_path, command):
    file, mark = trap
    folder = samples.campaign(tmp_path / "c", plugins=(str(file),))
    for args in (("reduce", folder), ("fuzz", "--out", folder, "--resume", "--tests", 40)):
        code, told = command(*args)
        assert code == 2 and f"add --plugin {file}" in told and not mark.exists()


def test_a_plugin_runs_only_if_the_command_names_it(trap, tmp_path):
    file, _ = trap
    folder = samples.finding_folder(tmp_path / "f", plugins=(str(file),))
    assert read_finding(folder, Consent(folder)).config["plugins"] == []
    assert read_finding(folder, Consent(folder, [file])).config["plugins"] == [str(file)]


def test_settings_of_a_folder_name_no_plugin(trap, tmp_path, command, monkeypatch):
    file, mark = trap
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nnfuzz.toml").write_text(f"[fuzz]\nplugin = ['{file}']\n")
    code, shown = command("fuzz", "-b", "onnxruntime")
    assert code == 2 and "if the command names it" in shown and not mark.exists()


@pytest.mark.parametrize(
    "ending", ["raise SystemExit(0)", "import sys; sys.exit()", "exit(0)", "1/0"]
)
def test_a_plugin_that_ends_the_program_is_an_error(ending, tmp_path, command):
    file = tmp_path / "plug.py"
    file.write_text(ending)
    code, told = command("backends", "--plugin", file)
    assert code == 2 and str(file) in told


class Point:
    """An entry point of an installed package that does not work."""

    value, name, dist = "broken_package", "broken", None

    def load(self):
        raise SystemExit(0)


def test_a_broken_package_is_named_and_left_out(monkeypatch, command):
    from importlib.metadata import entry_points

    def found(group):
        return [*entry_points(group=group), Point()]

    monkeypatch.setattr("nnfuzz.backend.registry.entry_points", found)
    monkeypatch.setattr("nnfuzz.operators.registry.entry_points", found)
    told = []
    assert "onnxruntime" in BackendRegistry.discover().usable(told.append)
    assert len(told) == 1 and "broken_package" in told[0]
    registry = OpRegistry.load()
    assert len(registry) > 100 and "broken_package" in registry.notes[0]
    code, said = command("fuzz")
    assert code == 2 and "which compiler?" in said and "broken_package" in said
    assert refused(command("fuzz", "--backend", "broken"))


# -- templates ------------------------------------------------------------------------------------


def hostile_finding():
    """A finding with HOSTILE in every text of it."""
    found = samples.finding()
    failure = found.failure
    target = replace(failure.targets[0], compiler=HOSTILE, release=HOSTILE, pipeline=HOSTILE)
    outcomes = tuple(
        replace(o, target=replace(target, pipeline=f"{HOSTILE}{k}"), error_type=HOSTILE,
                message=HOSTILE, traceback=HOSTILE, captured=HOSTILE, signal=HOSTILE)
        for k, o in enumerate(found.outcomes)
    )  # fmt: skip
    signature = Signature(failure.signature.hash, HOSTILE, dict(failure.signature.parts))
    mismatches = {
        o.target: tuple(replace(m, output=HOSTILE, actual=HOSTILE) for m in ms)
        for o, ms in zip(outcomes, found.verdict.mismatches.values())
    }
    claimed = Hypothesis(Claim.OTHER, detail=HOSTILE)
    place = {"party": HOSTILE, "evidence": [HOSTILE], "level": HOSTILE, "onnx_operator": HOSTILE,
             "onnx_model": HOSTILE, "ablation": [{"without": [HOSTILE], "answer": ""}]}  # fmt: skip
    return replace(
        found,
        failure=replace(failure, signature=signature, targets=(outcomes[1].target,)),
        outcomes=outcomes,
        verdict=replace(found.verdict, mismatches=mismatches),
        versions={HOSTILE: HOSTILE},
        localisation=place,
        origin=Origin(
            right_in=HOSTILE, reduction=ReductionFigures((3, 2)), diagnosis=Diagnosis((claimed,))
        ),
        case=replace(found.case, exporter=HOSTILE, expected={HOSTILE: found.case.expected["y"]}),
    )


def test_no_name_leaves_its_place_in_a_program():
    text = repro_script(hostile_finding(), None)
    tree = compile(text, "repro.py", "exec", flags=1024)  # only the syntax tree
    assert text.isascii() and "\x1b" not in text
    calls = {node.func.id for node in __import__("ast").walk(tree)
             if node.__class__.__name__ == "Call" and hasattr(node.func, "id")}  # fmt: skip
    assert "alert" not in calls


def rendered(markdown):
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def test_no_name_leaves_its_place_in_a_report():
    report = tracker_report(hostile_finding())
    assert "\x1b" not in report and "\x00" not in report and "\u202e" not in report
    assert "<img" not in rendered(report) and "<script" not in rendered(report)


def test_every_value_of_a_template_is_quoted():
    """Whatever a template prints goes through a filter or the default that quotes."""
    for html in (False, True):
        env = environment(html)
        assert env.finalize is not None
    for name, place in (
        ("x.md.jinja", "\\<img"),
        ("x.py.jinja", "<img"),
        ("x.html.jinja", "&lt;img"),
    ):
        env = environment("html" in name)
        template = env.from_string("{{ value }}")
        template.name = name
        root = env.parse("{{ value }}")
        assert root.find(jinja_nodes.Output)
        context = template.new_context({"value": HOSTILE})
        shown = "".join(template.root_render_func(context))
        assert (place in shown and "\n" not in shown.strip()) or "html" in name
