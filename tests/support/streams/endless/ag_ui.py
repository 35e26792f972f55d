"""Endless runs of AG-UI."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

from support.streams.delta_pieces import frame

__all__ = ["START", "STREAMS"]

_RUN = {"threadId": "t", "runId": "r"}


def _event(type: str, **fields: Any) -> bytes:
    return frame({"type": type, **fields})


START = [_event("RUN_STARTED", **_RUN)]


def texts(piece: str) -> Iterator[bytes]:
    yield _event("TEXT_MESSAGE_START", messageId="m")
    yield from repeat(_event("TEXT_MESSAGE_CONTENT", messageId="m", delta=piece))


def white_space(piece: str) -> Iterator[bytes]:
    yield from texts(" " * len(piece))


def blocks(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event("TEXT_MESSAGE_START", messageId=f"{number}")
        yield _event("TEXT_MESSAGE_CONTENT", messageId=f"{number}", delta=piece)
        yield _event("TEXT_MESSAGE_END", messageId=f"{number}")


def open_messages(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event("TEXT_MESSAGE_START", messageId=f"{number}", name=piece)


def messages_of_users(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event("TEXT_MESSAGE_START", messageId=f"{number}{piece}", role="user")


def thoughts(piece: str) -> Iterator[bytes]:
    yield _event("REASONING_MESSAGE_START", messageId="h", role="reasoning")
    yield from repeat(_event("REASONING_MESSAGE_CONTENT", messageId="h", delta=piece))


def parts_of_a_thought(piece: str) -> Iterator[bytes]:
    yield _event("REASONING_START", messageId="s")
    for number in count():
        id = f"h{number}"
        yield _event("REASONING_MESSAGE_START", messageId=id, role="reasoning")
        yield _event("REASONING_MESSAGE_CONTENT", messageId=id, delta=piece)
        yield _event("REASONING_MESSAGE_END", messageId=id)


def values(piece: str) -> Iterator[bytes]:
    for number in count():
        entity = {"subtype": "message", "entityId": f"{number}"}
        yield _event("REASONING_ENCRYPTED_VALUE", **entity, encryptedValue=f"{piece}{number}")


def arguments(piece: str) -> Iterator[bytes]:
    yield _event("TOOL_CALL_START", toolCallId="c", toolCallName="f")
    yield _event("TOOL_CALL_ARGS", toolCallId="c", delta='{"a":"')
    yield from repeat(_event("TOOL_CALL_ARGS", toolCallId="c", delta=piece))


def calls(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event("TOOL_CALL_START", toolCallId=f"c{number}", toolCallName="f", x=piece)
        yield _event("TOOL_CALL_END", toolCallId=f"c{number}")


def results(piece: str) -> Iterator[bytes]:
    for number in count():
        ids = {"messageId": f"m{number}", "toolCallId": f"c{number}"}
        yield _event("TOOL_CALL_RESULT", **ids, content=piece)


def citations(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event("TEXT_MESSAGE_START", messageId=f"{number}")
        cited = [{"url": f"https://{number}", "title": piece}]
        yield _event("TEXT_MESSAGE_END", messageId=f"{number}", metadata={"citations": cited})


def chunks(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event("TEXT_MESSAGE_CHUNK", messageId=f"{number}", delta=piece)


def states(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event("STATE_SNAPSHOT", snapshot={f"{number}": piece})


def unknown_events(piece: str) -> Iterator[bytes]:
    for number in count():
        yield _event(f"NEW_{number}", x=piece)


def after_the_end(piece: str) -> Iterator[bytes]:
    yield _event("RUN_FINISHED", **_RUN)
    yield from texts(piece)


STREAMS = (
    *(texts, white_space, blocks, open_messages, messages_of_users, thoughts, parts_of_a_thought),
    *(values, arguments, calls, results, citations, chunks, states, unknown_events),
    after_the_end,
)
