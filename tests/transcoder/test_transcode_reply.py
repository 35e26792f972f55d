"""The answer to a translated request: tools under the client's names and kinds, live."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from support.anthropic import frames as anthropic
from support.chunkings import CHUNKINGS, events_of
from support.corpus import recordings
from support.gemini import frames as gemini
from support.mutations import cut_anywhere, damaged
from support.openai_chat.chunks import DONE, call, calls, chunk, content
from support.openai_responses import frames as responses
from support.openai_responses.reader import read as read_responses
from support.operation_counts import operations
from support.run_comparison import Route, assert_same_without_run, transcode_each_way
from support.seeded import Draws, draws

from streamnorm import (
    Completed,
    Failed,
    Limits,
    Loss,
    LossyEncoding,
    Note,
    Reply,
    StreamError,
    Text,
    ToolCall,
    Transcoder,
    Truncated,
    iter_transcode,
    validate,
)
from streamnorm._core.bodies.reply import ToolName

REPLY = Reply(
    tools={
        "apply_patch": ToolName("apply_patch", is_custom=True),
        "crm__get": ToolName("get", "crm"),
        "crm__run": ToolName("run", "crm", is_custom=True),
    }
)
# What the freeform tool of the worked examples is called with, as text and as wrapped.
PATCH = '*** Begin "x"\n'
PIECES = ['{"', "input", '":"', "*** Beg", "in \\", '"x', '\\"', "\\", "n", '"', "}"]
LIVE = ["*** Beg", "in ", '"x', '"', "\n"]

IN_PIECES = ("anthropic", "openai_chat", "openai_responses")
"""The dialects that send arguments in pieces of their text."""

FINISHES = {
    "tool_use": ("tool_use", "tool_calls", "completed"),
    "max_tokens": ("max_tokens", "length", "incomplete"),
}


def answer(source: str, *tools: tuple[str, Iterable[str]], reason: str = "tool_use") -> list[bytes]:
    """Return a stream that calls tools, one after another, with arguments in pieces."""
    finish = dict(zip(IN_PIECES, FINISHES[reason], strict=True))[source]
    frames: list[bytes] = []
    for number, (name, pieces) in enumerate(tools):
        match source:
            case "anthropic":
                frames += [
                    anthropic.block(number, "tool_use", id=f"c{number}", name=name),
                    *(
                        anthropic.delta(number, "input_json_delta", partial_json=piece)
                        for piece in pieces
                    ),
                    anthropic.stop(number),
                ]
            case "openai_chat":
                frames.append(calls(call(number, f"c{number}", name)))
                frames += [calls(call(number, arguments=piece)) for piece in pieces]
            case _:
                item = {"id": f"fc_{number}", "call_id": f"c{number}", "name": name}
                frames.append(responses.added(number, "function_call", arguments="", **item))
                frames += [
                    responses.args(piece, number, item_id=f"fc_{number}") for piece in pieces
                ]
                whole = {**item, "arguments": "".join(pieces), "status": finish}
                frames.append(responses.done(number, "function_call", **whole))
    if source == "anthropic":
        return [anthropic.start(), *frames, anthropic.end(finish), anthropic.STOP]
    if source == "openai_chat":
        return [*frames, chunk({}, finish), DONE]
    incomplete = {"incomplete_details": {"reason": "max_output_tokens"}}
    details = incomplete if finish == "incomplete" else {}
    return [responses.START, *frames, responses.completed(status=finish, **details)]


def payloads(out: bytes) -> list[dict[str, Any]]:
    lines = [line for line in out.decode().split("\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def inputs(out: bytes) -> list[str]:
    """Return the deltas of custom calls in a Responses stream."""
    kind = "response.custom_tool_call_input.delta"
    return [payload["delta"] for payload in payloads(out) if payload["type"] == kind]


each_source = pytest.mark.parametrize("source", IN_PIECES)


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


# Bounds


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


# Laws


@given(draws())
def test_text_is_the_same_in_every_chunking_and_without_the_run(d: Draws) -> None:
    source = d.pick(IN_PIECES)
    text = d.text(0, 12, 'a\\"u\n{}é😀/')
    arguments = json.dumps({"input": text}, ensure_ascii=d.flag(), indent=d.pick((None, 1)))
    tools = [("apply_patch", d.cut(arguments, 9)), ("crm__get", d.cut('{"a": [1]}', 4))]
    frames = answer(source, *d.shuffled(tools))
    route = Route(source, d.pick(("openai_responses", "openai_chat")), {"reply": REPLY})
    chunks = CHUNKINGS[d.pick([*CHUNKINGS])](frames)
    reading = assert_same_without_run(chunks, route)
    message = reading.states[-1]["message"]
    (patch,) = [block for block in message.blocks if block.kind == "custom"]
    assert patch.arguments == text
    assert isinstance(reading.outcome, Completed)


@given(draws())
def test_damaged_stream_ends_once_and_is_the_same_without_the_run(d: Draws) -> None:
    source, target = d.pick(IN_PIECES), d.pick(("openai_responses", "openai_chat"))
    text = d.pick(('{"input":"', "", '{"a":1,"input":"')) + d.text(0, 9, 'a\\"u\n0{}é😀')
    tools = [("apply_patch", d.cut(text + d.pick(('"}', "", "}")), 6)), ("crm__run", PIECES)]
    body = b"".join(answer(source, *tools, reason=d.pick([*FINISHES])))
    route = Route(source, target, {"reply": REPLY, "verbatim": d.flag()})
    reading = assert_same_without_run(cut_anywhere(d, damaged(d, body)), route)
    assert reading.outcome is not None
    if target == "openai_responses":
        assert validate(reading.joined, target) == [] or isinstance(
            reading.outcome, Failed | Truncated
        )


@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_recorded_calls_become_custom_calls(source: str) -> None:
    """Hardly any has the wrapped form: each has its arguments as text, in any chunking."""
    found = 0
    for recording in recordings(source):
        options = {"verbatim": False, "server": recording.server}
        plain = Transcoder(source, "openai_responses", **options)
        plain.feed(recording.body)
        plain.close()
        calls = plain.message.tool_calls
        if not calls:
            continue
        reply = Reply(tools={call.name: ToolName(call.name, "n", is_custom=True) for call in calls})
        for name in ("one event", "bytes" if len(recording.body) < 3000 else "halves of events"):
            chunks = CHUNKINGS[name](events_of(recording.body))
            route = Route(source, "openai_responses", {**options, "reply": reply})
            reading = assert_same_without_run(chunks, route)
            restored = reading.states[-1]["message"].tool_calls
            if isinstance(plain.outcome, Completed):
                expected = [
                    call.arguments if call.kind == "custom" else text_of(call.arguments)
                    for call in calls
                ]
                assert [call.arguments for call in restored] == expected, recording.name
        found += 1
    assert found > 5


def text_of(arguments: str) -> str:
    """Return the text of a call by the plainest means."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    wrapped = isinstance(value, dict) and isinstance(value.get("input"), str)
    return str(value["input"]) if wrapped else "" if value == {} else arguments


@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_other_streams_are_as_without_a_reply(source: str) -> None:
    for recording in recordings(source):
        options = {"verbatim": False, "server": recording.server}
        plain = Transcoder(source, "openai_responses", **options)
        restoring = Transcoder(source, "openai_responses", reply=REPLY, **options)
        for line in recording.body.splitlines(keepends=True):
            assert plain.feed(line) == restoring.feed(line), recording.name
        assert plain.close() == restoring.close()
        assert (plain.outcome, plain.losses, plain.notes) == (
            *(restoring.outcome, restoring.losses, restoring.notes),
        )


def test_delta_run_stays_on_beside_a_restored_call() -> None:
    """A text costs no more than without a reply, and a text in a call little more."""
    texts = [content("ab")] * 400
    body = [*texts, chunk({}, "stop"), DONE]
    costs = []
    for reply in (None, REPLY):
        transcoder = Transcoder("openai_chat", "openai_responses", reply=reply)
        costs.append(operations(lambda run=transcoder: [run.feed(frame) for frame in body]))
        assert transcoder.message.blocks == (Text("ab" * 400),)
    assert costs[1] <= 1.05 * costs[0]


def test_time_is_linear_in_the_arguments() -> None:
    costs = []
    for count in (200, 400):
        frames = answer("openai_chat", ("apply_patch", ['{"input":"', *["a\\n"] * count, '"}']))
        transcoder = Transcoder("openai_chat", "openai_responses", reply=REPLY)
        costs.append(operations(lambda run=transcoder, all=frames: [run.feed(f) for f in all]))
    assert costs[1] < 2.2 * costs[0]


def test_options_of_streams_take_a_reply() -> None:
    frames = answer("anthropic", ("apply_patch", PIECES))
    stream = iter_transcode(frames, to="openai_responses", reply=REPLY)
    assert inputs(b"".join(stream)) == LIVE


def test_error_of_the_provider_is_passed_on() -> None:
    frames = [anthropic.start(), anthropic.event("error", error={"type": "x", "message": "m"})]
    out, run = transcode_each_way(frames, "anthropic", "openai_responses", reply=REPLY)
    assert isinstance(run.outcome, Failed)
    assert isinstance(run.outcome.error, StreamError)
    assert run.outcome.error.kind == "upstream"
    assert b"response.failed" in out
