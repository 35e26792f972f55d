"""A JSON array is rewritten as the equivalent event stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.draws import Draws, draws
from support.gemini.strategies import make_gemini_array
from support.streams.content import decode
from support.streams.generated import has_same_messages
from support.streams.mutations import cut_anywhere

from streamnorm import Completed
from streamnorm.dialects.gemini.body_format import ArrayReader
from streamnorm.sse import SSEDecoder
from streamnorm.validation import validate

texts = st.text('a,]}["{\\\n\u2028ä', max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def payloads(text: str, size: int) -> list[str]:
    reader, frames, data = ArrayReader(), SSEDecoder(), text.encode()
    found = []
    for at in range(0, len(data), size):
        found += frames.feed(reader.feed(data[at : at + size]))
    return [frame.data for frame in found]


@given(
    st.lists(values, max_size=4),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
    st.integers(1, 9),
    st.sampled_from(["", "\n", "\r\n"]),
)
def test_each_element_becomes_one_event(
    elements: list[Any], indent: int | None, ascii: bool, size: int, end: str
) -> None:
    text = json.dumps(elements, indent=indent, ensure_ascii=ascii).replace("\n", end or "\n")
    assert [json.loads(data) for data in payloads(text, size)] == elements


def test_element_keeps_its_text() -> None:
    element = '{\n  "a": "x\\n]",\n  "b": [1, 2]\n}'
    assert payloads(f"[{element},\n{element}\n]\n", 5) == [element, element]


def test_event_ends_with_the_byte_that_ends_the_element() -> None:
    reader = ArrayReader()
    assert reader.feed(b'[{"a":1') == b'data: {"a":1'
    assert reader.feed(b"}") == b"}\n\n"
    assert reader.feed(b"\r\n,") == b""
    assert reader.feed(b"2") == b"data: 2"
    assert reader.feed(b"]") == b"\n\n"
    assert reader.ended


@pytest.mark.parametrize("text", ["[", '[{"a":1}', '[{"a":1},', '[{"a":"]"', "[1"])
def test_array_without_its_bracket_has_not_ended(text: str) -> None:
    reader = ArrayReader()
    reader.feed(text.encode())
    assert not reader.ended


def test_bytes_after_the_array_are_ignored() -> None:
    reader = ArrayReader()
    assert reader.feed(b'[] {"a":1}') == b""
    assert reader.feed(b'[{"a":1}]') == b""
    assert reader.ended


@given(d=draws(300))
def test_array_decodes_to_the_events_that_were_encoded(d: Draws) -> None:
    source = make_gemini_array(d)
    decoded = decode(cut_anywhere(d, source.body), "gemini")
    assert validate(decoded.events) == []
    assert has_same_messages(source, decoded.events)
    reason = source.messages[0].stop_reason
    assert reason is not None
    assert decoded.outcome == Completed(reason, source.usage)
    assert decode([source.body], None) == decoded
