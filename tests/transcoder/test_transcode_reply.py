"""The answer to a translated request: tools under the client's names and kinds, live."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.bedrock_converse.frames import START, end, event, stop, text
from support.gemini import frames as gemini
from support.openai_chat.chunks import DONE, call, calls, chunk
from support.openai_responses import frames as responses
from support.openai_responses.reader import read as read_responses
from support.streams.chunkings import CHUNKINGS
from support.streams.replies import LIVE, PIECES, REPLY, answer, each_source, inputs, payloads
from support.streams.run_comparison import Route, assert_same_without_run, transcode_each_way

from streamnorm import (
    Completed,
    Failed,
    Limits,
    Loss,
    LossyEncoding,
    Note,
    Reply,
    StreamError,
    ToolCall,
    Transcoder,
    Truncated,
)

PATCH = "".join(LIVE)


@each_source
def test_freeform_tool_gets_its_text_live(source: str) -> None:
    frames = answer(source, ("apply_patch", PIECES))
    out, run = transcode_each_way(frames, source, "openai_responses", reply=REPLY)
    assert inputs(out) == LIVE
    (item,) = read_responses(out).output
    expected = {
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": "c0",
        "name": "apply_patch",
        "input": PATCH,
    }
    assert {key: item[key] for key in expected} == expected
    assert run.message.blocks == (ToolCall("c0", "apply_patch", PATCH, kind="custom"),)
    assert isinstance(run.outcome, Completed)
    assert run.outcome.reason == "tool_use"


@each_source
def test_each_piece_goes_out_with_its_frame(source: str) -> None:
    transcoder = Transcoder(source, "openai_responses", reply=REPLY)
    frames = answer(source, ("apply_patch", PIECES))
    live = ["".join(inputs(b"".join(transcoder.feed(frame)))) for frame in frames]
    texts = iter(LIVE)
    expected = [
        next(texts) if piece in ("*** Beg", "in \\", '"x', '\\"', "n") else "" for piece in PIECES
    ]
    start = live.index("*** Beg") - PIECES.index("*** Beg")
    # A Chat call starts with its first arguments.
    assert live[start : start + len(PIECES)] == expected


@each_source
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
def test_tools_are_the_clients_in_every_dialect_that_has_such(source: str, target: str) -> None:
    tools = (("apply_patch", PIECES), ("crm__get", ['{"t"', ":1}"]), ("crm__run", PIECES))
    out, run = transcode_each_way([*answer(source, *tools)], source, target, reply=REPLY)
    assert run.message.blocks == (
        ToolCall("c0", "apply_patch", PATCH, kind="custom"),
        ToolCall("c1", "get", '{"t":1}', namespace="crm"),
        ToolCall("c2", "run", PATCH, kind="custom", namespace="crm"),
    )
    lost = {loss.feature: loss.count for loss in run.losses}
    if target == "openai_chat":
        assert lost["namespace"] == 2
        return
    assert "namespace" not in lost
    assert [
        (item["type"], item["name"], item.get("namespace")) for item in read_responses(out).output
    ] == [
        ("custom_tool_call", "apply_patch", None),
        ("function_call", "get", "crm"),
        ("custom_tool_call", "run", "crm"),
    ]


def test_chat_client_reads_a_custom_call() -> None:
    out, _ = transcode_each_way(
        answer("anthropic", ("apply_patch", PIECES)), "anthropic", "openai_chat", reply=REPLY
    )
    deltas = [
        tool
        for payload in payloads(out)
        for choice in payload["choices"]
        for tool in choice["delta"].get("tool_calls", ())
    ]
    assert deltas[0]["type"] == "custom"
    assert deltas[0]["custom"]["name"] == "apply_patch"
    assert "".join(tool["custom"].get("input", "") for tool in deltas) == PATCH


def test_call_that_comes_whole_is_restored() -> None:
    function = {"id": "c0", "name": "apply_patch", "args": {"input": PATCH}}
    frames = [
        gemini.parts({"functionCall": function}),
        gemini.text("", finish="STOP"),
    ]
    out, run = transcode_each_way(frames, "gemini", "openai_responses", reply=REPLY)
    assert inputs(out) == [PATCH]
    assert run.message.blocks == (ToolCall("c0", "apply_patch", PATCH, kind="custom"),)


def test_arguments_that_are_sent_by_paths_are_restored_live() -> None:
    def step(**fields: Any) -> bytes:
        return gemini.parts({"functionCall": fields})

    def piece(text: str, **fields: Any) -> bytes:
        return step(
            partialArgs=[{"jsonPath": "$.input", "stringValue": text, **fields}], willContinue=True
        )

    frames = [
        step(name="apply_patch", id="c0", willContinue=True),
        *(piece(text, willContinue=True) for text in ("*** Beg", 'in "x"', "\n")),
        *(piece(""), step(), gemini.text("", finish="STOP")),
    ]
    out, run = transcode_each_way(frames, "gemini", "openai_responses", reply=REPLY)
    assert inputs(out) == ["*** Beg", 'in "x"', "\n"]
    assert isinstance(run.outcome, Completed)


@each_source
def test_same_dialect_is_restored_too(source: str) -> None:
    """Its bytes cannot pass unchanged."""
    frames = answer(source, ("crm__get", ['{"t"', ":1}"]))
    transcoder = Transcoder(source, source, reply=REPLY)
    out = b"".join(data for frame in frames for data in transcoder.feed(frame))
    assert not transcoder.untouched
    assert b"crm__get" not in out
    assert transcoder.message.blocks == (ToolCall("c0", "get", '{"t":1}', namespace="crm"),)
    detected = Transcoder(None, source, reply=REPLY)
    assert b"".join(data for frame in frames for data in detected.feed(frame)) == out


@each_source
@pytest.mark.parametrize("reply", [None, Reply()])
def test_without_tools_the_bytes_pass_unchanged(source: str, reply: Reply | None) -> None:
    frames = answer(source, ("crm__get", ['{"t"', ":1}"]))
    transcoder = Transcoder(source, source, reply=reply)
    assert b"".join(data for frame in frames for data in transcoder.feed(frame)) == b"".join(frames)
    assert transcoder.untouched


@pytest.mark.parametrize("source", ["openai_chat", "openai_responses"])
def test_interleaved_calls_are_restored(source: str) -> None:
    names = ("apply_patch", "crm__get", "crm__run")
    pieces = [PIECES, ['{"t"', ":1}"], PIECES]
    turns = [
        (number, piece)
        for turn in range(len(PIECES))
        for number, own in enumerate(pieces)
        for piece in own[turn : turn + 1]
    ]
    if source == "openai_chat":
        frames = [calls(call(n, f"c{n}", name)) for n, name in enumerate(names)]
        frames += [calls(call(n, arguments=piece)) for n, piece in turns]
        frames += [chunk({}, "tool_calls"), DONE]
    else:
        frames = [responses.START]
        frames += [
            responses.added(
                n, "function_call", **responses.call(id=f"fc_{n}", call_id=f"c{n}", name=name)
            )
            for n, name in enumerate(names)
        ]
        frames += [responses.args(piece, n, item_id=f"fc_{n}") for n, piece in turns]
        frames.append(responses.completed())
    out, run = transcode_each_way(frames, source, "openai_responses", reply=REPLY)
    assert [item.get("input", item.get("arguments")) for item in read_responses(out).output] == [
        *(PATCH, '{"t":1}', PATCH),
    ]
    route = Route(source, "openai_responses", {"reply": REPLY, "ordering": "interleaved"})
    for chunking in CHUNKINGS.values():
        assert_same_without_run(chunking(frames), route)
    assert isinstance(run.outcome, Completed)


# Arguments of other forms


@each_source
def test_patch_as_plain_text_is_not_lost(source: str) -> None:
    """Weak models forget the object around it."""
    pieces = ["*** Begin", " Patch\n", "*** End Patch\n"]
    frames = answer(source, ("apply_patch", pieces))
    out, run = transcode_each_way(frames, source, "openai_responses", reply=REPLY)
    assert inputs(out) == pieces
    assert Note("not_wrapped", "tool call") in run.notes
    assert isinstance(run.outcome, Completed)
    assert not [loss for loss in run.losses if loss.feature == "custom_tool_members"]


@each_source
@pytest.mark.parametrize("keep_message", [False, True])
def test_arguments_are_bounded(source: str, *, keep_message: bool) -> None:
    """Also those that wait for the text to begin."""
    frames = answer(source, ("apply_patch", ['{"a":"', *["x" * 100] * 20]))
    limits = Limits(max_accumulated_bytes=1500)
    for chunking in CHUNKINGS.values():
        transcoder = Transcoder(
            source, "openai_responses", reply=REPLY, limits=limits, keep_message=keep_message
        )
        for data in chunking(frames):
            transcoder.feed(data)
        outcome = transcoder.outcome
        assert isinstance(outcome, Failed)
        assert (outcome.error.kind, outcome.error.code) == ("too_large", "max_accumulated_bytes")


@each_source
def test_members_beside_the_text_are_a_loss(source: str) -> None:
    frames = answer(source, ("apply_patch", ['{"why":"x",', '"input":"a"', ',"n":1}']))
    out, run = transcode_each_way(frames, source, "openai_responses", reply=REPLY)
    assert inputs(out) == ["a"]
    assert Loss("custom_tool_members", "tool call", 1, "dropped") in run.losses
    strict = Transcoder(source, "openai_chat", reply=REPLY, strict=True)
    with pytest.raises(LossyEncoding, match="custom_tool_members"):
        strict.feed(b"".join(frames))


@each_source
def test_answer_that_was_cut_in_the_text_is_incomplete(source: str) -> None:
    frames = answer(source, ("apply_patch", PIECES[:5]), reason="max_tokens")
    out, run = transcode_each_way(frames, source, "openai_responses", reply=REPLY)
    read = read_responses(out)
    assert read.response is not None
    assert read.response["status"] == "incomplete"
    (item,) = read.response["output"]
    assert (item["status"], item["input"]) == ("incomplete", "*** Begin ")
    assert isinstance(run.outcome, Completed)
    assert run.outcome.reason == "max_tokens"
    assert run.message.blocks == (
        ToolCall("c0", "apply_patch", "*** Begin ", kind="custom", is_unfinished=True),
    )


@each_source
@pytest.mark.parametrize(
    "pieces", [PIECES[:5], ['{"input":"a', "\nb", '"}'], ['{"input":"a"', "}}"]]
)
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
def test_text_that_is_not_whole_never_looks_complete(
    source: str, target: str, pieces: list[str]
) -> None:
    frames = answer(source, ("apply_patch", pieces))
    out, run = transcode_each_way(frames, source, target, reply=REPLY)
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.kind == "malformed"
    assert run.outcome.error.message.startswith("wrapped input of a custom call: ")
    if target == "openai_responses":
        read = read_responses(out)
        assert read.error is not None
        assert read.output == []
    else:
        assert b"[DONE]" not in out
        assert b'"finish_reason":"' not in out


@each_source
def test_stream_that_breaks_off_in_the_text_is_truncated(source: str) -> None:
    frames = answer(source, ("apply_patch", PIECES))
    amid = next(at for at, frame in enumerate(frames) if b'\\"x' in frame)
    out, run = transcode_each_way(frames[:amid], source, "openai_responses", reply=REPLY)
    assert isinstance(run.outcome, Truncated)
    assert "".join(inputs(out)) == "*** Begin "
    assert read_responses(out).output == []
    transcoder = Transcoder(source, "openai_responses", reply=REPLY)
    transcoder.feed(b"".join(frames[:amid]))
    (end,) = transcoder.abort(ConnectionResetError())
    assert b"response.failed" in end


def test_message_without_a_name_gets_that_of_the_reply() -> None:
    """Converse names neither the message nor its model."""
    body = b"".join([text(0, "Hi"), stop(0), end()])
    run = Transcoder("bedrock_converse", "anthropic", reply=Reply(id="req-1", model="nova"))
    pieces = [run.feed(event("newer", x=1)), run.feed(START), run.feed(body), run.close()]
    out = b"".join([each for piece in pieces for each in piece])
    assert b'"id":"req-1"' in out
    assert b'"model":"nova"' in out
    assert (run.message.id, run.message.model) == ("req-1", "nova")


def test_message_with_a_name_keeps_it() -> None:
    start = {"type": "message_start", "message": {"id": "m", "model": "x"}}
    run = Transcoder("anthropic", "openai_chat", reply=Reply(id="req-1", model="nova"))
    run.feed(b"event: message_start\ndata: %b\n\n" % json.dumps(start).encode())
    assert (run.message.id, run.message.model) == ("m", "x")


# Ids of calls


RESULTS = {"ui_message_stream": "tool-output-available", "ag_ui": "TOOL_CALL_RESULT"}
EARLIER = Reply(calls={"c0": False, "c1": True})


@each_source
@pytest.mark.parametrize("page", ["ui_message_stream", "ag_ui"])
def test_no_call_gets_the_id_of_an_earlier_call_of_the_page(source: str, page: str) -> None:
    """Providers number the calls of each answer from 0."""
    frames = answer(source, ("f", ['{"a"', ":1}"]), ("f", ["{}"]), ("f", ["{}"]))
    out, run = transcode_each_way(frames, source, page, reply=EARLIER)
    written = [each["toolCallId"] for each in payloads(out) if "toolCallId" in each]
    assert [*dict.fromkeys(written)] == ["c0-2", "c1-2", "c2"]
    assert [block.id for block in run.message.tool_calls] == ["c0-2", "c1-2", "c2"]
    assert run.losses == ()


@pytest.mark.parametrize("to", ["anthropic", "openai_responses", "gemini", "bedrock_converse"])
def test_no_call_gets_the_id_of_an_earlier_call_of_another_dialects_client(to: str) -> None:
    """Claude Code leaves out a call whose id it knows, and the model calls again without end."""
    frames = answer("openai_chat", ("f", ['{"a"', ":1}"]), ("f", ["{}"]), ("f", ["{}"]))
    run = Transcoder("openai_chat", to, reply=EARLIER)
    out = b"".join(data for frame in frames for data in run.feed(frame))
    assert all(out.count(b'"%s"' % id) for id in (b"c0-2", b"c1-2", b"c2"))
    assert not any(out.count(b'"%s"' % id) for id in (b"c0", b"c1"))
    assert [block.id for block in run.message.tool_calls] == ["c0-2", "c1-2", "c2"]
    assert Loss("duplicate_id", "tool call", 2, "written with an id of its own") in run.losses


def test_client_of_the_same_dialect_gets_the_ids_of_the_provider() -> None:
    frames = answer("openai_chat", ("f", ["{}"]))
    run = Transcoder("openai_chat", "openai_chat", reply=EARLIER)
    out = b"".join(data for frame in frames for data in run.feed(frame))
    assert b"c0-2" not in out
    assert run.untouched


@pytest.mark.parametrize(
    ("page", "known"), [("ui_message_stream", {"c1"}), ("ag_ui", {"c0", "c1"})]
)
def test_result_of_the_provider_has_a_call_before_it(page: str, known: set[str]) -> None:
    """`useChat` fails at a result whose call is not in its message, AG-UI's thread for ever."""
    for id in ("c0", "c1", "c2"):
        frames = [
            responses.START,
            responses.added(0, "shell_call_output", call_id=id, output=[]),
            responses.done(0, "shell_call_output", call_id=id, output=[]),
            responses.completed(),
        ]
        out, run = transcode_each_way(frames, "openai_responses", page, reply=EARLIER)
        assert isinstance(run.outcome, Completed)
        chunks = [
            (each["type"], each["toolCallId"]) for each in payloads(out) if "toolCallId" in each
        ]
        starts = {name for name, _ in chunks} & {"tool-input-available", "TOOL_CALL_START"}
        assert bool(starts) == (id not in known), id
        assert chunks[-1] == (RESULTS[page], id)


@pytest.mark.parametrize("to", ["openai_chat", "anthropic", "ag_ui"])
def test_errors_may_be_written_without_the_account(to: str) -> None:
    transcoder = Transcoder("openai_chat", to, reply=Reply(hides_account=True))
    refused = b'data: {"error": {"code": "invalid_api_key", "message": "no key sk-1"}}\n\n'
    written = b"".join([*transcoder.feed(chunk({"content": "Hi"})), *transcoder.feed(refused)])
    assert b"Hi" in written
    assert b"the provider refuses the gateway" in written
    assert b"sk-1" not in written
    error = StreamError("upstream", "no key sk-1", "invalid_api_key", 401, retryable=False)
    assert transcoder.outcome == Failed(error)
