"""A finish reason that content follows, and calls that are unfinished at the end."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import (
    DONE,
    call,
    calls,
    chunk,
    content,
    decode,
    detail,
    frame,
    reasoning,
)

from streamnorm import Completed, MessageStop, Note, Truncated, Usage
from streamnorm.codec import decoder

STOPPED = content("a", "stop")
CALLED = calls(call(0, "x", "f", '{"a":1}'), finish="tool_calls")
HALF = '{"path":'
CONTENT = {
    "text": content("b"),
    "reasoning": reasoning("b"),
    "refusal": chunk({"refusal": "b"}),
    "call": calls(call(7, "y", "g")),
    "half a call": calls(call(7, "y", "delete", HALF)),
    "audio": chunk({"audio": {"data": "b"}}),
    "part": chunk({"content": [{"type": "new"}]}),
}
NO_CONTENT = {
    "usage": frame({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 1}}),
    "usage beside an empty choice": chunk({"content": ""}, usage={"prompt_tokens": 1}),
    "encrypted reasoning": detail(type="reasoning.encrypted", data="e"),
    "role": chunk({"role": "assistant", "content": None, "tool_calls": []}),
    "annotation": chunk({"annotations": [{"type": "url_citation", "url": "u"}]}),
    "logprobs": frame(
        {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "logprobs": {"a": 1}}]}
    ),
}


@pytest.mark.parametrize("after", CONTENT.values(), ids=CONTENT)
def test_stream_that_ends_after_content_after_its_finish_is_cut(after: bytes) -> None:
    assert isinstance(decode(STOPPED, after).outcome, Truncated)
    assert isinstance(decode(CALLED, after, after[:-1]).outcome, Truncated)


@pytest.mark.parametrize("after", CONTENT.values(), ids=CONTENT)
def test_finish_that_follows_the_content_or_done_completes(after: bytes) -> None:
    for end, lenient in ((DONE, ("no_finish",)), (chunk({}, "stop"), ("no_done",))):
        outcome = decode(STOPPED, after, end).outcome
        assert isinstance(outcome, Completed)
        assert outcome.lenient == lenient


@pytest.mark.parametrize("after", NO_CONTENT.values(), ids=NO_CONTENT)
def test_finish_stands_where_no_content_follows(after: bytes) -> None:
    for finished in (STOPPED, CALLED):
        assert isinstance(decode(finished, after).outcome, Completed)


def test_repetition_is_no_content() -> None:
    again = calls(call(0, "x", "f", '{"a":1}'))
    assert isinstance(decode(CALLED, again, calls(call(0, arguments=" "))).outcome, Completed)


def test_arguments_after_the_finish_revoke_it() -> None:
    half = calls(call(0, "x", "f", HALF), finish="tool_calls")
    for more in ('"', "{}", " ", "\u2028"):
        assert isinstance(decode(half, calls(call(0, arguments=more))).outcome, Truncated)
    placeholder = calls(call(0, "x", "f"), finish="tool_calls")
    assert isinstance(decode(placeholder, calls(call(0, arguments="{}"))).outcome, Truncated)


def test_name_after_the_finish_revokes_it() -> None:
    """The call that it begins was not known when the server stated the finish."""
    nameless = calls(call(0, "x", arguments='{"a":1}'), finish="tool_calls")
    named = calls(call(0, name="f"))
    assert isinstance(decode(nameless, named).outcome, Truncated)
    assert isinstance(decode(nameless, named, chunk({}, "tool_calls")).outcome, Completed)


def test_signature_alone_does_not_revoke_a_finish() -> None:
    signed = {"google": {"thought_signature": "s"}}
    after = (detail(type="reasoning.text", signature="s"), calls(call(0, extra_content=signed)))
    for piece in after:
        assert isinstance(decode(CALLED, piece).outcome, Completed)


def test_content_revokes_the_finish_of_its_own_choice() -> None:
    finishes = [content("a", "stop"), content("a", "stop", 1)]
    assert isinstance(decode(*finishes, content("b", choice=1)).outcome, Truncated)
    assert isinstance(decode(*finishes, content("b", "stop", 1)).outcome, Completed)


def test_delta_run_goes_on_after_a_finish_was_revoked() -> None:
    reader = decoder("openai_chat")
    for piece in (content("a"), content("b"), STOPPED, content("c"), content("d"), content("e")):
        reader.feed(piece)
    reader.close()
    assert isinstance(reader.outcome, Truncated)


def test_unfinished_arguments_are_noted_and_the_reason_is_kept() -> None:
    frames = [calls(call(0, "x", "f", HALF), call(1, "y", "g", "{"), call(2, "z", "h", "{}"))]
    decoded = decode(*frames, chunk({}, "tool_calls"), DONE)
    assert decoded.notes == (Note("unfinished_arguments", "tool call", 2),)
    assert decoded.events[-1] == MessageStop("tool_use", "tool_calls")
    assert decoded.outcome == Completed("tool_use", Usage())


@pytest.mark.parametrize("whole", ["", "{}", '{"a":1}', " [1] ", "null", "12", "true", '"a"'])
def test_whole_arguments_are_not_noted(whole: str) -> None:
    assert decode(calls(call(0, "x", "f", whole)), chunk({}, "tool_calls"), DONE).notes == ()


@pytest.mark.parametrize("half", [" ", '{"a":1}}', '{"a":1} x', "nul", '"', "{}{"])
def test_broken_arguments_are_noted(half: str) -> None:
    for pieces in ([half], list(half)):
        frames = [calls(call(0, "x", "f")), *(calls(call(0, arguments=p)) for p in pieces)]
        decoded = decode(*frames, chunk({}, "tool_calls"), DONE)
        broken = decoded.notes[-1:] == (Note("unfinished_arguments", "tool call"),)
        assert broken or not isinstance(decoded.outcome, Completed)


def test_arguments_that_go_on_after_they_were_complete_are_noted() -> None:
    """The completeness that a later block asked for does not outlive the next fragment."""
    frames = [calls(call(None, "x", "f", '["a"]')), calls(call(None, "x", None, "]"))]
    assert decode(*frames, chunk({}, "tool_calls"), DONE).notes == (
        Note("unfinished_arguments", "tool call"),
    )


def test_input_of_a_custom_tool_is_never_unfinished() -> None:
    custom = {"index": 0, "id": "x", "type": "custom", "custom": {"name": "f", "input": "{"}}
    assert decode(calls(custom), chunk({}, "tool_calls"), DONE).notes == ()


def test_call_after_the_last_finish_may_be_half_of_one() -> None:
    for arguments in (None, HALF):
        frames = [STOPPED, calls(call(0, "y", "delete", arguments)), DONE]
        assert decode(*frames).events[-1] == MessageStop("other", "stop")
    frames = [STOPPED, calls(call(0, "y", "list", "{}")), DONE]
    assert decode(*frames).events[-1] == MessageStop("tool_use", "stop")


def test_message_whose_choices_have_finished_lacks_only_its_terminal() -> None:
    reader = decoder("openai_chat")
    assert not reader.lacks_only_terminal
    for data, lacks_only_terminal in [
        (content("a"), False),
        (content("b", choice=1), False),
        (chunk({}, "stop"), False),
        (content("", "stop", choice=1), True),
        (NO_CONTENT["usage"], True),
        (content("c"), False),  # revokes the finish
        (chunk({}, "stop"), True),
    ]:
        reader.feed(data)
        assert reader.lacks_only_terminal is lacks_only_terminal
