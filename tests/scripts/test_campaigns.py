"""Two campaigns are compared group by group, and a campaign that fails is no campaign."""

from __future__ import annotations

import subprocess

import pytest

from scripts.campaigns import differences, run_fuzz

ONE = {"tests": {0: ("a", "run"), 1: ("b", "run")}, "signatures": {"s": ("7:0",)}}


def test_equal_campaigns_have_no_differences():
    assert list(differences(ONE, ONE)) == []


def test_the_first_difference_of_each_group_is_reported():
    other = {"tests": {0: ("a", "run"), 1: ("c", "run"), 2: ("d", "run")}, "signatures": {}}
    tests, signatures = differences(ONE, other)
    assert tests == "2 tests differ, first 1: ('b', 'run') and ('c', 'run')"
    assert signatures == "1 signatures differ, first s: ('7:0',) and None"


def test_a_campaign_that_fails_raises():
    with pytest.raises(subprocess.CalledProcessError):
        run_fuzz("--backend", "nothing-of-this-name")
