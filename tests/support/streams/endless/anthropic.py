"""Endless streams of Anthropic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat

from support.anthropic.frames import block, delta, end, event, start, stop

__all__ = ["START", "STREAMS"]

START = [start()]


def texts(text: str) -> Iterator[bytes]:
    yield block(0, "text", text="")
    yield from repeat(delta(0, "text_delta", text=text))


def white_space(text: str) -> Iterator[bytes]:
    yield block(0, "text", text="")
    yield from repeat(delta(0, "text_delta", text=" " * len(text)))


def thoughts(text: str) -> Iterator[bytes]:
    yield block(0, "thinking", thinking="")
    yield from repeat(delta(0, "thinking_delta", thinking=text))


def arguments(text: str) -> Iterator[bytes]:
    yield block(0, "tool_use", id="c", name="f", input={})
    yield delta(0, "input_json_delta", partial_json='{"a":"')
    yield from repeat(delta(0, "input_json_delta", partial_json=text))


def server_arguments(text: str) -> Iterator[bytes]:
    yield block(0, "server_tool_use", id="c", name="web_search", input={})
    yield delta(0, "input_json_delta", partial_json='{"a":"')
    yield from repeat(delta(0, "input_json_delta", partial_json=text))


def arguments_behind_a_call(text: str) -> Iterator[bytes]:
    for index in range(2):
        yield block(index, "tool_use", id=f"c{index}", name="f", input={})
        yield delta(index, "input_json_delta", partial_json='{"a":"')
    yield from repeat(delta(1, "input_json_delta", partial_json=text))


def signatures(text: str) -> Iterator[bytes]:
    yield block(0, "thinking", thinking="")
    for number in count():
        yield delta(0, "signature_delta", signature=f"{text}{number}")


def citations(text: str) -> Iterator[bytes]:
    yield block(0, "text", text="")
    yield delta(0, "text_delta", text="a")
    for number in count():
        source = {"type": "web_search_result_location", "url": f"https://{number}", "title": text}
        cited = {**source, "cited_text": "a", "encrypted_index": "e"}
        yield delta(0, "citations_delta", citation=cited)


def citations_before_text(text: str) -> Iterator[bytes]:
    yield block(0, "text", text="")
    for number in count():
        source = {"type": "web_search_result_location", "url": f"https://{number}", "title": text}
        yield delta(0, "citations_delta", citation={**source, "cited_text": ""})


def unknown_events(text: str) -> Iterator[bytes]:
    for number in count():
        yield event(f"vendor{number}", a=text)


def unknown_deltas(text: str) -> Iterator[bytes]:
    yield block(0, "text", text="a")
    yield from repeat(delta(0, "odd_delta", a=text))


def events_behind_a_block(text: str) -> Iterator[bytes]:
    yield block(0, "text", text="a") + block(1, "text", text="a")
    yield from repeat(event("odd", index=1, a=text))


def parts_behind_a_block(text: str) -> Iterator[bytes]:
    """Yield text and citations of one block in turn."""
    yield block(0, "text", text="a") + block(1, "text", text="a")
    source = {"type": "char_location", "cited_text": "a", "document_index": 0}
    place = {"document_title": "a", "start_char_index": 0, "end_char_index": 1}
    for _ in count():
        yield delta(1, "text_delta", text=text)
        yield delta(1, "citations_delta", citation={**source, **place})


def stop_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield end("end_turn", **{f"odd{number}": text})


def stop_fields_that_change(text: str) -> Iterator[bytes]:
    for number in count():
        yield end("end_turn", **{f"odd{number % 3}": f"{text}{number}"})


def usage_fields(text: str) -> Iterator[bytes]:
    for number in count():
        yield end("end_turn", usage={"output_tokens": 1, f"odd{number}": text})


def redacted_blocks(text: str) -> Iterator[bytes]:
    for number in count():
        yield block(number, "redacted_thinking", data=text) + stop(number)


def results(text: str) -> Iterator[bytes]:
    for number in count():
        content = [{"type": "web_search_result", "url": "https://a", "title": text}]
        fields = {"tool_use_id": "c", "content": content}
        yield block(number, "web_search_tool_result", **fields) + stop(number)


def held_compactions(text: str) -> Iterator[bytes]:
    for number in count():
        yield block(number, "compaction", content=text)


def starts_with_text(text: str) -> Iterator[bytes]:
    for number in count():
        yield block(number, "text", text=text)


def pings(text: str) -> Iterator[bytes]:
    yield from repeat(event("ping", a=text))


STREAMS = (
    *(texts, white_space, thoughts, arguments, server_arguments, arguments_behind_a_call),
    *(signatures, citations, citations_before_text, unknown_events, unknown_deltas),
    *(events_behind_a_block, parts_behind_a_block, stop_fields, stop_fields_that_change),
    *(usage_fields, redacted_blocks, results, held_compactions, starts_with_text, pings),
)
