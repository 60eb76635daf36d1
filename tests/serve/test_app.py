"""Pages tell what they should, to whom they should, and nothing of a campaign becomes HTML."""

import re

import pytest

pytest.importorskip("starlette")


from tests.serve.conftest import EVIL


def test_the_page_shows_the_campaign(client):
    text = client.get("/").text
    assert "planted: crash of Relu" in text and "unique findings" in text
    assert text.count('class="finding"') == 3
    assert EVIL not in text and text.count("<script") == 1 and "<img" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)\w", text.partition("<script>")[0])
    assert all(client.get(path).status_code == 200 for path in ("/figures", "/operators"))
