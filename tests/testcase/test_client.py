"""The client of a producer."""

from dataclasses import replace

import pytest

from nnfuzz.base.writing import as_json
from nnfuzz.corpus.producers import Producers
from nnfuzz.testcase.client import ProducerSettingsError
from tests.corpus.test_generate import CONFIG, TESTS


def test_settings_that_give_nothing_are_refused():
    config = as_json(replace(CONFIG, operators=("Ad",)))
    with Producers(0, config, 2) as producers, pytest.raises(ProducerSettingsError, match="Add"):
        next(producers.entries(TESTS))
