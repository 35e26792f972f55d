"""Messages and system prompts, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.anthropic.bodies import Body, asked, parts_of, read, rewritten, write

from streamnorm import (
    CacheMark,
    DecodeError,
    InputMessage,
    Reasoning,
    Request,
    Text,
    ToolCall,
    ToolResult,
    encode_request,
)
from streamnorm._core.codec import ReadContext
from streamnorm.dialects.anthropic.body.request import read_request

MARKED: Body = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
CLEARED: Body = {
    "role": "system",
    "content": "In French now.",
    "clear_at": "next_user_message",
    "output_config": {"effort": "low"},
}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "Hi"}, InputMessage("user", (Text("Hi"),))),
        (
            {"role": "user", "content": [MARKED]},
            InputMessage("user", (Text("Hi", cache=CacheMark()),)),
        ),
        (
            CLEARED,
            InputMessage(
                "system",
                (Text("In French now."),),
                extra={
                    "anthropic": {
                        "clear_at": "next_user_message",
                        "output_config": {"effort": "low"},
                    }
                },
            ),
        ),
    ],
)
def test_message_is_read_and_written_again(message: Body, expected: InputMessage) -> None:
    (found,) = read(messages=[message]).messages
    assert structs.replace(found, source=None) == expected
    assert rewritten(messages=[message])["messages"] == [message]


@pytest.mark.parametrize("blocks", [(), (Text(""),), (Text(" \n"),), (Text(""), Text(" "))])
def test_an_answer_of_nothing_is_not_written(blocks: tuple[Text, ...]) -> None:
    """Anthropic refuses empty content and blank text (bodies.md, section 4, rule 6)."""
    asks = InputMessage("user", (Text("Hi"),))
    wrote = write(Request(messages=(asks, InputMessage("assistant", blocks), asks)))
    assert wrote.body["messages"] == [{"role": "user", "content": "Hi"}] * 2
    assert wrote.losses == [("empty_message_dropped", "nothing in it was written")]


def test_blank_text_beside_a_call_is_not_written() -> None:
    """Models write it, and get an error for it when it comes back."""
    answer = InputMessage("assistant", (Text("\n\n"), ToolCall("c", "f")))
    wrote = write(Request(messages=(InputMessage("user", (Text("Hi"),)), answer)))
    assert wrote.body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    ]


def test_content_of_null_is_no_block() -> None:
    (message,) = read(messages=[{"role": "assistant", "content": None}]).messages
    assert message.blocks == ()


def test_results_and_text_share_a_message() -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "content": "2"},
        {"type": "text", "text": "go on"},
    ]
    (message,) = read(messages=[{"role": "user", "content": content}]).messages
    assert message.blocks == (
        *(ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"),)), Text("go on")),
    )


def test_unchanged_message_is_written_as_it_was_read() -> None:
    odd = {"role": "user", "content": [{"text": "Hi", "type": "text", "citations": []}]}
    request = read(messages=[odd, {"role": "assistant", "content": "a"}])
    changed = structs.replace(request.messages[1], blocks=(Text("b"),))
    wrote = write(structs.replace(request, messages=(request.messages[0], changed)))
    assert wrote.body["messages"] == [odd, {"role": "assistant", "content": "b"}]
    assert wrote.body["messages"][0] is odd


def test_white_space_at_the_end_of_a_prefill_is_stripped() -> None:
    asks = InputMessage("user", (Text("JSON "),))
    prefill = InputMessage("assistant", (Text("So: "), Text('{"a": \n')))
    wrote = write(Request(messages=(asks, prefill)))
    assert wrote.body["messages"] == [
        {"role": "user", "content": "JSON "},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "So: "}, {"type": "text", "text": '{"a":'}],
        },
    ]
    assert wrote.losses == [("trailing_white_space", "stripped")]


@pytest.mark.parametrize(
    "last",
    [
        InputMessage("assistant", (Text("{"),)),
        InputMessage("assistant", (Text("a "), ToolCall("c", "f", "{}"))),
        InputMessage("user", (Text("a "),)),
    ],
)
def test_other_last_message_stays(last: InputMessage) -> None:
    assert write(Request(messages=(last,))).losses == []


def test_prefill_that_was_read_stays() -> None:
    message = {"role": "assistant", "content": "a "}
    request = structs.replace(read(messages=[message]), max_tokens=10)
    assert write(request).body["messages"] == [message]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Be brief.", (Text("Be brief."),)),
        ([MARKED], (Text("Hi", cache=CacheMark()),)),
        (
            [{"type": "text", "text": "a"}, MARKED],
            (Text("a"), Text("Hi", cache=CacheMark())),
        ),
    ],
)
def test_system_prompt_is_read_and_written_again(system: Any, expected: tuple[Text, ...]) -> None:
    assert read(system=system).system == expected
    assert rewritten(system=system)["system"] == system


@pytest.mark.parametrize("system", ["", [], None])
def test_system_prompt_without_text_is_none(system: Any) -> None:
    assert read(system=system).system == ()


@pytest.mark.parametrize(
    ("message", "path", "reason"),
    [
        ("a", "", "expected an object"),
        ({"content": "a"}, ".role", "missing, expected a string"),
        ({"role": ["user"], "content": "a"}, ".role", "expected a string"),
        ({"role": "tool", "content": "a"}, ".role", "expected user, assistant or system"),
        ({"role": "user"}, ".content", "missing, expected a string or an array"),
        ({"role": "user", "content": 1}, ".content", "expected a string or an array"),
    ],
)
def test_broken_message_is_refused_with_its_path(message: object, path: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as error:
        read(messages=[{"role": "user", "content": "a"}, message])
    assert error.value.path == f"$.messages[1]{path}"


@pytest.mark.parametrize("fields", [{}, {"messages": None}])
def test_request_without_messages_is_refused(fields: Body) -> None:
    with pytest.raises(DecodeError, match="missing, expected an array") as error:
        read_request({"model": "m", **fields}, ReadContext())
    assert error.value.path == "$.messages"


@pytest.mark.parametrize(
    ("system", "path", "reason"),
    [
        (1, "", "an integer, expected a string or an array"),
        (["a"], "[0]", "expected an object"),
        ([MARKED, {"text": "a"}], "[1].type", "missing, expected a string"),
        ([{"type": "image"}], "[0]", "a block of another type, expected text"),
        ([{"type": "text"}], "[0].text", "missing, expected a string"),
    ],
)
def test_broken_system_prompt_is_refused_with_its_path(system: Any, path: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as error:
        read(system=system)
    assert error.value.path == f"$.system{path}"


def test_longer_conversation_begins_as_the_shorter_one_was_written() -> None:
    turns = [
        {"role": "user", "content": [MARKED]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        CLEARED,
        {"role": "user", "content": "c"},
    ]
    whole = write(parts_of(read(messages=turns))).body["messages"]
    for count in range(len(turns)):
        part = read_request(asked(messages=turns[:count]), ReadContext())
        assert write(parts_of(part)).body["messages"] == whole[:count]


@pytest.mark.parametrize("before", [(), (Text("Yes."),)], ids=["alone", "behind a text"])
def test_reasoning_that_nothing_follows_is_not_sent(before: tuple[Text, ...]) -> None:
    """The API refuses it: "The final block in an assistant message cannot be `thinking`".

    Codex sends back what came of an answer that broke off (forgecode#2107, #3071).
    """
    reasoning = Reasoning(("So.",), "c2lnbmVk", "anthropic")
    cut = InputMessage("assistant", (*before, reasoning, structs.replace(reasoning, parts=("?",))))
    sent = encode_request(
        Request(model="m", messages=(InputMessage("user", (Text("Hi"),)), cut)), "anthropic"
    )
    kept = [{"role": "assistant", "content": "Yes."}] if before else []
    assert sent.body["messages"] == [{"role": "user", "content": "Hi"}, *kept]
    assert sum(loss.count for loss in sent.losses if loss.feature == "reasoning_dropped") == 2
