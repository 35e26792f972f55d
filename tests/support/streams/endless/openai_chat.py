"""Endless streams of Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat

from support.openai_chat.chunks import call, calls, chunk, content, frame, reasoning

__all__ = ["START", "STREAMS"]

START = [content("a")]


def texts(text: str) -> Iterator[bytes]:
    yield from repeat(content(text))


def white_space(text: str) -> Iterator[bytes]:
    yield reasoning("a")
    yield from repeat(content(" " * len(text)))


def blank_refusal(text: str) -> Iterator[bytes]:
    yield from repeat(chunk({"refusal": " " * len(text)}))


def thoughts(text: str) -> Iterator[bytes]:
    yield from repeat(reasoning(text))


def refusals(text: str) -> Iterator[bytes]:
    yield from repeat(chunk({"refusal": text}))


def arguments(text: str) -> Iterator[bytes]:
    yield calls(call(0, "x", "f", '{"a":"'))
    yield from repeat(calls(call(0, arguments=text)))


def custom_input(text: str) -> Iterator[bytes]:
    start = {"index": 0, "id": "x", "type": "custom", "custom": {"name": "f", "input": "a"}}
    yield calls(start)
    yield from repeat(calls({"index": 0, "custom": {"input": text}}))


def arguments_behind_a_call(text: str) -> Iterator[bytes]:
    yield calls(call(0, "x", "f", '{"a":"')) + calls(call(1, "y", "g", '{"a":"'))
    yield from repeat(calls(call(1, arguments=text)))


def many_arguments(text: str) -> Iterator[bytes]:
    """Yield calls with long arguments, one after another."""
    for number in count():
        yield calls(call(number, f"x{number}", "f", '{"a":"'))
        for _ in range(20):
            yield calls(call(number, arguments=text))
        yield calls(call(number, arguments='"}'))


def drifting_arguments(text: str) -> Iterator[bytes]:
    yield calls(call(0, "x", "f", '{"a":"'))
    for number in count(1):
        yield calls(call(number, arguments="b"))


def text_behind_a_nameless_call(text: str) -> Iterator[bytes]:
    yield calls(call(0, "x"))
    yield from repeat(content(text))


def turns_behind_a_nameless_call(text: str) -> Iterator[bytes]:
    yield calls(call(0, "x"))
    for _ in count():
        yield content(text) + reasoning(text)


def signatures_behind_a_nameless_call(text: str) -> Iterator[bytes]:
    yield calls(call(0, "x"))
    for number in count():
        signed = {"type": "reasoning.text", "signature": f"{text}{number}"}
        yield chunk({"reasoning_details": [signed]})


def signatures(text: str) -> Iterator[bytes]:
    for number in count():
        signed = {"type": "reasoning.text", "text": "a", "signature": f"{text}{number}"}
        yield chunk({"reasoning_details": [signed]})


def signatures_of_calls(text: str) -> Iterator[bytes]:
    """Yield signatures of calls that never begin."""
    for number in count():
        sealed = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "data": text}
        yield chunk({"reasoning_details": [{**sealed, "id": f"c{number}"}]})


def citations(text: str) -> Iterator[bytes]:
    for number in count():
        source = {"url": f"https://{number}", "title": text}
        yield chunk({"annotations": [{"type": "url_citation", "url_citation": source}]})


def citations_before_text(text: str) -> Iterator[bytes]:
    yield chunk({"role": "assistant"}, choice=1)
    for number in count():
        source = {"url": f"https://{number}", "title": text}
        cited = {"annotations": [{"type": "url_citation", "url_citation": source}]}
        yield chunk(cited, choice=1)


def unknown_annotations(text: str) -> Iterator[bytes]:
    yield from repeat(chunk({"annotations": [text]}))


def logprobs(text: str) -> Iterator[bytes]:
    tokens = {"content": [{"token": text, "logprob": -1.0, "bytes": None, "top_logprobs": []}]}
    yield from repeat(frame({"choices": [{"index": 0, "delta": {}, "logprobs": tokens}]}))


def unknown_frames(text: str) -> Iterator[bytes]:
    yield from repeat(frame({"object": "odd", "a": text}))


def chunk_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield chunk({}, "stop", **{f"odd{number}": text})


def chunk_fields_that_change(text: str) -> Iterator[bytes]:
    for number in count():
        yield chunk({}, "stop", **{f"odd{number % 3}": [f"{text}{number}"]})


def side_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield chunk({}, citations=[f"{text}{number}"])


def usage_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield content("a", usage={"completion_tokens": 1, f"odd{number}": text})


def turns(text: str) -> Iterator[bytes]:
    for _ in count():
        yield content(text) + reasoning(text)


def choices(text: str) -> Iterator[bytes]:
    for number in count():
        yield chunk({"content": text}, choice=number)


def thought_tags(text: str) -> Iterator[bytes]:
    yield from repeat(content("<think>" + text))


STREAMS = (
    *(texts, white_space, blank_refusal, thoughts, refusals, arguments, custom_input),
    *(arguments_behind_a_call, many_arguments, drifting_arguments, text_behind_a_nameless_call),
    *(turns_behind_a_nameless_call, signatures_behind_a_nameless_call, signatures),
    *(signatures_of_calls, citations, citations_before_text, unknown_annotations, logprobs),
    *(unknown_frames, chunk_fields, chunk_fields_that_change, side_fields, usage_fields, turns),
    *(choices, thought_tags),
)
