"""Anthropic bytes to Chat's: live, joined, the usage and `[DONE]` with the terminal."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.frames import STOP, block, delta, end, event, start, stop, text, thinking
from support.openai_chat.reader import Read, chunks, read
from support.streams.content import transcode_in_any_chunks

from streamnorm import (
    Completed,
    Failed,
    Limits,
    Loss,
    LossyEncoding,
    Reasoning,
    Text,
    ToolCall,
    Transcoder,
    Truncated,
    Usage,
)

USAGE = {"input_tokens": 9, "output_tokens": 1}
END = end("end_turn", usage={"output_tokens": 4})


def transcoder(**options: Any) -> Transcoder:
    return Transcoder("anthropic", "openai_chat", **options)


def transcode(*pieces: bytes, **options: Any) -> tuple[Read, Transcoder]:
    out, run = transcode_in_any_chunks(pieces, "anthropic", "openai_chat", **options)
    return read(out), run


def deltas_in(data: list[bytes]) -> list[Any]:
    """Return the delta of each chunk that one `feed` returned, or else its usage."""
    assert len(data) <= 1
    found: list[Any] = []
    for chunk in (chunk for piece in data for chunk in chunks(piece)):
        choices = (chunk or {}).get("choices")
        found.append(choices[0]["delta"] if choices else chunk and chunk["usage"])
    return found


def argument(index: int, text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def test_each_event_is_written_in_the_same_feed() -> None:
    run = transcoder()
    assert deltas_in(run.feed(start(usage=USAGE))) == [{"role": "assistant", "content": None}]
    assert run.feed(event("ping")) == [b": ping\n\n"]
    assert run.feed(block(0, "thinking", thinking="", signature="")) == []
    for piece in ("a", "b", "c"):
        wire = delta(0, "thinking_delta", thinking=piece)
        assert deltas_in(run.feed(wire)) == [{"reasoning_content": piece}]
    assert run.feed(stop(0)) == []
    assert run.feed(block(1, "text", text="")) == []
    for piece in ("d", "e", "f"):
        assert deltas_in(run.feed(delta(1, "text_delta", text=piece))) == [{"content": piece}]
    run.feed(stop(1))
    (named,) = deltas_in(run.feed(block(2, "tool_use", id="toolu_1", name="f", input={})))
    assert named["tool_calls"][0]["function"] == {"name": "f", "arguments": ""}
    for piece in ('{"a"', ":", "1}"):
        wire = delta(2, "input_json_delta", partial_json=piece)
        assert deltas_in(run.feed(wire)) == [argument(0, piece)]
    assert run.feed(stop(2)) == run.feed(END) == []
    counts = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    assert deltas_in(run.feed(STOP)) == [{}, counts, None]
    assert run.close() == []


def test_output_of_one_feed_is_one_chunk() -> None:
    run = transcoder()
    (piece,) = run.feed(b"".join([start(), thinking(0, "t"), text(1, "hi"), END, STOP]))
    got = read(piece)
    assert got.answers[0].texts == {"reasoning_content": "t", "content": "hi"}
    assert run.message.blocks == (Reasoning(("t",)), Text("hi"))
    assert run.outcome == Completed("end_turn", Usage(None, 4))


def test_missing_terminal_is_written_at_the_end() -> None:
    run = transcoder()
    out = [data for piece in (start(), text(0, "a"), END) for data in run.feed(piece)]
    assert b"[DONE]" not in b"".join(out)
    assert deltas_in(run.close())[0] == {}
    assert deltas_in(run.close()) == []


def test_overlapping_calls_are_written_as_they_arrive() -> None:
    run = transcoder()
    run.feed(start())
    for index in (0, 1):
        run.feed(block(index, "tool_use", id=f"toolu_{index}", name="f", input={}))
    for index, piece in [(0, "["), (1, "["), (0, "1"), (1, "2"), (1, "]"), (0, "]")]:
        wire = delta(index, "input_json_delta", partial_json=piece)
        assert deltas_in(run.feed(wire)) == [argument(index, piece)]
    out = b"".join(run.feed(stop(0) + stop(1) + end("tool_use") + STOP))
    assert out.endswith(b"data: [DONE]\n\n")
    assert run.message.tool_calls == (
        *(ToolCall("toolu_0", "f", "[1]"), ToolCall("toolu_1", "f", "[2]")),
    )


def test_text_after_an_open_text_is_held() -> None:
    """As llama.cpp leaves its blocks open."""
    got, run = transcode(
        *(start(), block(0, "thinking", thinking=""), block(1, "text", text="")),
        *(delta(1, "text_delta", text="b"), delta(0, "thinking_delta", thinking="a")),
        *(delta(1, "text_delta", text="c"), stop(0), stop(1), end(usage=USAGE), STOP),
    )
    assert got.answers[0].texts == {"reasoning_content": "a", "content": "bc"}
    assert run.losses == ()


def test_adjacent_texts_are_merged_with_a_loss() -> None:
    got, run = transcode(start(usage=USAGE), text(0, "a"), text(1, "b"), END, STOP)
    assert got.answers[0].texts == {"content": "ab"}
    assert run.losses == (Loss("boundaries", "Text", 1, "written as one block"),)
    with pytest.raises(LossyEncoding, match="boundaries in Text would be lost"):
        transcode(start(), text(0, "a"), text(1, "b"), END, STOP, strict=True)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_details", None])
def test_reasoning_option_decides_the_field(field: Any) -> None:
    signed = delta(0, "signature_delta", signature="c2ln")
    frames = [start(usage=USAGE), block(0, "thinking", thinking="why"), signed, stop(0), END, STOP]
    got, run = transcode(*frames, reasoning=field)
    answer = got.answers[0]
    assert answer.texts == ({field: "why"} if field in ("reasoning_content", "reasoning") else {})
    assert [detail.get("text") for detail in answer.details.values()] == (
        ["why"] if field == "reasoning_details" else []
    )
    assert [loss.feature for loss in run.losses] == {
        "reasoning_details": [],
        None: ["reasoning"],
    }.get(field, ["signature"])


def test_include_usage_false_omits_usage() -> None:
    frames = [start(usage=USAGE), text(0, "a"), END, STOP]
    assert transcode(*frames)[0].usage == {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "total_tokens": 13,
    }
    got, run = transcode(*frames, include_usage=False)
    assert got.usage is None
    assert run.usage == Usage(9, 4)


def test_server_tool_call_is_no_client_call() -> None:
    served = [block(0, "server_tool_use", id="s", name="web_search", input={}), stop(0)]
    result = [block(1, "web_search_tool_result", tool_use_id="s", content=[]), stop(1)]
    got, run = transcode(start(usage=USAGE), *served, *result, text(2, "a"), END, STOP)
    assert got.answers[0].calls == []
    assert got.answers[0].finish == "stop"
    assert [loss.where for loss in run.losses] == ["ServerToolCall", "ServerToolResult"]


def test_cut_is_written_as_an_error_without_a_terminal() -> None:
    for stream in (
        *((start(),), (start(), text(0, "a")), (start(), text(0, "a"), END[:-9]), (b"",)),
        (start(), block(0, "text", text="a"), END),
    ):
        got, run = transcode(*stream)
        assert got.error is not None
        assert got.error["code"] == "truncated"
        assert isinstance(run.outcome, Truncated)


def test_error_of_the_provider_is_written_in_the_other_dialect() -> None:
    told = {"type": "overloaded_error", "message": "Overloaded"}
    got, run = transcode(start(), text(0, "a"), event("error", error=told))
    assert got.error == {
        "message": "Overloaded",
        "type": "server_error",
        "param": None,
        "code": "overloaded",
    }
    assert isinstance(run.outcome, Failed)
    assert got.answers[0].finish is None


def test_exceeded_limit_ends_the_stream_without_its_terminal() -> None:
    body = [start(), text(0, "x" * 60), END, STOP]
    got, run = transcode(*body, limits=Limits(max_accumulated_bytes=50))
    assert got.error is not None
    assert got.error["code"] == "too_large"
    assert isinstance(run.outcome, Failed)


def test_text_held_after_an_open_text_is_bounded() -> None:
    frames = [
        *(start(), block(0, "text", text="a"), block(1, "text", text="")),
        *(delta(1, "text_delta", text="x" * 30) for _ in range(3)),
    ]
    got, run = transcode(*frames, stop(0), stop(1), END, STOP, limits=Limits(max_held_bytes=80))
    assert got.error is not None
    assert got.answers[0].texts == {"content": "a"}
    assert [loss.feature for loss in run.losses] == ["held"]


def test_source_dialect_is_detected() -> None:
    run = Transcoder(None, "chat")
    out = b"".join(run.feed(b"".join([event("ping"), start(), text(0, "a"), END, STOP])))
    assert run.dialect == "anthropic"
    assert read(out).answers[0].texts == {"content": "a"}


def test_ping_is_a_comment_until_the_end() -> None:
    run = transcoder()
    assert run.ping() == b": ping\n\n"
    run.feed(b"".join([start(), text(0, "a"), END]))
    assert run.ping() == b": ping\n\n"
    run.feed(STOP)
    assert run.ping() == b""
