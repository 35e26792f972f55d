"""`data:` URLs, and names of files."""

from __future__ import annotations

import pytest

from streamnorm._core.bodies.files import file_name, split_data_url, title_of


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("data:image/png;base64,iVBO", ("image/png", "iVBO")),
        ("DATA:image/png;base64,iVBO", ("image/png", "iVBO")),
        ("data:image/png;name=a.png;base64,iVBO", ("image/png", "iVBO")),
        ("data:;base64,iVBO", ("", "iVBO")),
        ("data:text/plain,hello", None),
        ("data:image/png;base64", None),
        ("https://a.example/data:image/png;base64,iVBO", None),
        ("", None),
    ],
)
def test_data_url_has_a_media_type_and_base64(url: str, parts: tuple[str, str] | None) -> None:
    assert split_data_url(url) == parts


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("application/pdf", "untitled.pdf"),
        ("text/plain", "untitled.txt"),
        ("text/csv", "untitled.bin"),
    ],
)
def test_file_without_a_title_has_a_name_that_is_no_title(media_type: str, name: str) -> None:
    assert file_name(None, media_type) == name
    assert title_of(name) is None


def test_title_is_the_name() -> None:
    assert file_name("a.pdf", "application/pdf") == "a.pdf"
    assert title_of("a.pdf") == "a.pdf"
    assert title_of(None) is None
