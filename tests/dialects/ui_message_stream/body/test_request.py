"""Bodies of `useChat`: what a page sends, as a request.

By `src/ui/convert-to-model-messages.ts` of npm `ai` 7.0.173.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.ui_message_stream.pages import (
    CAT,
    UI,
    answer_of,
    assistant,
    call,
    chat,
    file,
    messages_of,
    problem_of,
    text,
    user,
)

from streamnorm import (
    DecodeError,
    InputMessage,
    Request,
    Text,
    ToolCall,
    ToolResult,
    UnknownDialect,
    decode_message,
    decode_request,
    detect,
    encode_request,
)
from streamnorm._bodies import reader_of
from streamnorm._registry import lookup
from streamnorm.tools import decode_tools

# The body


def test_body_of_use_chat_is_a_streamed_request_without_model() -> None:
    body = chat(user(text("Hi", state="done")), messageId="m0", trigger="regenerate-message")
    request = decode_request(body, "vercel")
    assert request.messages == (InputMessage("user", (Text("Hi"),)),)
    assert (request.model, request.tools, request.stream, request.extra) == ("", (), True, None)
    assert request.source.value == body


def test_fields_of_the_application_are_lost_by_name() -> None:
    request = decode_request(chat(user(), model="page's wish", trigger="resume"), UI)
    assert request.extra == {UI: {"model": "page's wish"}}
    made = encode_request(Request(model="gpt-5", messages=request.messages), "openai_chat")
    assert made.losses == ()
    losses = encode_request(request, "openai_chat").losses
    assert [loss.feature for loss in losses] == ["model"]


def test_request_of_a_page_is_detected_and_never_written() -> None:
    body = chat(user())
    assert detect(body) == UI
    assert decode_request(body) == decode_request(body, UI)
    assert detect({"messages": [{"role": "user", "content": "Hi"}]}) is None
    assert detect({"messages": []}) is None
    with pytest.raises(UnknownDialect, match="of dialect 'ui_message_stream' only requests are r"):
        encode_request(Request(), UI)
    with pytest.raises(UnknownDialect, match="only requests are read, expected one of openai_r"):
        decode_message(body, "ai_sdk")
    assert decode_tools([], UI) == ()


@pytest.mark.parametrize(
    ("body", "problem", "path"),
    [
        ({"id": "c"}, "missing, expected an array", "$.messages"),
        (
            {"id": "c", "message": user()},
            "missing beside a single message, expected all messages of the chat",
            "$.messages",
        ),
        (chat(), "no messages, expected at least one", "$.messages"),
        ({"messages": {}}, "an object, expected an array", "$.messages"),
        ({"messages": ["Hi"]}, "a string of 2 characters, expected an object", "$.messages[0]"),
        ({**chat(user()), "id": 1}, "an integer, expected a string", "$.id"),
        ({**chat(user()), "trigger": []}, "an array, expected a string", "$.trigger"),
        ({**chat(user()), "messageId": {}}, "an object, expected a string", "$.messageId"),
        (
            chat({"role": "user", "content": "v4"}),
            "missing, expected an array",
            "$.messages[0].parts",
        ),
        (
            chat({"role": "user", "parts": None}),
            "null, expected an array",
            "$.messages[0].parts",
        ),
        (
            chat({"role": "user", "parts": []}),
            "no parts, expected at least one",
            "$.messages[0].parts",
        ),
        (
            chat({"role": "user", "parts": "x"}),
            "a string of 1 characters, expected an array",
            "$.messages[0].parts",
        ),
        (chat({"parts": []}), "missing, expected a string", "$.messages[0].role"),
        (
            chat(user(), {"role": "tool", "parts": []}),
            "another role, expected user, assistant or system",
            "$.messages[1].role",
        ),
    ],
)
def test_body_of_another_form_is_refused(body: Any, problem: str, path: str) -> None:
    assert problem_of(body) == (problem, path)


# Messages and steps


def test_texts_of_a_system_message_are_joined_without_a_separator() -> None:
    system = {"role": "system", "parts": [text("Be "), text("brief.")]}
    assert messages_of(system, user())[0] == InputMessage("system", (Text("Be brief."),))


def test_each_step_is_an_answer_and_its_results() -> None:
    assert answer_of(
        {"type": "step-start"},
        text("I look."),
        call("output-available", output={"t": 20}),
        call("output-available", "c2", output="rain"),
        {"type": "step-start"},
        text("20 degrees."),
    ) == (
        InputMessage(
            "assistant",
            (
                Text("I look."),
                ToolCall("c1", "weather", '{"a":1}'),
                ToolCall("c2", "weather", '{"a":1}'),
            ),
        ),
        InputMessage(
            "user",
            (
                ToolResult("c1", (Text('{"t":20}'),), value='{"t":20}'),
                ToolResult("c2", (Text("rain"),)),
            ),
        ),
        InputMessage("assistant", (Text("20 degrees."),)),
    )


def test_steering_message_is_a_message_of_the_user_between_two_steps() -> None:
    steering = {"type": "steering-message", "id": "s", "parts": [text("In Rome.")]}
    assert answer_of(text("One"), steering, text("Two")) == (
        InputMessage("assistant", (Text("One"),)),
        InputMessage("user", (Text("In Rome."),)),
        InputMessage("assistant", (Text("Two"),)),
    )


def test_answer_without_parts_is_no_message() -> None:
    assert answer_of() == ()
    assert answer_of({"type": "step-start"}) == ()


# Hostile pages


@pytest.mark.parametrize(
    ("part", "problem", "path"),
    [
        ("text", "a string of 4 characters, expected an object", ""),
        ({"text": "x"}, "missing, expected a string", ".type"),
        ({"type": "image"}, "unknown, expected the type of a part", ".type"),
        ({"type": "__proto__"}, "unknown, expected the type of a part", ".type"),
        ({"type": "text"}, "missing, expected a string", ".text"),
        ({"type": "text", "text": 1}, "an integer, expected a string", ".text"),
        (
            text("x", providerMetadata={"anthropic": None}),
            "null, expected an object for each provider",
            ".providerMetadata",
        ),
        (text("x", citations=[{}]), "missing, expected an object", ".citations[0].source"),
        (
            text("x", citations=[{"source": {"sourceType": "file"}}]),
            "another type, expected url or document",
            ".citations[0].source.sourceType",
        ),
        ({"type": "source-url"}, "missing, expected a string", ".sourceId"),
        (
            {"type": "steering-message", "id": "s"},
            "missing, expected an array",
            ".parts",
        ),
        (
            {"type": "steering-message", "id": "s", "parts": []},
            "no parts, expected at least one",
            ".parts",
        ),
        (
            {"type": "steering-message", "id": "s", "parts": [call("input-available")]},
            "another type of part for user, expected text or file",
            ".parts[0].type",
        ),
        (
            call("result"),
            "another state, expected one of input-streaming, input-available, approval-requested, "
            "approval-responded, output-available, output-error, output-denied",
            ".state",
        ),
        (call("input-available", ""), "a call with an empty id, expected one", ""),
        (
            {**call("input-available"), "type": "tool-"},
            "a call with an empty name, expected one",
            "",
        ),
        (
            {**call("input-available"), "type": "dynamic-tool"},
            "missing, expected a string",
            ".toolName",
        ),
        ({**call("x"), "toolCallId": 7}, "an integer, expected a string", ".toolCallId"),
        (call("output-error"), "missing, expected a string", ".errorText"),
        (call("approval-requested"), "no approval with an id, expected one", ".approval"),
        (
            call("output-denied", approval={"id": "a", "reason": 1}),
            "an integer, expected a string",
            ".approval.reason",
        ),
        (
            call("approval-responded", approval={"id": "a", "approved": "yes"}),
            "a string of 3 characters, expected a boolean",
            ".approval.approved",
        ),
        (
            call("input-available", providerExecuted="no"),
            "a string of 2 characters, expected a boolean",
            ".providerExecuted",
        ),
        (file("image/png", "blob:x"), "another scheme, expected data, http or https", ".url"),
        (
            file("image/png", "file:///etc/passwd"),
            "another scheme, expected data, http or https",
            ".url",
        ),
        (
            file("image/png", "data:x"),
            "a data URL without a comma, expected its content behind one",
            ".url",
        ),
        (
            file("image/*", f"data:;base64,{CAT}"),
            "a pattern of media types, expected the type of the file",
            ".url",
        ),
        (
            file("text/plain", "data:text/plain;base64,x"),
            "a text that is no Base64, expected Base64",
            ".url",
        ),
        (
            file("image/png", "", providerReference={"openai": 1}),
            "an integer, expected a string",
            ".providerReference",
        ),
    ],
)
def test_wrong_part_is_refused_with_its_path(part: Any, problem: str, path: str) -> None:
    found = problem_of(chat(user(), assistant(text("Hi"), part)))
    assert found == (problem, f"$.messages[1].parts[1]{path}")


@pytest.mark.parametrize("role", ["user", "system"])
def test_calls_of_another_role_than_the_assistant_are_refused(role: str) -> None:
    expected = "text" if role == "system" else "text or file"
    for part in (call("output-available", output=1), {"type": "reasoning", "text": "x"}):
        assert problem_of(chat({"role": role, "parts": [text("x"), part]})) == (
            f"another type of part for {role}, expected {expected}",
            "$.messages[0].parts[1].type",
        )


def test_deep_json_is_refused() -> None:
    part = b'{"type":"data-x","data":%b1%b}' % (b'{"a":' * 200, b"}" * 200)
    body = b'{"messages":[{"role":"user","parts":[%b]}]}' % part
    assert problem_of(body)[0].startswith("nested deeper than 128")


def test_answer_continues_the_message_of_the_assistant_that_comes_last() -> None:
    """`src/ui/get-response-ui-message-id.ts`: another id makes a second message."""
    echoed_fields = reader_of(lookup(UI)).echoed_fields
    assert echoed_fields is not None
    said = {**assistant(text("Hello")), "id": "page-7"}
    assert echoed_fields(chat(user(), said)) == {"messageId": "page-7"}
    assert echoed_fields(chat(said, user())) == {}
    assert echoed_fields(chat(user(), {**said, "id": ""})) == {}


def test_id_of_a_continued_message_is_bounded() -> None:
    long = {**assistant(text("Hello")), "id": "x" * 512}
    assert decode_request(chat(user(), long), UI).messages
    body = chat(user(), {**long, "id": "x" * 513})
    with pytest.raises(DecodeError, match="longer than 512 characters") as caught:
        decode_request(body, UI)
    assert caught.value.path == "$.messages[1].id"
