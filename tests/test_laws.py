"""The laws of DESIGN §9, as far as they concern Chat in and Anthropic out."""

from __future__ import annotations

import json
import re

import pytest
from anthropic_reader import Read, read
from corpus import each_recording, recordings
from dice import Dice, dice
from event_strategies import make_stream
from hypothesis import example, given
from mutations import chunked, cut_anywhere, damaged, noise
from strategies import Source, agrees, chat_streams, make_chat_stream

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    Failed,
    LocalProtocolError,
    Message,
    MessageStart,
    MessageStop,
    Outcome,
    Ping,
    Reasoning,
    RedactedReasoning,
    Refusal,
    StreamError,
    Text,
    ToolCall,
    Transcoder,
    Truncated,
    Usage,
    accumulate,
    decoder,
    encoder,
    message_events,
    project,
    validate,
)
from streamnorm.ids import escape_id, tag_signature
from streamnorm.ordering import Sequencer
from streamnorm.recording import Recording

SIZES = (1, 2, 3, 5, 64)


def decode(
    pieces: list[bytes], dialect: str | None = "openai_chat"
) -> tuple[list[Event], Outcome | None]:
    reader = decoder(dialect)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.close(), reader.outcome


def transcode(pieces: list[bytes]) -> tuple[bytes, Transcoder]:
    transcoder = Transcoder("openai_chat", "anthropic")
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    return b"".join(out + transcoder.close()), transcoder


def anthropic_content(message: Message) -> list[dict[str, object]]:
    """Return the content of a message as an Anthropic client should have it."""
    content: list[dict[str, object]] = []
    for block in message.blocks:
        match block:
            case Text(text) | Refusal(text):
                if text.strip():
                    content.append({"type": "text", "text": text})
            case Reasoning(signature=signature, issuer=issuer):
                if signature is not None and issuer != "anthropic":
                    signature = tag_signature(signature, issuer)
                content.append(
                    {"type": "thinking", "thinking": block.text, "signature": signature or ""}
                )
            case RedactedReasoning(data, issuer):
                data = data if issuer == "anthropic" else tag_signature(data, issuer)
                content.append({"type": "redacted_thinking", "data": data})
            case ToolCall(id, name, arguments):
                call = {"type": "tool_use", "id": escape_id(id), "name": name}
                content.append({**call, "input": arguments or "{}"})
            case _:
                pytest.fail(f"{type(block).__name__} has no place")
    return content


def anthropic_usage(usage: Usage) -> dict[str, int]:
    cached, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": max((usage.input_tokens or 0) - cached - written, 0),
        "output_tokens": usage.output_tokens or 0,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }


def assert_reads_as(got: Read, message: Message) -> None:
    """Compare what a client has with the message that it should have."""
    assert got.content == anthropic_content(message)
    assert got.stop_reason == {"pause": "pause_turn"}.get(
        message.stop_reason or "", message.stop_reason
    )
    if got.stop_reason is not None:
        assert got.usage == anthropic_usage(message.usage)


def any_body(d: Dice) -> bytes:
    """Return a stream that is damaged in some way, or is none."""
    spoilt = d.pick((lambda: d.pick(recordings()).body, lambda: make_chat_stream(d).body))
    return noise(d) if d.flag(3) else damaged(d, spoilt())


# 1: chunking


@each_recording
def test_chunking_does_not_matter(recording: Recording) -> None:
    whole = decode([recording.body])
    for size in SIZES:
        assert decode(chunked(recording.body, size)) == whole
        assert transcode(chunked(recording.body, size))[0] == transcode([recording.body])[0]


@given(dice(500))
def test_no_cut_matters_in_any_stream(d: Dice) -> None:
    body = any_body(d)
    pieces = cut_anywhere(d, body)
    assert decode(pieces) == decode([body])
    assert decode(pieces, None) == decode([body], None)
    assert transcode(pieces)[0] == transcode([body])[0]


# 2: totality


def assert_total(events: list[Event], outcome: Outcome | None) -> None:
    errors = [number for number, event in enumerate(events) if isinstance(event, StreamError)]
    assert errors in ([], [len(events) - 1])
    assert isinstance(outcome, Failed | Truncated if errors else Completed)
    assert validate(events) == []


@given(dice(500))
@example(Dice(b""))
def test_any_bytes_give_legal_events_and_one_outcome(d: Dice) -> None:
    body = any_body(d)
    for dialect in ("openai_chat", None):
        assert_total(*decode(cut_anywhere(d, body), dialect))


@given(dice(500))
def test_whatever_comes_in_what_goes_out_is_a_stream_that_ends(d: Dice) -> None:
    body = any_body(d)
    out, transcoder = transcode(cut_anywhere(d, body))
    got = read(out)
    assert (got.error is None) == isinstance(transcoder.outcome, Completed)


# 3: grammar


@each_recording
def test_decoded_events_are_legal(recording: Recording) -> None:
    assert_total(*decode([recording.body]))


@given(dice())
def test_encoder_refuses_exactly_what_is_illegal(d: Dice) -> None:
    events: list[Event] = make_stream(d, failing=True)
    for _ in range(d.below(3)):
        at = d.below(len(events) + 1)
        events[at : at + d.below(2)] = [d.pick([*events, Ping()])] if d.flag() else []
    legal = [violation for violation in validate(events) if violation.position < len(events)] == []
    writer = encoder("anthropic")
    try:
        for event in events:
            writer.encode(event)
    except LocalProtocolError:
        assert not legal
    else:
        assert legal


# 4, 5, 6: round trip and commutation; the way back is a reader that is none of our code


@given(dice())
def test_what_is_encoded_is_what_was_projected(d: Dice) -> None:
    sequencer, writer = Sequencer(), encoder("anthropic")
    events = [passed for event in make_stream(d) for passed in sequencer.push(event)]
    out = b"".join([writer.encode(event) for event in events])
    projected, losses = project(events, "anthropic")
    opaque = b"event: extra\ndata: {}\n\n"  # an unknown event of the dialect
    assert_reads_as(read(out.replace(opaque, b"")), accumulate(projected))
    assert writer.losses == losses


@each_recording
def test_transcoding_commutes_with_projecting(recording: Recording) -> None:
    events, outcome = decode([recording.body])
    out, transcoder = transcode([recording.body])
    projected, losses = project(events, "anthropic")
    got = read(out)
    assert_reads_as(got, accumulate(projected))
    assert transcoder.outcome == outcome
    assert {loss for loss in transcoder.losses if loss.feature != "held"} == set(losses)
    assert (got.error is None) == isinstance(outcome, Completed)


# 7: see test_accumulate.  What hypothesis makes there, the recordings are here.


@each_recording
def test_message_of_a_recording_survives_its_events(recording: Recording) -> None:
    message = accumulate(decode([recording.body])[0])
    assert accumulate(message_events(message)) == message


# A stream made from a message gives that message back, here and at the client.


@given(chat_streams())
def test_decoding_gives_back_what_was_sent(source: Source) -> None:
    events, outcome = decode([source.body])
    assert validate(events) == []
    assert agrees(source, events)
    assert outcome == Completed(source.messages[0].stop_reason, source.usage, source.lenient)
    assert decode([source.body], None) == (events, outcome)


@given(chat_streams())
def test_client_of_the_other_dialect_reads_what_was_sent(source: Source) -> None:
    out, transcoder = transcode(source.frames)
    assert_reads_as(read(out), accumulate(decode(source.frames)[0]))
    assert agrees(
        Source([], source.messages[:1], source.usage, ()), message_events(transcoder.message)
    )
    assert transcode(chunked(source.body, 7))[0] == out
    assert transcode([source.body])[0] == out


# 9: ordering


@given(chat_streams())
def test_client_sees_one_block_at_a_time(source: Source) -> None:
    out, _ = transcode(source.frames)
    opened = 0
    for name, index in re.findall(rb'"type":"content_block_(start|stop)","index":(\d+)', out):
        assert int(index) == opened
        opened += name == b"stop"


@each_recording
def test_sequential_recording_is_never_held_back(recording: Recording) -> None:
    """Every frame's bytes go out with the frame, unless blocks overlap."""
    events, _ = decode([recording.body])
    open_blocks = most = 0
    for event in events:
        open_blocks += isinstance(event, BlockStart) - isinstance(event, BlockStop)
        most = max(most, open_blocks)
    reader, sequencer = decoder("openai_chat"), Sequencer()
    held = 0
    for byte in chunked(recording.body, 1):
        for event in reader.feed(byte):
            sequencer.push(event)
            held = max(held, sequencer.held_bytes)
    assert (held > 0) == (most > 1)


# 14: prefixes


def terminals(body: bytes) -> list[tuple[int, bool]]:
    """Return where each payload ends, and whether every answer has finished by then."""
    finished: dict[int, bool] = {}
    ends: list[tuple[int, bool]] = []
    for found in re.finditer(rb"data: ?([^\r\n]+)", body):
        if found[1] == b"[DONE]":
            break
        for choice in json.loads(found[1]).get("choices") or ():
            done = bool(choice.get("finish_reason"))
            finished[choice["index"]] = finished.get(choice["index"], False) or done
        ends.append((found.end(), bool(finished) and all(finished.values())))
    return ends


def ends_between_events(prefix: bytes) -> bool:
    residue = re.split(rb"\n\n|\r\n\r\n", prefix)[-1].strip()
    if not residue or residue.startswith(b":"):
        return True
    try:
        return residue.startswith(b"data:") and bool(json.loads(residue[5:]))
    except ValueError:
        return False


COMPLETE = [r for r in recordings() if isinstance(decode([r.body])[1], Completed)]


@pytest.mark.parametrize("recording", COMPLETE, ids=str)
def test_no_prefix_completes_before_its_terminal_was_read(recording: Recording) -> None:
    body, ends = recording.body, terminals(recording.body)
    terminal = re.search(rb"data: ?\[DONE\]", body)
    done = len(body) + 1 if terminal is None else terminal.end()
    # Every byte towards the end, and enough of those before.
    late = max(len(body) - 1000, 0)
    for size in [*range(0, late, 7), *range(late, len(body))]:
        events, outcome = decode([body[:size]])
        finished = [finished for end, finished in ends if end <= size][-1:] == [True]
        if size >= done:
            assert isinstance(outcome, Completed)
        elif finished and ends_between_events(body[:size]):
            assert isinstance(outcome, Completed)
            assert "no_done" in outcome.lenient
        else:
            assert isinstance(outcome, Truncated)
            assert not any(isinstance(event, MessageStop) for event in events)


@given(chat_streams())
def test_no_prefix_of_frames_says_more_than_the_whole(source: Source) -> None:
    whole, _ = decode(source.frames)
    for count in range(len(source.frames)):
        reader = decoder("openai_chat")
        events = [event for frame in source.frames[:count] for event in reader.feed(frame)]
        assert events == whole[: len(events)]
        assert isinstance(events[0], MessageStart) if events else count < 2
