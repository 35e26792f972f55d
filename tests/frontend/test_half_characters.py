"""Half characters of a run, such as those in names of files: the page gets an end all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from streamnorm import (
    EncodeError,
    Image,
    Loss,
    Message,
    Outcome,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Truncated,
    message_events,
    run_tools,
)
from streamnorm.frontend import Run, stream_run

NAME = "caf\udce9.txt"
CALL = Message("a", "m", (ToolCall("c1", "ls", "{}"),), "tool_use")
END = Message("b", "m", (Text("end"),), "end_turn")
each_page = pytest.mark.parametrize("page", ["ui_message_stream", "ag_ui"])


@each_page
@pytest.mark.anyio
@pytest.mark.parametrize(
    "listed",
    [NAME, Text(NAME), [Text("files: "), Text(NAME)], ToolResult("x", (Text(NAME),), value=NAME)],
    ids=["text", "block", "blocks", "result"],
)
async def test_result_of_a_tool_has_whole_characters(page: str, listed: Any) -> None:
    async def agent() -> AsyncIterator[Any]:
        for event in message_events(CALL):
            yield event
        (result,) = await run_tools(CALL, {"ls": lambda: listed})
        yield result
        for event in message_events(END):
            yield event

    out = b"".join([data async for data in stream_run(agent(), to=page)])
    assert "caf\ufffd.txt" in out.decode()
    assert b"end" in out


@each_page
def test_result_that_a_run_is_given_has_whole_characters(page: str) -> None:
    run = Run(page)
    for event in message_events(CALL):
        run.write(event)
    assert "caf\ufffd.txt" in run.write(ToolResult("c1", (Text(NAME),))).decode()


@each_page
@pytest.mark.anyio
async def test_half_character_of_an_answer_ends_the_run_with_an_error(page: str) -> None:
    async def agent() -> AsyncIterator[Any]:
        *begun, _, _ = message_events(END)
        for event in begun:
            yield event
        yield TextDelta(0, NAME)

    ends: list[Outcome] = []
    written: list[bytes] = []

    async def shown() -> None:
        async for data in stream_run(agent(), to=page, on_end=ends.append):
            written.append(data)  # noqa: PERF401 - what comes before the error counts

    with pytest.raises(EncodeError, match="half a surrogate pair"):
        await shown()
    assert b"the agent failed" in b"".join(written)
    assert isinstance(ends[0], Truncated)


@each_page
def test_files_of_a_result_are_counted_as_lost(page: str) -> None:
    run = Run(page)
    for event in message_events(CALL):
        run.write(event)
    run.write(ToolResult("c1", (Text("see"), Image("image/png", data="iVBORw0KGgo="))))
    assert run.losses == (Loss("media", "ToolResult", 1, "dropped"),)
