"""Answers whose calls are restored: their bounds and laws."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from support.anthropic import frames as anthropic
from support.draws import Draws, draws
from support.openai_chat.chunks import DONE, chunk, content
from support.operation_counts import operations
from support.streams.chunkings import CHUNKINGS, events_of
from support.streams.corpus import recordings
from support.streams.mutations import cut_anywhere, damaged
from support.streams.replies import (
    FINISHES,
    IN_PIECES,
    LIVE,
    PIECES,
    REPLY,
    answer,
    inputs,
)
from support.streams.run_comparison import Route, assert_same_without_run, transcode_each_way

from streamnorm import (
    Completed,
    Failed,
    Reply,
    StreamError,
    Text,
    Transcoder,
    Truncated,
    iter_transcode,
)
from streamnorm._core.bodies.request import ToolName
from streamnorm.validation import validate


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
    # An event that is unknown in its own dialect stays in it as it is.
    if source != target == "openai_responses":
        assert validate(reading.joined, target) == [] or isinstance(
            reading.outcome, Failed | Truncated
        )


@pytest.mark.parametrize(
    "source", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
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
    assert found > 2


def text_of(arguments: str) -> str:
    """Return the text of a call by the plainest means."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    wrapped = isinstance(value, dict) and isinstance(value.get("input"), str)
    return str(value["input"]) if wrapped else "" if value == {} else arguments


@pytest.mark.parametrize(
    "source", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
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
