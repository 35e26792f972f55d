"""Endless streams of Responses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat

from support.openai_responses import frames
from support.openai_responses.frames import (
    added,
    args,
    call,
    delta,
    done,
    event,
    part,
    part_added,
)

__all__ = ["START", "STREAMS"]

START = [frames.START]
_MESSAGE = added(0, "message", id="msg_1") + part_added(part(""))


def texts(text: str) -> Iterator[bytes]:
    yield _MESSAGE
    yield from repeat(frames.text(text, item_id="msg_1"))


def white_space(text: str) -> Iterator[bytes]:
    yield _MESSAGE
    yield from repeat(frames.text(" " * len(text)))


def refusals(text: str) -> Iterator[bytes]:
    yield added(0, "message", id="msg_1")
    yield from repeat(delta("refusal", text, item_id="msg_1", content_index=0))


def summaries(text: str) -> Iterator[bytes]:
    yield added(0, "reasoning", id="rs_1")
    yield from repeat(delta("reasoning_summary_text", text, item_id="rs_1", summary_index=0))


def summaries_in_turn(text: str) -> Iterator[bytes]:
    yield added(0, "reasoning", id="rs_1")
    for number in count():
        place = {"summary_index": number % 4}
        yield delta("reasoning_summary_text", text, item_id="rs_1", **place)


def summaries_in_turn_behind_a_block(text: str) -> Iterator[bytes]:
    yield _MESSAGE + frames.text("a") + added(1, "reasoning", id="rs_1")
    for number in count():
        place = {"summary_index": number % 2}
        yield delta("reasoning_summary_text", text, 1, item_id="rs_1", **place)


def many_summaries(text: str) -> Iterator[bytes]:
    yield added(0, "reasoning", id="rs_1")
    for number in count():
        yield delta("reasoning_summary_text", text, item_id="rs_1", summary_index=number)


def arguments(text: str) -> Iterator[bytes]:
    yield added(0, "function_call", **call()) + args('{"a":"')
    yield from repeat(args(text, item_id="fc_1"))


def custom_input(text: str) -> Iterator[bytes]:
    yield added(0, "custom_tool_call", id="ct_1", call_id="c", name="f", input="")
    yield from repeat(delta("custom_tool_call_input", text, item_id="ct_1"))


def arguments_behind_a_call(text: str) -> Iterator[bytes]:
    for number in range(2):
        yield added(number, "function_call", **call(id=f"fc_{number}", call_id=f"c{number}"))
        yield args('{"a":"', number)
    yield from repeat(args(text, 1, item_id="fc_1"))


def citations(text: str) -> Iterator[bytes]:
    yield _MESSAGE + frames.text("a")
    for number in count():
        source = {"type": "url_citation", "url": f"https://{number}", "title": text}
        place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
        cited = {**source, "start_index": 0, "end_index": 1}
        kind = "response.output_text.annotation.added"
        yield event(kind, **place, annotation_index=number, annotation=cited)


def logprobs(text: str) -> Iterator[bytes]:
    yield _MESSAGE
    tokens = [{"token": text, "logprob": -1.0, "top_logprobs": []}]
    yield from repeat(frames.text("a", logprobs=tokens))


def unknown_events(text: str) -> Iterator[bytes]:
    for number in count():
        yield event(f"vendor{number}", a=text)


def events_of_a_search(text: str) -> Iterator[bytes]:
    yield added(0, "web_search_call", id="ws_1", status="in_progress")
    place = {"output_index": 0, "item_id": "ws_1"}
    yield from repeat(event("response.web_search_call.searching", **place, a=text))


def events_of_an_interpreter(text: str) -> Iterator[bytes]:
    """Yield events of a code interpreter item that is held until complete."""
    yield added(0, "code_interpreter_call", id="ci_1", status="in_progress", code="")
    place = {"output_index": 0, "item_id": "ci_1"}
    yield from repeat(event("response.code_interpreter_call_code.delta", **place, delta=text))


def events_of_an_unknown_item(text: str) -> Iterator[bytes]:
    yield added(0, "odd", id="odd_1")
    yield from repeat(event("response.odd.delta", output_index=0, item_id="odd_1", delta=text))


def items(text: str) -> Iterator[bytes]:
    for number in count():
        message = {"id": f"msg_{number}", "role": "assistant"}
        yield added(number, "message", **message) + frames.text(text, number)
        yield done(number, "message", **message, content=[part(text)])


def open_items(text: str) -> Iterator[bytes]:
    for number in count():
        yield added(number, "message", id=f"msg_{number}", odd=text)


def unknown_items(text: str) -> Iterator[bytes]:
    for number in count():
        yield done(number, f"odd{text}{number}", id=f"odd_{number}")


def images(text: str) -> Iterator[bytes]:
    for number in count():
        yield done(number, "image_generation_call", id=f"ig_{number}", result=text)


def usage_fields(text: str) -> Iterator[bytes]:
    for number in count():
        response = {"id": "resp_1", "usage": {"output_tokens": 1, f"odd{number}": text}}
        yield event("response.in_progress", response=response)


STREAMS = (
    *(texts, white_space, refusals, summaries, summaries_in_turn, many_summaries, arguments),
    *(summaries_in_turn_behind_a_block, custom_input, arguments_behind_a_call, citations),
    *(logprobs, unknown_events, events_of_a_search, events_of_an_interpreter),
    *(events_of_an_unknown_item, items, open_items, unknown_items, images, usage_fields),
)
