"""Templates of chunks that differ in their text alone."""

from __future__ import annotations

import msgspec
import pytest

from streamnorm.dialects.openai_chat.template import Template, learn_template


def peek(payload: bytes) -> str | None:
    """Return the member `text` of an object."""
    value: dict[str, str] = msgspec.json.decode(payload)
    return value["text"]


def learned(payload: bytes, text: str) -> Template:
    """Return the template learned from a chunk."""
    template = learn_template(payload, text, peek)
    assert template is not None
    return template


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","n":1}', "a"),
        (b'{"text":"","n":1}', ""),
        (b'{"text":"\\u00e9\\"","n":1}', 'é"'),
        (b'{"text":"a","n":2}', None),
        (b'{"text": "a","n":1}', None),
        (b'{"text":"a","b":"c","n":1}', None),
        (b'{"text":"a\nb","n":1}', None),
        (b'{"text":"a\\","n":1}', None),
        (b'{"text":"\\ud83d","n":1}', None),
        (b'{"text":"\xff","n":1}', None),
        (b'{"text":"a","n":1}}', None),
        (b'{"text":"', None),
        (b"", None),
    ],
)
def test_template_returns_the_text_of_chunks_that_fit(payload: bytes, text: str | None) -> None:
    assert learned(b'{"text":"x y","n":1}', "x y")(payload) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","p":"xY9"}', "a"),
        (b'{"text":"","p":""}', ""),
        (b'{"text":"\\",\\"p\\":\\"","p":"x"}', '","p":"'),
        (b'{"text":"a","p":"x y"}', None),
        (b'{"text":"a","p":"\\u0078"}', None),
        (b'{"text":"a","p":"x"}}', None),
        (b'{"text":"a","q":"x"}', None),
        (b'{"text":"a","p":"x","p":"y"}', None),
        (b'{"text":"","p":"', None),
        (b'{"text":"x"}', None),
    ],
)
@pytest.mark.parametrize("padding", [b"", b"aB3"])
def test_template_ignores_padding(payload: bytes, text: str | None, padding: bytes) -> None:
    assert learned(b'{"text":"word","p":"%b"}' % padding, "word")(payload) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"text":"a","n":"a"}', "a"),  # two places
        (b'{"text":"\\u0061"}', "a"),  # none
        (b'{"text":"\\u0061","n":"a"}', "a"),  # the wrong one
        (b'{"n":"a"}x', "a"),  # none that can be read
        (b'{"text":"a","n":"%b"}' % (b"x" * 5000), "a"),
    ],
)
def test_no_template_is_learned_from_an_ambiguous_chunk(payload: bytes, text: str) -> None:
    assert learn_template(payload, text, peek) is None
