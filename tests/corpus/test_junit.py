"""Results as JUnit XML."""

from xml.etree import ElementTree

from nnfuzz.corpus.junit import junit_xml
from nnfuzz.corpus.verify import (
    LevelResult,
    Status,
)


def test_junit():
    results = [
        LevelResult("a", "toy", "O0", Status.PASSED, seconds=0.5),
        LevelResult("b<&>", "toy", "O0", Status.FAILED, 'wrong "x"\nmore', "\x1b[1m\x00]]>", 0.25),
        LevelResult("c", "toy", "O1", Status.SKIPPED, "unsupported"),
        LevelResult("d", "toy", "O1", Status.ERROR, "damaged"),
    ]
    root = ElementTree.fromstring(junit_xml(results, "my\x07suite"))
    (suite,) = root
    assert suite.attrib["tests"] == "4" and suite.attrib["time"] == "0.750000"
    assert [suite.attrib[k] for k in ("failures", "errors", "skipped")] == ["1", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [
        [],
        ["failure"],
        ["skipped"],
        ["error"],
    ]
    assert suite[1].attrib["name"] == "b<&>" and "\x1b" not in suite[1][0].text
