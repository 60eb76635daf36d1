"""The settings of a watch."""

import pytest

from nnfuzz.watch.settings import Channel, SystemSettings, WatchSettings


def test_a_release_goes_in_front_of_the_options():
    system = SystemSettings(backend="tvm,timeout=20", tests=1)
    assert system.at_release("0.27.0") == "tvm@0.27.0,timeout=20"
    assert system.at_release("") == "tvm,timeout=20" and system.system == "tvm"


@pytest.mark.parametrize(
    "given, message",
    [
        ({"channel": Channel.WHEELS}, "go together"),
        ({"wheels": "dist"}, "go together"),
        ({"build": "make"}, "build needs wheels"),
        ({"backend": "tvm@1.0"}, "names a release"),
        ({"tests": 0}, "needs an end"),
    ],
)
def test_what_makes_no_sense_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        SystemSettings(**{"backend": "tvm", "tests": 1, **given})


def test_a_watch_needs_a_system():
    with pytest.raises(ValueError, match=r"add a table \[watch.systems.NAME\]"):
        WatchSettings(systems={})
