"""Chunks that the delta run refuses."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from support.draws import Draws, draws
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning
from support.streams.delta_runs import Reading, read_chunks, read_each_way

from streamnorm import Note, TextDelta
from streamnorm.dialects.openai_chat import wire

PLAIN = {
    "text": content("b"),
    "reasoning": reasoning("b"),
    "arguments": calls(call(0, arguments="1")),
}
"""A chunk of each kind that only extends a block."""

CALL = calls(call(0, "t0", "f", "[1,"))
OPENING = {**PLAIN, "arguments": CALL}

read = partial(read_chunks, "openai_chat")

each_kind = pytest.mark.parametrize("kind", PLAIN)


def assert_read_in_full(kind: str, odd: bytes) -> Reading:
    """Read a chunk amid plain ones, and check that the run refuses it."""
    plain = PLAIN[kind]
    assert odd != plain
    reading = read(OPENING[kind], plain, plain, plain, odd, plain, plain)
    assert reading.on_run[:5] == [0, 1, 1, 1, 0]
    return reading


def names_of(kind: type, *others: str) -> list[str]:
    """Return the fields of a wire struct, but for some."""
    return sorted({field.encode_name for field in msgspec.structs.fields(kind)} - {*others})


# What the run does not refuse it silently drops, so it must refuse all that is read.
@pytest.mark.parametrize(
    "path",
    [
        *(f"chunk.{name}" for name in names_of(wire.Chunk, "choices", "id", "model", "usage")),
        *(f"choice.{name}" for name in names_of(wire.Choice, "delta", "message")),
        *(f"delta.{name}" for name in names_of(wire.Delta)),
    ],
)
@each_kind
def test_chunk_with_another_field_is_read_in_full(kind: str, path: str) -> None:
    payload = json.loads(PLAIN[kind].removeprefix(b"data: "))
    where, _, field = path.partition(".")
    choice = payload["choices"][0]
    owner = {"chunk": payload, "choice": choice, "delta": choice["delta"]}[where]
    odd = {"a": 1} if not isinstance(owner.get(field), list) else [*owner[field], *owner[field]]
    owner[field] = odd if field != "index" else 1
    assert_read_in_full(kind, frame(payload))


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "x"},
        {"id": ""},
        {"custom": {"input": "x"}},
        {"extra_content": {"google": {"thought_signature": "s"}}},
        {"function": {"arguments": "1", "name": "f"}},
        {"function": {"arguments": None}},
        {"function": {"arguments": {"a": 1}}},
        {"function": {}},
        {"index": 7},
        {"index": "0"},
        {"index": None},
    ],
)
def test_fragment_with_another_field_is_read_in_full(fields: dict[str, Any]) -> None:
    fragment = {"index": 0, "function": {"arguments": "1"}, **fields}
    assert_read_in_full("arguments", calls(fragment))


TAIL = b'}, "finish_reason": null}]}'

REFUSED = {
    "two events without a blank line": lambda plain: plain[:-1] + plain,
    "a name": lambda plain: b"event: x\n" + plain,
    "a name of an error": lambda plain: b"event: error\n" + plain,
    "an id": lambda plain: plain[:-1] + b"id: 7\n\n",
    "a line of its own": lambda plain: plain[:-1] + b"odd\n\n",
    "a comment": lambda plain: b": hi\n" + plain,
    "no space behind the colon": lambda plain: plain.replace(b"data: ", b"data:"),
    "two data lines": lambda plain: plain.replace(b', "choices"', b',\ndata: "choices"'),
    "a line end before the delta": lambda plain: plain.replace(b'"delta": ', b'"delta":\n'),
    "a CR before the delta": lambda plain: plain.replace(b'"delta": ', b'"delta":\r'),
    "a control character": lambda plain: plain.replace(b'b"', b'b\x00"').replace(b'1"', b'1\x00"'),
    "bytes that are not UTF-8": lambda plain: plain.replace(b'b"', b'\xff"').replace(
        b'1"', b'\xff"'
    ),
    "half a character": lambda plain: plain.replace(b'b"', b'\\ud83d"').replace(b'1"', b'\\ud83d"'),
    "a delta that is no object": lambda plain: plain.replace(b'"delta": {', b'"delta": [{'),
    "a brace too many": lambda plain: plain.replace(b"}]}", b"}]}}"),
    "a brace too few": lambda plain: plain.replace(b"}]}", b"}]"),
    "a finish": lambda plain: plain.replace(b'"finish_reason": null', b'"finish_reason": "stop"'),
    "another choice": lambda plain: plain.replace(b'"index": 0, "delta"', b'"index": 1, "delta"'),
    "no choice": lambda plain: frame({"choices": []}),
    "tokens and a finish": lambda plain: plain.replace(
        b"null}]}", b'"stop"}], "usage": {"prompt_tokens": 9}}'
    ),
    "an error": lambda plain: plain.replace(b"}]}", b'}], "error": {"message": "no"}}'),
    "an array": lambda plain: plain.replace(b"data: ", b"data: [").replace(b"}]}", b"}]}]"),
    "an error on a line of its own": lambda plain: b'error: {"message": "no"}\n\n',
    "a comment alone": lambda plain: b": hi\n\n",
    "a blank line": lambda plain: b"\n\n",
    "the terminal": lambda plain: DONE,
}


@pytest.mark.parametrize("name", REFUSED)
@each_kind
def test_frame_that_is_no_plain_delta_is_read_in_full(kind: str, name: str) -> None:
    """The chunks around it are read as without the run."""
    odd = REFUSED[name](PLAIN[kind])
    if assert_read_in_full(kind, odd).decoder.outcome is None:
        read_each_way("openai_chat", OPENING[kind], *[PLAIN[kind]] * 3, odd, *[PLAIN[kind]] * 2)


@pytest.mark.parametrize("other", PLAIN)
@each_kind
def test_chunk_of_another_kind_ends_the_run(kind: str, other: str) -> None:
    if kind == other:
        return
    reading = assert_read_in_full(kind, OPENING[other])
    assert reading.decoder.outcome is None


@each_kind
def test_changed_ids_and_padding_stay_on_the_run(kind: str) -> None:
    """Ids of chunks may change between calls, and padding hides how long a text is."""
    plain, make = PLAIN[kind], json.loads(PLAIN[kind].removeprefix(b"data: "))
    others = [
        frame({**make, "id": "" if kind == "arguments" else "chatcmpl-2"}),
        frame({**make, "model": "other"}),
        *(frame({**make, "obfuscation": pad}) for pad in ("xY7", "", "x" * 40, "-", '"}')),
        *(frame({**make, "p": pad}) for pad in ("abc", "ab", 7, None)),
        frame({**make, "created": 7, "obfuscation": {"content": "x"}}),
        frame({**make, "unknown": '"content": "x"'}),
    ]
    chunks = [part for other in others for part in (plain, plain, other, other)]
    reading = read(OPENING[kind], *chunks)
    expected = [reading.events[1]] * len(chunks)
    assert reading.events[1:] == expected
    assert len(expected[0]) == 1


@each_kind
def test_duplicate_field_reads_as_without_the_run(kind: str) -> None:
    plain = PLAIN[kind]
    name = {"text": b"content", "reasoning": b"reasoning_content", "arguments": b"arguments"}[kind]
    twice = [
        plain.replace(b'"%b"' % name, b'"%b": "2", "%b"' % (name, name)),
        plain.replace(b'"choices"', b'"choices": [], "choices"'),
        plain.replace(b'"delta": {', b'"delta": {"content": null, "content": "",'),
    ]
    read(OPENING[kind], *[part for odd in twice for part in (plain, odd, odd, plain)])


USAGES: list[object] = [
    {"prompt_tokens": 9, "completion_tokens": 1},
    {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
    {"prompt_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}, "cost": 0.25},
    {"prompt_tokens": "9"},
    {"prompt_tokens": -1, "odd": [1]},
    {"odd": "\ud83d"},
    {},
    None,
    [],
    7,
]


@each_kind
@pytest.mark.parametrize("usage", USAGES, ids=str)
def test_usage_amid_deltas_reads_as_without_the_run(kind: str, usage: object) -> None:
    plain = PLAIN[kind]
    payload = json.loads(plain.removeprefix(b"data: "))
    counted = frame({**payload, "usage": usage})
    more = frame({**payload, "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    read(OPENING[kind], counted, plain, counted, counted, more, more, counted, plain, DONE)


# State that ends a run


@each_kind
def test_chunks_after_a_finish_reason_read_as_without_the_run(kind: str) -> None:
    plain, finish = PLAIN[kind], chunk({}, "stop")
    for odd in (finish, content("c", "stop"), calls(call(0, arguments="1"), finish="tool_calls")):
        read(OPENING[kind], plain, plain, odd, plain, plain)
        read(OPENING[kind], plain, plain, odd, plain, finish, plain)


def test_high_surrogate_is_held_until_the_next_chunk() -> None:
    high, low = (
        content("?").replace(b'"?"', b'"%b"' % half) for half in (rb"a\ud83d", rb"\ude00c")
    )
    reading = read(content("b"), content("b"), high, low, content("b"), high, content("b"))
    assert reading.events[2:] == [
        [TextDelta(0, "a")],
        [TextDelta(0, "😀c")],
        [TextDelta(0, "b")],
        [TextDelta(0, "a")],
        [TextDelta(0, "\ufffdb")],
    ]
    assert reading.on_run == [0, 1, 0, 0, 1, 0, 0]


def test_stream_with_two_choices_is_read_in_full() -> None:
    reading = read(*[content("a", choice=choice) for choice in (0, 0, 1, 0, 1, 0)])
    assert reading.on_run == [0, 1, 0, 0, 0, 0]


def test_text_with_think_tags_is_read_in_full() -> None:
    chunks = [content(text) for text in ("<think>", "a", "b", "</think>", "c", "d")]
    assert not sum(read(*chunks, think_tags=True).on_run)
    assert read(*chunks, reasoning("e"), reasoning("f"), think_tags=True)


def test_cumulative_arguments_are_read_in_full() -> None:
    growing = [calls(call(0, arguments=text)) for text in ('{"', '{"a', '{"a":')]
    begun = calls(call(0, "x", "f", "{"))
    assert not sum(read(begun, *growing, server="qianfan").on_run)
    notes = read(begun, *growing, server="qianfan").decoder.notes
    assert notes == (Note("cumulative_arguments", "tool call", 3),)


def test_text_behind_a_nameless_call_is_read_in_full() -> None:
    chunks = [content("a"), content("b"), calls(call(0, "t")), content("c"), content("d")]
    reading = read(*chunks, calls(call(0, name="f", arguments="[")), *[content("e")] * 3)
    assert reading.on_run[:5] == [0, 1, 0, 0, 0]


def test_custom_call_is_read_in_full() -> None:
    def custom(**fields: Any) -> bytes:
        return calls({"index": 0, "type": "custom", "custom": {"input": "x"}, **fields})

    reading = read(custom(id="t", custom={"name": "f", "input": "x"}), custom(), custom())
    assert not sum(reading.on_run)


def test_block_with_repeated_failures_leaves_the_run() -> None:
    """The run is not tried again until the next block starts, so that it costs nothing."""
    scored = [chunk({"content": "a"}, logprobs={}) for _ in range(3)]
    odd = frame({"choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": []}}]})
    many = read(content("a"), *[odd] * 20, *[content("b")] * 3, *[reasoning("c")] * 3)
    assert many.on_run[-3:] == [0, 1, 1]
    few = read(content("a"), *[odd] * 3, *[content("b")] * 3, *scored)
    assert few.on_run[4:7] == [1, 1, 1]


@given(draws(300))
def test_any_chunks_read_the_same_without_the_run(d: Draws) -> None:
    kind = d.pick(list(PLAIN))
    texts = ("", "1", "{", "}", "[", "]", '"', ",", " ", '{"a":1}', "{}", "é", "null")
    chunks = [OPENING[kind]]
    for _ in range(40):
        choice = 1 if d.flag(40) else 0
        match d.below(12):
            case 0:
                chunks.append(content(d.pick(texts), choice=choice))
            case 1:
                chunks.append(reasoning(d.pick(texts), choice=choice))
            case 2:
                number = d.below(3)
                chunks.append(calls(call(number, f"t{number}", "f", d.pick(texts)), choice=choice))
            case 3:
                chunks.append(content(d.pick(("", "x")), finish=d.pick((None, "stop"))))
            case 4:
                chunks.append(chunk({}, usage={"prompt_tokens": d.below(3)}))
            case 5 if d.flag(3):
                chunks.append(REFUSED[d.pick(list(REFUSED))](d.pick(list(PLAIN.values()))))
            case _:
                chunks.append(calls(call(d.below(3), arguments=d.pick(texts)), choice=choice))
    read(*chunks)
