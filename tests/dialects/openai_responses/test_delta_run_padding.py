"""Delta runs of deltas as OpenAI sends them: numbered and padded."""

from __future__ import annotations

import json

import pytest
from support.openai_responses.frames import START
from support.openai_responses.item_deltas import (
    MAKE,
    OPENING,
    TEXT,
    each_delta_type,
    item_delta,
    read,
)

from streamnorm.codec import decoder

TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "x" * 300, '","delta":"y', '"}\n\n', "", "z"]


def padded(delta_type: str, text: str, number: int, padding: str = "aB3") -> bytes:
    """Return a delta with its fields sorted, as the API does, the sequence number last."""
    name, _, data = item_delta(delta_type, text, number, obfuscation=padding).partition(b"\ndata: ")
    payload = json.dumps(
        json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    payload = payload.replace(f',"type":"{delta_type}"', "")
    payload = payload[0] + f'"type":"{delta_type}",' + payload[1:]
    return name + f"\ndata: {payload}\n\n".encode()


@each_delta_type
def test_numbered_and_padded_deltas_are_on_the_run(delta_type: str) -> None:
    deltas = [padded(delta_type, text, n, "x" * (n % 3)) for n, text in enumerate(TEXTS)]
    reading = read(START, OPENING[delta_type], *deltas)
    make = MAKE[delta_type]
    assert reading.events[2:] == [[make(0, text)] if text else [] for text in TEXTS]
    assert reading.on_run[2:] == [0] + [1] * (len(TEXTS) - 1)


def test_long_text_is_counted_at_once_and_many_short_ones_together() -> None:
    texts = ["x" * 300, *"abcdefghij" * 7]
    reading = read(START, OPENING[TEXT], *(padded(TEXT, t, n) for n, t in enumerate(texts)))
    whole = "".join(texts)
    done = {"type": "response.output_text.done", "item_id": "m", "output_index": 0}
    data = json.dumps({**done, "content_index": 0, "text": whole + "!"})
    # What a text has more than came is known only if all that came was counted.
    (rest,) = reading.decoder.feed(f"event: {done['type']}\ndata: {data}\n\n".encode())
    assert rest == MAKE[TEXT](0, "!")


@pytest.mark.parametrize(
    ("name", "original", "instead"),
    [
        ("number that leaves one out", b":3}", b":4}"),
        ("number that came before", b":3}", b":2}"),
        ("no number", b',"sequence_number":3}', b"}"),
        ("number as text", b":3}", b':"3"}'),
        ("padding that is no word", b'"aB3"', b'"a,3"'),
        ("padding with an escape", b'"aB3"', b'"a\\u0042"'),
        ("half a pair of surrogates", b'"~"', b'"\\ud83d"'),
        ("another item", b'"m"', b'"n"'),
        ("junk behind the text", b'"~"', b'"~"x'),
        ("line end before the text", b'"~"', b'\n"~"'),
        ("log probabilities", b"[]", b'[{"token":"a"}]'),
        ("another brace", b":3}\n", b":3}}\n"),
    ],
)
def test_delta_unlike_the_previous_ones_reads_as_in_full(
    name: str, original: bytes, instead: bytes
) -> None:
    deltas = [padded(TEXT, text, number) for number, text in enumerate("abc")]
    odd = padded(TEXT, "~", 3).replace(original, instead)
    assert odd != padded(TEXT, "~", 3)
    read(START, OPENING[TEXT], *deltas, odd, padded(TEXT, "d", 4), padded(TEXT, "e", 5))


def test_read_that_is_one_known_frame_counts_as_one() -> None:
    reader = decoder("openai_responses")
    for data in (START, OPENING[TEXT], *(padded(TEXT, text, n) for n, text in enumerate("abc"))):
        reader.feed(data)
    before = reader.frames
    assert reader.feed(padded(TEXT, "d", 3)) == [MAKE[TEXT](0, "d")]
    assert reader.frames == before + 1


def test_duplicate_sequence_number_key_is_decoded() -> None:
    def twice(text: str, number: int) -> bytes:
        member = b',"sequence_numb\\u0065r":%d}\n' % number
        return padded(TEXT, text, number).replace(b"}\n", member)

    deltas = [twice(text, number) for number, text in enumerate("abcd")]
    reading = read(START, OPENING[TEXT], *deltas)
    assert reading.on_run[2:] == [0, 1, 1, 1]
