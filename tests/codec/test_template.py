"""Frames that are known but for their text."""

from __future__ import annotations

import msgspec
import pytest

from streamnorm.codec import (
    DeltaRun,
    Surroundings,
    Template,
    constant_template,
    padded_template,
    string_pattern,
    surroundings,
)
from streamnorm.events import TextDelta

TEXT = string_pattern("text", "words")


def accept(frame: bytes) -> bool:
    return True


def test_surroundings_are_what_stands_around_the_only_text() -> None:
    found = Surroundings(b'{"text": "', b'"}')
    assert surroundings(b'{"text": "a\\"b"}', TEXT, accept) == found
    assert surroundings(b'{"text": "a", "words": "b"}', TEXT, accept) is None
    assert surroundings(b'{"text": 1}', TEXT, accept) is None
    assert surroundings(b'{"text": "%b"}' % (b"x" * 5000), TEXT, accept) is None


def test_surroundings_are_those_of_the_text_that_is_read() -> None:
    frames: list[bytes] = []
    assert surroundings(b'{"text":"a"}', TEXT, lambda frame: bool(frames.append(frame))) is None
    assert frames == [b'{"text":"?"}']


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"text":"a"}', "a"),
        (b'{"text":""}', ""),
        (b'{"text":"\\u00e9\\""}', 'é"'),
        (b'{"text":"a","b":"c"}', None),
        (b'{"text":"a\nb"}', None),
        (b'{"text": "a"}', None),
        (b'{"text":"a\\"}', None),
        (b'{"text":"\\ud83d"}', None),
        (b'{"text":"\xff"}', None),
        (b'{"text":"}', None),
        (b'{"text":"a"}}', None),
        (b"", None),
    ],
)
def test_constant_template_knows_frames_but_for_their_text(raw: bytes, text: str | None) -> None:
    assert constant_template(b'{"text":"', b'"}')(raw) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"text":"a","pad":"xY9"}', "a"),
        (b'{"text":"","pad":""}', ""),
        (b'{"text":"\\",\\"pad\\":\\"","pad":"x"}', '","pad":"'),
        (b'{"text":"a","pad":"x y"}', None),
        (b'{"text":"a","pad":"\\u0078"}', None),
        (b'{"text":"a","pad":"x"}}', None),
        (b'{"text":"a","other":"x"}', None),
        (b'{"text":"a","pad":"x","pad":"y"}', None),
        (b'{"text":"","pad":"', None),
        (b'{"text":"x"}', None),
    ],
)
def test_padded_template_knows_frames_but_for_text_and_padding(
    raw: bytes, text: str | None
) -> None:
    assert padded_template(b'{"text":"', b'","pad":"', b'"}')(raw) == text


class Run(DeltaRun):
    """Accepts any string, and cannot learn what frames with another text are."""

    delta = TextDelta(0, "")

    def decode(self, raw: bytes) -> str | None:
        text: str = msgspec.json.decode(raw)
        return text

    def learn(self, raw: bytes) -> Template | None:
        raise msgspec.DecodeError


def test_run_goes_on_where_no_template_can_be_learnt() -> None:
    run = Run()
    assert [run.text_of(b'"a"'), run.text_of(b'"b"')] == ["a", "b"]
    assert run.template is None
