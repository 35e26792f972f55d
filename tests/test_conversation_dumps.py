"""Dumps of a conversation: encoded once, and then only what is new."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec import structs
from support.bodies.consecutive_turns import assert_prefix
from support.bodies.history_rules import PROMPTS

from streamnorm import (
    CacheMark,
    Conversation,
    EncodeError,
    InputMessage,
    Loss,
    LossyEncoding,
    Message,
    Reasoning,
    RedactedReasoning,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)
from streamnorm._registry import DIALECTS as KNOWN

DIALECTS = tuple(PROMPTS)
TURNS = 334  # of three messages
SAID = InputMessage("user", (Text("Hello"),))
TOOLS = (Tool("f", "does it", {"type": "object"}),)

# The functions of the projection and of the rooms that encode the blocks of one message.
ENCODERS = {"_project_blocks", "_message_to_wire", "_content", "items_of"}

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def grow(chat: Conversation, number: int, *, apart: bool = False) -> None:
    """Append what the user says, an answer with two calls, and their results."""
    chat.append(InputMessage("user", (Text(f"Question {number}?"),)))
    ids = (f"a{number}", f"b{number}")
    calls = tuple(ToolCall(id, "f", '{"a":1}') for id in ids)
    answer = (Text("Let me see."), *calls)
    chat.append(Message("m", "m", answer, "tool_use"), dialect=DIALECTS[number % len(DIALECTS)])
    for id in reversed(ids):
        if apart:
            result = ToolResult(id, (Text("result"),), is_error=id.startswith("b"))
            chat.append(InputMessage("user", (result,)))
        else:
            chat.append_tool_result(id, "result", is_error=id.startswith("b"))


def long_conversation(*, apart: bool = False) -> Conversation:
    chat = Conversation(Request(model="some-model", tools=TOOLS, max_tokens=100))
    for number in range(TURNS):
        grow(chat, number, apart=apart)
    return chat


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """Return how often each function that encodes a message is called."""
    found: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code.co_name in ENCODERS:
            found[frame.f_code.co_name] += 1

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


@each_dialect
@pytest.mark.parametrize("apart", [False, True])
def test_one_more_turn_encodes_its_own_messages_alone(dialect: str, apart: bool) -> None:
    chat = long_conversation(apart=apart)
    assert len(chat.messages) > 1000
    first = calls_of(lambda: chat.dump(dialect))
    assert all(count > 1000 for count in first.values())
    assert len(first) == 2  # the projection, and the room
    before = chat.dump(dialect)
    grow(chat, TURNS)
    assert all(count <= 5 for count in calls_of(lambda: chat.dump(dialect)).values())
    after, prompt = chat.dump(dialect), PROMPTS[dialect]
    assert len(after.body[prompt]) > len(before.body[prompt])
    written = zip(before.body[prompt], after.body[prompt], strict=False)
    # Converse has messages of one role as one, which is made anew.
    assert dialect == "bedrock_converse" or all(one is other for one, other in written)
    assert_prefix(before, after, dialect)
    assert after == encode_request(chat.request, dialect)


@each_dialect
def test_a_dump_is_cached_until_the_history_changes(dialect: str) -> None:
    chat = long_conversation()
    made = chat.dump(dialect)
    assert calls_of(lambda: chat.dump(dialect)) == {}
    assert chat.dump(dialect) is made
    assert chat.dump(dialect, server="groq") is not made
    assert chat.dump(dialect) is made
    chat.append(SAID)
    assert chat.dump(dialect) is not made
    assert_prefix(made, chat.dump(dialect), dialect)


def test_each_result_changes_the_history() -> None:
    chat = Conversation(Request(model="m", messages=(SAID,)))
    chat.append(Message("m", "m", (ToolCall("a", "f"), ToolCall("b", "f")), "tool_use"))
    chat.append_tool_result("b", "two")
    with pytest.raises(EncodeError, match="call without a result"):
        chat.dump("anthropic")
    chat.append_tool_result("a", "one")
    made = chat.dump("anthropic")
    assert made == encode_request(chat.request, "anthropic")


def filled() -> Conversation:
    """Return a conversation of which a dump has filled in the result of the call `a`."""
    chat = Conversation(Request(model="m", messages=(SAID,), max_tokens=5))
    chat.append(Message("m", "m", (ToolCall("a", "f"), ToolCall("b", "f")), "tool_use"))
    chat.append_tool_result("b", "two")
    chat.dump("openai_chat", repair="fill")
    return chat


def results_in(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the results and the user's texts behind the calls, in a body of Chat."""
    return [
        (message["role"], message.get("tool_call_id"), message.get("content"))
        for message in body["messages"][2:]
    ]


FILLED = ("tool", "a", "<tool_error>No result was recorded for this tool call.</tool_error>")
SECOND = ("tool", "b", "two")


def late(id: str, text: str) -> tuple[Any, ...]:
    parts = [f"[result of tool call {id}]", text]
    return ("user", None, [{"type": "text", "text": part} for part in parts])


def test_a_result_that_was_filled_in_comes_late() -> None:
    chat = filled()
    before = chat.dump("openai_chat", repair="fill")
    assert results_in(before.body) == [FILLED, SECOND]
    chat.append_tool_result("a", "one")
    made = chat.dump("openai_chat", repair="fill")
    assert results_in(made.body) == [FILLED, SECOND, late("a", "one")]
    assert_prefix(before, made, "openai_chat")
    assert {(loss.feature, loss.detail) for loss in made.losses} == {
        ("is_error", "written as <tool_error> around the text"),
        ("late_result", "written as user content"),
        ("result_filled", "written as an error"),
    }


def test_a_result_that_was_filled_in_is_filled_in_for_every_target() -> None:
    chat = filled()
    chat.append_tool_result("a", "one")
    made = chat.dump("anthropic", repair="fill")
    assert "late_result" in {loss.feature for loss in made.losses}
    results, text = made.body["messages"][2:]
    assert [block["tool_use_id"] for block in results["content"]] == ["a", "b"]
    assert text["content"][-1] == {"type": "text", "text": "one"}


def test_nothing_is_filled_in_where_it_would_be_an_error() -> None:
    chat = filled()
    chat.append_tool_result("a", "one")
    made = chat.dump("openai_chat")
    assert results_in(made.body) == [SECOND, ("tool", "a", "one")]
    assert made == encode_request(chat.request, "openai_chat")


def test_results_that_come_late_stay_in_the_order_in_which_they_came() -> None:
    chat = Conversation(Request(model="m", messages=(SAID,)))
    chat.append(Message("m", "m", (ToolCall("a", "f"), ToolCall("b", "f")), "tool_use"))
    chat.dump("openai_chat", repair="fill")
    chat.append_tool_result("b", "two")
    before = chat.dump("openai_chat", repair="fill")
    chat.append_tool_result("a", "one")
    made = chat.dump("openai_chat", repair="fill")
    assert results_in(made.body)[2:] == [late("b", "two"), late("a", "one")]
    assert_prefix(before, made, "openai_chat")


def answered() -> Conversation:
    """Return a conversation that went on without the result of the call `a`."""
    chat = filled()
    chat.append(Message("m", "m", (Text("I go on."),), "end_turn"))
    return chat


@each_dialect
@pytest.mark.parametrize("as_message", [False, True])
def test_a_result_that_was_filled_in_comes_after_the_next_answer(
    dialect: str, as_message: bool
) -> None:
    chat = answered()
    before = chat.dump(dialect, repair="fill")
    if as_message:
        chat.append(InputMessage("user", (ToolResult("a", (Text("one"),)),)))
    else:
        chat.append_tool_result("a", "one")
    made = chat.dump(dialect, repair="fill")
    assert_prefix(before, made, dialect)
    assert Loss("late_result", "messages", 1, "written as user content") in made.losses
    again = Conversation.from_json(chat.to_json())
    assert again == chat
    assert again.dump(dialect, repair="fill") == made


@each_dialect
def test_answer_to_results_that_were_all_filled_in_comes_behind_them(dialect: str) -> None:
    chat = Conversation(Request(model="m", messages=(SAID,), max_tokens=5))
    chat.append(Message("m", "m", (ToolCall("a", "f"),), "tool_use"))
    asked = chat.dump(dialect, repair="fill")
    for _ in range(2):  # as an agent may that its provider has paused
        chat.append(Message("m", "m", (Text("I go on."),), "end_turn"))
        assert chat.open_tool_calls() == ()
        assert_prefix(asked, chat.dump(dialect, repair="fill"), dialect)
    before = chat.dump(dialect, repair="fill")
    chat.append_tool_result("a", "one")
    made = chat.dump(dialect, repair="fill")
    assert_prefix(before, made, dialect)
    assert Loss("late_result", "messages", 1, "written as user content") in made.losses
    again = Conversation.from_json(chat.to_json())
    assert again == chat
    assert again.dump(dialect, repair="fill") == made


@each_dialect
def test_a_turn_of_several_messages_is_filled_in_at_its_end(dialect: str) -> None:
    chat = Conversation(Request(model="m", messages=(SAID,), max_tokens=5))
    chat.append(Message("m", "m", (ToolCall("a", "f"),), "tool_use"))
    chat.append(Message("m", "m", (ToolCall("b", "f"),), "tool_use"))
    assert [call.id for call in chat.open_tool_calls()] == ["a", "b"]
    asked = chat.dump(dialect, repair="fill")
    chat.append(Message("m", "m", (Text("I go on."),), "end_turn"))
    answered = chat.dump(dialect, repair="fill")
    assert_prefix(asked, answered, dialect)
    for id in ("a", "b"):
        chat.append_tool_result(id, "one")
    made = chat.dump(dialect, repair="fill")
    assert_prefix(answered, made, dialect)
    again = Conversation.from_json(chat.to_json())
    assert again == chat
    assert again.dump(dialect, repair="fill") == made


def test_late_result_is_the_user_s_last_message() -> None:
    chat = answered()
    chat.append_tool_result("a", "one")
    made = chat.dump("openai_chat", repair="fill")
    assert results_in(made.body)[2:] == [("assistant", None, "I go on."), late("a", "one")]
    with pytest.raises(EncodeError, match="call without a result"):
        chat.dump("openai_chat")


def test_late_result_is_one() -> None:
    chat = answered()
    chat.append_tool_result("a", "one")
    for id in ("a", "b"):
        with pytest.raises(EncodeError, match="after the next assistant message"):
            chat.append_tool_result(id, "two")


def test_late_result_of_an_id_that_a_later_call_has_is_that_call_s() -> None:
    chat = filled()
    chat.append(SAID)
    chat.append(Message("m", "m", (ToolCall("a", "f"),), "tool_use"))
    chat.append_tool_result("a", "one")
    made = chat.dump("openai_chat", repair="fill")
    assert results_in(made.body)[-1] == ("tool", "a", "one")
    with pytest.raises(EncodeError, match="second result"):
        chat.append_tool_result("a", "two")


def test_result_of_a_call_that_was_not_filled_in_is_not_late() -> None:
    chat = Conversation(Request(model="m", messages=(SAID,)))
    chat.append(Message("m", "m", (ToolCall("a", "f"),), "tool_use"))
    chat.append(SAID)
    chat.append(Message("m", "m", (Text("I go on."),), "end_turn"))
    with pytest.raises(EncodeError, match="after the next assistant message"):
        chat.append_tool_result("a", "one")


def test_an_id_that_a_later_call_has_is_not_filled_in() -> None:
    chat = Conversation(Request(model="m", messages=(SAID,)))
    chat.append(Message("m", "m", (ToolCall("a", "f"),), "tool_use"))
    chat.dump("openai_chat", repair="fill")
    chat.append(SAID)
    chat.append(Message("m", "m", (ToolCall("a", "f"),), "tool_use"))
    chat.append_tool_result("a", "one")
    made = chat.dump("openai_chat", repair="fill")
    assert results_in(made.body)[-1] == ("tool", "a", "one")
    assert "late_result" not in {loss.feature for loss in made.losses}


@each_dialect
def test_what_was_filled_in_survives_json(dialect: str) -> None:
    chat = filled()
    again = Conversation.from_json(chat.to_json())
    assert again == chat
    for each in (chat, again):
        each.append_tool_result("a", "one")
    assert again.dump(dialect, repair="fill") == chat.dump(dialect, repair="fill")
    assert "late_result" in {loss.feature for loss in again.dump(dialect, repair="fill").losses}


def test_what_is_not_written_anew_is_not_filled_in() -> None:
    """A provider that has the conversation may have the result, too."""
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    body = {"model": "m", "input": [call], "previous_response_id": "resp_1"}
    chat = Conversation(decode_request(body, "openai_responses"))
    assert chat.dump("openai_responses", repair="fill").body == body
    chat.append_tool_result("a", "one")
    assert chat == Conversation.from_json(chat.to_json())
    losses = chat.dump("openai_responses", repair="fill").losses
    assert "late_result" not in {loss.feature for loss in losses}


def test_a_failed_dump_forgets_nothing() -> None:
    chat = long_conversation()
    chat.dump("anthropic")
    chat.append(Message("m", "m", (ToolCall("c", "f"),), "tool_use"))
    with pytest.raises(EncodeError):
        chat.dump("anthropic")
    chat.append_tool_result("c", "ok")
    assert max(calls_of(lambda: chat.dump("anthropic")).values()) <= 5


@each_dialect
def test_losses_are_counted_at_each_dump(dialect: str) -> None:
    chat = Conversation(Request(model="some-model", max_tokens=5))
    for number in range(3):
        chat.append(InputMessage("user", (Text("a", extra={"other": {"odd": 1}}),), "ann"))
        grow(chat, number)
        assert chat.dump(dialect).losses == encode_request(chat.request, dialect).losses
        losses = {loss.feature: loss.count for loss in chat.dump(dialect).losses}
        assert losses["odd"] == number + 1


def test_a_strict_dump_raises_for_a_loss_of_an_old_message() -> None:
    chat = Conversation(Request(model="m", max_tokens=5))
    chat.append(InputMessage("user", (Text("a", extra={"other": {"odd": 1}}),)))
    chat.dump("anthropic")
    with pytest.raises(LossyEncoding, match="odd in messages would be lost"):
        chat.dump("anthropic", strict=True)


def test_a_mark_stands_at_the_end_of_the_history() -> None:
    chat = Conversation(Request(model="m", max_tokens=5))
    assert chat.request == chat._build_request(None, CacheMark())
    for number in range(3):
        grow(chat, number)
        marked = chat.dump("anthropic", cache=CacheMark("1h"))
        *others, last = marked.body["messages"]
        assert last["content"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
        assert others == chat.dump("anthropic").body["messages"][:-1]
        assert "cache_control" not in str(chat.dump("anthropic").body)
        assert "cache_control" not in str(others)
    chat.append(InputMessage("assistant"))
    assert "cache_control" not in str(chat.dump("anthropic", cache=CacheMark()).body)


def test_the_model_of_the_next_provider_is_named() -> None:
    chat = Conversation(Request(model="claude-sonnet-5", messages=(SAID,)))
    assert chat.dump("anthropic").body["model"] == "claude-sonnet-5"
    assert chat.dump("anthropic", model="claude-sonnet-5") == chat.dump("anthropic")
    assert chat.dump("chat", model="gpt-5").body["model"] == "gpt-5"
    assert "gemini-3-pro" in chat.dump("gemini", model="gemini-3-pro").path
    assert chat.request.model == "claude-sonnet-5"


def test_an_alias_is_the_same_target() -> None:
    chat = Conversation(Request(model="m", messages=(SAID,)))
    assert chat.dump("claude") is chat.dump("anthropic")


def test_few_targets_are_stored_at_once() -> None:
    chat = Conversation(Request(model="m", messages=(SAID,)))
    first = chat.dump("anthropic")
    for number in range(20):
        assert chat.dump("anthropic", model=f"m{number}").body["model"] == f"m{number}"
    assert len(chat._memos) == len(chat._dumps) == 8
    assert chat.dump("anthropic") == first


@each_dialect
def test_the_same_message_twice_is_written_twice(dialect: str) -> None:
    chat = Conversation(Request(model="m", max_tokens=5))
    answer = InputMessage("assistant", (Text("Hi", extra={dialect: {"odd": 1}}),))
    for _ in range(3):
        chat.append(SAID)
        chat.append(answer)
        chat.append(SAID)
        made = chat.dump(dialect)
        assert made == encode_request(chat.request, dialect)


@each_dialect
def test_a_conversation_of_a_client_is_written_as_it_was(dialect: str) -> None:
    body = encode_request(Request(model="m", messages=(SAID,), max_tokens=5), dialect).body
    chat = Conversation(decode_request(body, dialect))
    for number in range(3):
        grow(chat, number)
        made = chat.dump(dialect)
        assert made == encode_request(chat.request, dialect)
        first, said = made.body[PROMPTS[dialect]][0], body[PROMPTS[dialect]][0]
        if dialect == "bedrock_converse":  # the next message of the user is joined to it
            first, said = first["content"][0], said["content"][0]
        assert first is said


def test_every_dialect_with_requests_is_tested() -> None:
    assert set(DIALECTS) == {name for name, known in KNOWN.items() if known.codec is not None}


def test_results_apart_are_legal_where_they_must_be_one_message() -> None:
    chat = long_conversation(apart=True)
    assert len(chat.dump("anthropic").body["messages"]) == 3 * TURNS
    assert structs.replace(chat.dump("anthropic"), losses=()) == structs.replace(
        encode_request(chat.request, "anthropic"), losses=()
    )


@each_dialect
@pytest.mark.parametrize("source", [None, *DIALECTS])
def test_an_id_that_comes_again_is_written_as_in_one_request(
    dialect: str, source: str | None
) -> None:
    chat = Conversation(Request(model="m", max_tokens=5, tools=TOOLS))
    for _ in range(4):
        chat.append(SAID)
        calls = (ToolCall("call_0", "f"), ToolCall("call:1", "f"))
        chat.append(Message("m", "m", calls, "tool_use"), dialect=source)
        for call in chat.open_tool_calls():
            chat.append_tool_result(call.id, "ok")
        assert chat.dump(dialect) == encode_request(chat.request, dialect)
    ids = [
        call.id for call in decode_request(chat.dump(dialect).body, dialect).messages[1].tool_calls
    ]
    assert ids == ["call_0", "call:1"]


@each_dialect
def test_a_client_may_repeat_an_id(dialect: str) -> None:
    body = encode_request(Request(model="m", messages=(SAID,), max_tokens=5), dialect).body
    chat = Conversation(decode_request(body, dialect))
    for _ in range(3):
        chat.append(Message("m", "m", (ToolCall("call_0", "f"),), "tool_use"), dialect=dialect)
        chat.append_tool_result("call_0", "ok")
        for _ in range(2):
            assert chat.dump(dialect) == encode_request(chat.request, dialect)
            chat.append(SAID)


@pytest.mark.parametrize(
    ("dialect", "blocks"),
    [("anthropic", ()), ("anthropic", (Text("\n"),)), ("gemini", ())],
)
def test_an_empty_answer_does_not_come_back_to_its_vendor(
    dialect: str, blocks: tuple[Text, ...]
) -> None:
    chat = Conversation(Request(model="m", messages=(SAID,)))
    chat.append(Message("m", "m", blocks, "end_turn"), dialect=dialect)
    chat.append(SAID)
    said = chat.dump(dialect).body[PROMPTS[dialect]]
    assert [message["role"] for message in said] == ["user", "user"]


def test_reasoning_that_another_server_of_the_dialect_signed_is_dropped() -> None:
    """Anthropic answers 400 to a signature that is not its own (bodies.md, 2.4)."""
    chat = Conversation(Request(model="m", messages=(SAID,)))
    blocks = (Reasoning(("Hm.",), "uuid", "kimi"), RedactedReasoning("x", "kimi"), Text("Hi"))
    chat.append(Message("m", "m", blocks, "end_turn"), dialect="anthropic")
    chat.append(SAID)
    made = chat.dump("anthropic")
    assert made.body["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert ("reasoning_dropped", 2) in [(loss.feature, loss.count) for loss in made.losses]
    kept = chat.dump("anthropic", server="kimi").body["messages"][1]["content"]
    assert kept == [
        {"type": "thinking", "thinking": "Hm.", "signature": "uuid"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Hi"},
    ]
