"""The laws of conversations: one history, whatever it was appended as and wherever it goes."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import assume, given
from msgspec import structs
from support.bodies.checks import BODIES
from support.bodies.consecutive_turns import assert_prefix
from support.bodies.history_rules import broken_rules
from support.bodies.request_strategies import conversation, make_request
from support.bodies.samples import make_source
from support.bodies.sdk_types import problems
from support.draws import Draws, draws, with_half_the_examples
from support.streams.chunkings import cut_at_random
from support.streams.content import PROVIDERS, decode, encode
from support.streams.corpus import each_recording_of

from streamnorm import (
    CacheMark,
    Completed,
    Conversation,
    Encoded,
    EncodeError,
    InputMessage,
    Refusal,
    Request,
    Text,
    Tool,
    ToolCall,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
    message_events,
)
from streamnorm._registry import framing_of
from streamnorm.codec import SSE
from streamnorm.recording import Recording

ROUTES = [
    *permutations(PROVIDERS[:-2], 3),
    ("anthropic", "gemini_interactions", "openai_chat"),
    ("gemini_interactions", "gemini", "gemini_interactions"),
    ("openai_responses", "gemini_interactions", "gemini"),
    ("anthropic", "openai_chat", "bedrock_converse"),
    ("openai_responses", "bedrock_converse", "gemini"),
    ("bedrock_converse", "anthropic", "openai_responses"),
    ("gemini", "bedrock_converse", "anthropic"),
    ("bedrock_converse", "openai_chat", "bedrock_converse"),
]
GREETING = InputMessage("user", (Text("Hello"),))


def begun(**fields: object) -> Conversation:
    chat = Conversation(Request(model="some-model", **fields))
    chat.append(GREETING)
    return chat


def answered(chat: Conversation) -> None:
    """Append the results of all open calls, in another order, and what the user says."""
    for number, call in enumerate(reversed(chat.open_tool_calls())):
        chat.append_tool_result(call.id, f"result {number}", is_error=number == 1)
    chat.append(InputMessage("user", (Text("Go on."),)))


def dumped(chat: Conversation, dialect: str) -> Encoded | None:
    try:
        return chat.dump(dialect, repair="fill", arguments="raw")
    except EncodeError:
        return None


@each_recording_of(*PROVIDERS)
def test_a_stream_its_events_and_its_message_make_the_same_history(recording: Recording) -> None:
    if not isinstance(recording.outcome, Completed):
        return
    dialect, server = str(recording.dialect), recording.server
    chats = [begun() for _ in range(5)]
    with chats[0].append_stream(dialect=dialect, server=server) as answer:
        for chunk in cut_at_random(recording.body, recording.name):
            answer.feed(chunk)
            assert chats[0] == begun()
    # A framing is never guessed: messages are read where their dialect is named.
    named = None if framing_of(dialect) is SSE else dialect
    with chats[1].append_stream(dialect=named, server=server) as answer:  # detected
        answer.feed(recording.body)
    with chats[2].append_stream(dialect=dialect) as answer:
        for event in recording.events():
            answer.push(event)
    chats[3].append(recording.message(), dialect=dialect)
    with chats[4].append_stream(dialect=dialect, server=server) as answer:
        for number in range(0, len(recording.body), 7):
            answer.feed(recording.body[number : number + 7])
    assert all(chat == chats[0] for chat in chats)
    assert len(chats[0].messages) == 2


@each_recording_of(*PROVIDERS)
def test_a_whole_body_makes_the_history_of_its_stream(recording: Recording) -> None:
    if not isinstance(recording.outcome, Completed):
        return
    dialect = str(recording.dialect)
    try:
        body = encode_message(recording.message(), dialect).body
    except EncodeError:  # arguments that are no JSON
        return
    by_body, by_stream = begun(), begun()
    by_body.append(json.dumps(body), dialect=dialect)
    out, _ = encode(message_events(decode_message(body, dialect)), dialect, extras=True)
    with by_stream.append_stream(dialect=dialect) as answer:
        answer.feed(out)
    for target in PROVIDERS:
        made = [dumped(chat, target) for chat in (by_body, by_stream)]
        assert [m and m.body for m in made] == [made[0] and made[0].body] * 2


@pytest.mark.parametrize("source", PROVIDERS)
@given(d=draws(250))
def test_json_has_the_whole_history(source: str, d: Draws) -> None:
    chat = made_conversation(d, source)
    again = Conversation.from_json(chat.to_json())
    assert again == chat
    assert again.to_json() == chat.to_json()
    assert again.open_tool_calls() == chat.open_tool_calls()
    for target in BODIES:
        made, remade = dumped(chat, target), dumped(again, target)
        assert (made is None) is (remade is None)
        if made is not None and remade is not None:
            assert json.dumps(remade.body) == json.dumps(made.body)
            assert structs.replace(remade, body={}) == structs.replace(made, body={})


@pytest.mark.parametrize("source", PROVIDERS)
@with_half_the_examples
@given(d=draws(250))
def test_a_dump_is_the_encoding_of_the_request(source: str, d: Draws) -> None:
    chat = made_conversation(d, source)
    answered(chat)  # `encode_request` forgets what it has filled in
    for _ in range(3):
        for target in BODIES:
            made = dumped(chat, target)
            try:
                expected = encode_request(chat.request, target, repair="fill", arguments="raw")
            except EncodeError:
                assert made is None
                continue
            assert made == expected
            assert json.dumps(made.body) == json.dumps(expected.body)
        append_answer(chat, d, d.pick(PROVIDERS))
        answered(chat)


@pytest.mark.parametrize("target", PROVIDERS)
@given(d=draws(250))
def test_a_growing_history_begins_with_the_shorter_one(target: str, d: Draws) -> None:
    chat = made_conversation(d, d.pick(PROVIDERS))
    answered(chat)
    before = dumped(chat, target)
    for _ in range(3):
        append_answer(chat, d, d.pick(PROVIDERS))
        last = chat.messages[-1]
        if last.role == "assistant" and not (last.text.strip() or last.tool_calls):
            # An answer of which nothing is left would not part the messages around it.
            chat.append(InputMessage("assistant", (Text("So."),)))
        answered(chat)
        after = dumped(chat, target)
        if before is not None and after is not None:
            assert_prefix(before, after, target)
        before = after


@pytest.mark.parametrize("route", ROUTES, ids="-".join)
@with_half_the_examples
@given(d=draws(250))
def test_a_history_of_two_providers_is_legal_for_the_third(
    route: tuple[str, str, str], d: Draws
) -> None:
    names = ("f", "get_weather", "apply_patch", "search")
    tools = tuple(Tool(name, "does it", {"type": "object"}) for name in names)
    chat = begun(tools=tools, max_tokens=1000)
    for dialect in route:
        cache = CacheMark() if d.flag() else None
        try:
            made = chat.dump(dialect, arguments="raw", cache=cache)
        except EncodeError as exc:
            if "a compaction that only its provider reads" not in str(exc):
                raise
            return
        assert broken_rules(dialect, made.body) == []
        assert problems(dialect, made.body, beta="anthropic-beta" in made.headers) == []
        if not append_answer(chat, d, dialect):
            return
        answered(chat)


def append_answer(chat: Conversation, d: Draws, dialect: str) -> bool:
    """Append a generated answer of a dialect, or a message that it makes; some have none."""
    source = make_source(d, dialect)
    decoded = decode([source.body], dialect)
    if not isinstance(decoded.outcome, Completed):
        return False
    try:
        with chat.append_stream(dialect=dialect) as answer:
            answer.feed(source.body)
    except EncodeError:  # two calls of one id
        return False
    return True


def made_conversation(d: Draws, dialect: str) -> Conversation:
    """Return a conversation that begins with a request, decoded from a dialect or made."""
    request = make_request(d, conversation(d)[: 1 + d.below(3)])
    if d.flag():
        try:
            made = encode_request(request, dialect)
        except EncodeError:
            assume(False)
        request = decode_request(made.body, dialect, path=made.path, headers=made.headers)
        if d.flag(3):
            request = structs.replace(request, model="another", system=(Text("Else."),))
        if d.flag(3):
            request = structs.replace(request, messages=request.messages[:-1])
    chat = Conversation(request)
    if d.flag():
        append_answer(chat, d, d.pick(PROVIDERS))
    if d.flag():
        answered(chat)
    return chat


@pytest.mark.parametrize("target", PROVIDERS)
@given(d=draws(250))
def test_a_history_begins_with_one_whose_results_were_filled_in(target: str, d: Draws) -> None:
    chat = made_conversation(d, d.pick(PROVIDERS))
    late: tuple[ToolCall, ...] = ()
    for _ in range(3):
        append_answer(chat, d, d.pick(PROVIDERS))
        last = chat.messages[-1]
        # Some refuse an answer without a text, or with white space at its end, as the last message.
        end = last.blocks[-1] if last.blocks else None
        text = end.text if isinstance(end, Refusal | Text) else ""
        if last.role == "assistant" and not (text[-1:].strip() or last.tool_calls):
            chat.append(InputMessage("assistant", (Text("So."),)))
        before = dumped(chat, target)
        calls, waiting = chat.open_tool_calls(), late
        late = calls[: d.below(len(calls) + 1)] if before is not None else ()
        if {call.id for call in waiting} & {call.id for call in calls}:
            waiting = ()  # their ids are those of other calls now
        for call in d.shuffled([*calls[len(late) :], *waiting]):
            chat.append_tool_result(call.id, f"result of {call.name}")
            after = dumped(Conversation.from_json(chat.to_json()) if d.flag() else chat, target)
            if before is not None and after is not None:
                assert_prefix(before, after, target)
            before = after
        chat.append(InputMessage("user", (Text("Go on."),)))
