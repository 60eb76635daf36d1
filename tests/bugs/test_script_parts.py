"""Definitions of a script stay as they are; what exits becomes an assertion."""

import pytest

from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.script_parts import parts_of

WRITTEN = '''\
#!/usr/bin/env python3
"""A title."""

import sys

import numpy as np

EXPECTED = 1


def run():
    return np.asarray(2)


actual = None
try:
    actual = run()
except ValueError as error:
    print(error)
    sys.exit(1)
print("a line")
sys.exit(0 if actual == EXPECTED else 1)
'''


def parts(tmp_path, text):
    script = tmp_path / "repro.py"
    script.write_text(text)
    return parts_of(script)


def test_the_end_of_a_written_script_becomes_assertions(tmp_path):
    found = parts(tmp_path, WRITTEN)
    assert found.body == (
        "import numpy as np\n\nEXPECTED = 1\n\n\ndef run():\n    return np.asarray(2)"
    )
    assert found.steps == (
        *("actual = None", "try:", "    actual = run()"),
        *("except ValueError as error:", "    print(error)", "    raise"),
        "assert actual == EXPECTED",
    )


@pytest.mark.parametrize(
    ("end", "step"),
    [
        ("sys.exit(found != 1)", "assert not found != 1"),
        ("sys.exit(a or b)", "assert not (a or b)"),
        ("sys.exit(int(a))", "assert not int(a)"),
        ("sys.exit(1)", "assert not 1"),
        (
            'if __name__ == "__main__":\n'
            '    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "O0"))',
            "assert not main('O0')",
        ),
    ],
)
def test_an_exit_code_becomes_a_condition(tmp_path, end, step):
    assert parts(tmp_path, f"import sys\nimport os\n{end}\n").steps == (step,)


def test_a_module_that_the_definitions_need_stays(tmp_path):
    found = parts(tmp_path, "import sys\ndef main():\n    print(sys.path)\nsys.exit(main())\n")
    assert found.body.startswith("import sys\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import sys\nprint(1)\n", "does not end with"),
        ("", "does not end with"),
        ("open(HERE / 'model.onnx')\n", "reads other files"),
    ],
)
def test_what_no_test_can_be_made_of_is_refused(tmp_path, text, why):
    with pytest.raises(BugError, match=why):
        parts(tmp_path, text)
