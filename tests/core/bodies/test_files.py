"""`data:` URLs, Base64, and names of files."""

from __future__ import annotations

import pytest

from streamnorm import DecodeError
from streamnorm._core.bodies.files import (
    canonical_base64,
    file_at_url,
    file_name,
    file_of_content,
    split_data_url,
    title_of,
)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("data:image/png;base64,iVBO", ("image/png", "iVBO")),
        ("DATA:image/png;base64,iVBO", ("image/png", "iVBO")),
        ("data:image/png;name=a.png;base64,iVBO", ("image/png", "iVBO")),
        ("data:image/png; Base64,iVBO", ("image/png", "iVBO")),
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


@pytest.mark.parametrize("data", ["aGk=", "iVBORw0KGgo=", "++//"])
def test_base64_in_the_standard_form_is_the_same_text(data: str) -> None:
    assert canonical_base64(data) is data


@pytest.mark.parametrize(
    ("data", "standard"),
    [("--__", "++//"), ("aGk", "aGk="), ("aG\nk=\r\n", "aGk=")],
)
def test_base64_in_another_form_is_written_in_the_standard_one(data: str, standard: str) -> None:
    assert canonical_base64(data) == standard


@pytest.mark.parametrize("data", ["", " ", "a", "aGk=aGk=", "%89PNG", "é", "aGk…[5000 chars]"])
def test_anything_else_is_no_base64(data: str) -> None:
    assert canonical_base64(data) is None


@pytest.mark.parametrize("data", ["é", "aGkö", "a", "aGk", "\x80"])
def test_text_that_is_no_base64_is_refused(data: str) -> None:
    problem = "a text that is no Base64, expected Base64"
    with pytest.raises(DecodeError, match=problem):
        file_of_content(data, "text/plain")
    with pytest.raises(DecodeError, match=problem):
        file_at_url(f"data:text/csv;base64,{data}", "")
