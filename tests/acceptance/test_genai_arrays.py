"""Google's client reads what becomes of a JSON array, which it never asks for itself."""

from __future__ import annotations

import pytest
from acceptance.genai_readings import client
from google.genai import errors, types
from support.gemini.arrays import CHUNKS, TOLD, array, events_of

from streamnorm import Transcoder


def transcoded(body: bytes) -> bytes:
    transcoder = Transcoder(None, "gemini")
    return b"".join(transcoder.feed(body) + transcoder.close())


def words(chunks: list[types.GenerateContentResponse]) -> list[str]:
    return [chunk.model_dump_json(exclude={"sdk_http_response"}) for chunk in chunks]


def test_client_reads_an_array_as_the_event_stream_that_it_is() -> None:
    body = transcoded(array(*CHUNKS))
    expected = words(client().chunks(events_of(*CHUNKS)))
    assert len(expected) == len(CHUNKS)
    assert words(client().chunks(body)) == expected
    assert words(client().async_chunks(body)) == expected


@pytest.mark.parametrize("end", ["", ',{"candidates":'])
def test_client_raises_where_an_array_breaks_off(end: str) -> None:
    with pytest.raises((errors.APIError, errors.UnknownApiResponseError)):
        client().chunks(transcoded(array(*CHUNKS[:2], end=end)))


def test_client_raises_where_an_array_holds_an_error() -> None:
    for count in (0, 2):
        with pytest.raises(errors.APIError, match="Overloaded"):
            client().chunks(transcoded(array(*CHUNKS[:count], TOLD)))
