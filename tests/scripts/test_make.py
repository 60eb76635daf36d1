"""Pages that scripts make, and scripts of bugs."""

import re
from dataclasses import replace

from nnfuzz.bugs.bug import BugState, ScriptResult
from nnfuzz.vary.faults.catalogue import KINDS
from scripts.make.pages import DOCS, LEDGER, PAGES, pictured
from scripts.make.pages import bugs_page as page
from tests.bugs.conftest import BUG


def test_every_script_is_linked():
    linked = set(re.findall(r"\(bugs/(\S+)/repro\.py\)", page(LEDGER.bugs())))
    scripts = {f.parent.relative_to(LEDGER.folder).as_posix() for f in DOCS.rglob("bugs/*/*/*.py")}
    assert linked == scripts and len(scripts) > 150


def test_a_row_has_states_and_releases():
    releases = {"1.31.1": ScriptResult.REPRODUCES, "1.32.0": ScriptResult.RIGHT}
    bug = replace(
        BUG,
        title="Pow: wrong values",
        system="torch",
        state=BugState.FIXED,
        model="Pow of 0",
        found_by="nnfuzz fuzz -b torch",
        releases=releases,
    )
    row = "| Pow: **wrong values** (fixed) | Pow of 0 | 1.31.1; right in 1.32.0 |  |"
    assert row in page({"torch/pow": bug})


def test_a_report_gets_a_drawing_with_its_wrong_node_marked():
    place = LEDGER.place("onnxruntime/qlinear-softmax-scale")
    report = (place / "report.md").read_text()
    drawing = pictured(report, place).partition("<div>")[2].partition("</div>")[0]
    assert "QuantizeLinear</text>" in drawing and re.search(r'class="[^"]*g-wrong', drawing)
    assert pictured("# no model", place) == "# no model"


def test_a_report_gets_heat_maps_of_values_that_its_folder_holds():
    place = LEDGER.place("tvm/maximum-of-nan")
    shown = pictured((place / "report.md").read_text(), place)
    assert shown.count('class="heat"') == 3 and "outside: up to inf" in shown


def test_the_scripts_stand_alone():
    for script in DOCS.rglob("bugs/*/*/repro.py"):
        assert not re.search(r"^\s*(?:from|import) nnfuzz", script.read_text(), re.M), script


# Pages that are made from the code have what they are about.


def test_the_pages_of_what_the_code_knows_are_whole():
    for name in ("REWRITE_RULES.md", "SKELETONS.md", "RECALL.md"):
        assert PAGES[name]().startswith("# ")
    page = PAGES["INVALID_FAULTS.md"]()
    assert all(f"| {k.name} | {k.text} | {k.clause} |" in page for k in KINDS.values())
