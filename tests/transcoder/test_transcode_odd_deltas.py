"""Odd deltas among plain ones: what goes out does not depend on the reads, nor on the run."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic import frames as wire
from support.gemini import frames as gemini
from support.openai_chat.chunks import DONE, call, calls, content, reasoning
from support.openai_responses import frames as responses
from support.streams.content import DIALECTS, transcode
from support.streams.run_comparison import transcode_each_way

from streamnorm import Failed, Limits, LocalProtocolError, Reasoning, Transcoder


def compact(frame: bytes) -> bytes:
    """Return a frame of Anthropic as the API spells it."""
    return frame.replace(b'": ', b'":')


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize(
    "ends",
    [
        [calls(call(0, arguments="3")) + calls(call(1, arguments=""))],
        [calls(call(0, arguments="3")), calls(call(1, arguments=""))],
    ],
    ids=["joined", "alone"],
)
def test_empty_fragment_opens_no_other_call(ends: list[bytes], target: str) -> None:
    begun = [calls(call(n, f"t{n}", "f", "[")) for n in (0, 1)]
    turns = [calls(call(n, arguments=str(n + 1))) for n in (0, 1)]
    body = [*begun, *turns, *ends, calls(call(1, arguments="4"))]
    _, run = transcode_each_way(body, "openai_chat", target, verbatim=False)
    assert [made.arguments for made in run.message.tool_calls] == ["[13", "[24"]


def test_empty_fragment_does_not_change_the_index_of_a_call() -> None:
    pieces = [(0, "1"), (7, "2"), (0, ""), (7, "3"), (7, "")]
    body = [calls(call(0, "t", "f", "[")), *(calls(call(n, arguments=p)) for n, p in pieces)]
    _, run = transcode_each_way(body, "openai_chat", "anthropic")
    assert [made.arguments for made in run.message.tool_calls] == ["[123"]


@pytest.mark.parametrize("target", DIALECTS)
def test_empty_frame_in_one_chunk_with_another_adds_nothing(target: str) -> None:
    def delta(number: int, piece: str) -> bytes:
        return compact(wire.delta(number, "input_json_delta", partial_json=piece))

    begun = [wire.block(n, "tool_use", id=f"t{n}", name="f", input={}) for n in (0, 1)]
    body = [wire.start(), *begun, delta(1, "") + delta(0, "1"), delta(1, "2"), delta(1, "3")]
    _, run = transcode_each_way(body, "anthropic", target, verbatim=False)
    assert [made.arguments for made in run.message.tool_calls] == ["1", "23"]


@pytest.mark.parametrize("target", DIALECTS)
def test_occasionally_missing_ids_mix_no_summaries(target: str) -> None:
    def piece(part: int, text: str, **id: str) -> bytes:
        kind = "reasoning_summary_text"
        return responses.delta(kind, text, 1, summary_index=part, **id)

    named: dict[str, str] = {"item_id": "rs_1"}
    summaries = [(0, "a"), (1, "b"), (0, "c"), (1, "d"), (1, "e")]
    body = [
        *(responses.START, responses.added(0, "message", id="msg_1")),
        responses.text("hi", item_id="msg_1"),
        responses.added(1, "reasoning", id="rs_1"),
        *(piece(part, text, **(named if part else {})) for part, text in summaries),
        responses.completed(),
    ]
    _, run = transcode_each_way(body, "openai_responses", target, verbatim=False)
    assert run.message.blocks[1] == Reasoning(("ac", "bde"))


def test_occasionally_missing_ids_lose_no_text() -> None:
    kind, named = "reasoning_summary_text", {"item_id": "rs_1"}
    pieces: list[tuple[str, dict[str, str]]]
    pieces = [("a", {}), ("b", named), ("c", named), ("d", {}), ("e", named)]
    done = responses.event(
        f"response.{kind}.done", output_index=1, summary_index=0, text="abcdeXYZ"
    )
    body = [
        *(responses.START, responses.added(0, "message", id="msg_1")),
        *(responses.text("hi", item_id="msg_1"), responses.added(1, "reasoning", id="rs_1")),
        *(responses.delta(kind, text, 1, summary_index=0, **id) for text, id in pieces),
        *(done, responses.completed()),
    ]
    _, run = transcode_each_way(body, "openai_responses", "anthropic")
    assert run.message.blocks[1] == Reasoning(("abcdeXYZ",))


@pytest.mark.parametrize("options", [{}, {"reasoning": None}])
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", ["openai_chat", "gemini", None])
def test_nothing_is_read_after_an_error_line(
    source: str | None, target: str, options: dict[str, Any]
) -> None:
    makes = (gemini.text, gemini.thought) if source == "gemini" else (content, reasoning)
    for make in makes:
        error = b'error: {"message":"boom"}\n\n'
        body = [make("one"), make("two"), make("two"), error, make("later"), make("later")]
        for chunks in (body, [b"".join(body)]):
            out, run = transcode(chunks, source, target, verbatim=False, **options)
            assert isinstance(run.outcome, Failed)
            assert b"boom" in out
            assert b"later" not in out
            assert "later" not in str(run.message)


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("make", [content, gemini.text])
def test_nothing_is_read_after_the_terminal(make: Any, target: str) -> None:
    source = "openai_chat" if make is content else "gemini"
    run = Transcoder(source, target)
    for _ in range(3):
        run.feed(make("a"))
    run.close()
    with pytest.raises(LocalProtocolError):
        run.feed(make("b"))


@pytest.mark.parametrize(("first", "second"), [(b"\n", b"\r\n"), (b"\r\n", b"\n")])
def test_line_ends_may_change_in_a_verbatim_stream(first: bytes, second: bytes) -> None:
    plain = content("x").removesuffix(b"\n\n")
    body = [plain + first * 2, plain + first * 2, plain + second * 2, plain + first * 2]
    out, _ = transcode_each_way([*body, DONE], "openai_chat", "openai_chat", verbatim=True)
    assert out == b"".join([*body, DONE])
    cut, _ = transcode_each_way([*body, second], "openai_chat", "openai_chat", verbatim=True)
    assert cut.startswith(b"".join(body))


def test_first_of_two_exceeded_limits_is_reported() -> None:
    body = [calls(call(n, f"t{n}", "f", "[")) for n in (0, 1)]
    body += [calls(call(1, arguments="x" * 50))] * 12
    limits = Limits(max_held_bytes=300, max_accumulated_bytes=400)
    for chunks in (body, [b"".join(body)]):
        out, run = transcode(chunks, "openai_chat", "anthropic", limits=limits)
        assert isinstance(run.outcome, Failed)
        assert run.outcome.error.code == "max_held_bytes"
        assert out.count(b"event: error") == 1


def test_repeated_sequence_number_reads_the_same_in_any_chunking() -> None:
    def piece(number: int, text: str) -> bytes:
        return responses.text(text, sequence_number=number, item_id="msg_1")

    body = [responses.START, responses.added(0, "message", id="msg_1")]
    body += [piece(2, "a"), piece(2, "b"), piece(3, "c"), piece(4, "d")]
    cut = [*body[:-1], body[-1][:9], body[-1][9:]]
    transcode_each_way(cut, "openai_responses", "openai_responses", verbatim=True)
