"""Media that a target has no place for in results stand behind all results of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.projection_targets import Projection, assistant, call, request, result, user

from streamnorm import (
    Audio,
    Conversation,
    Document,
    Image,
    InputMessage,
    OpaqueBlock,
    Request,
    Text,
    ToolResult,
    Video,
    translate_request,
)
from streamnorm._core.blocks import ResultBlock

IMAGE = Image("image/png", "aGk=")
CALLS = assistant(call("a"), call("b"))
NO_MEDIA: dict[str, Any] = {
    "result_media": frozenset(),
    "mixed_results": False,
    "split_results": True,
}


def viewed(id: str) -> ToolResult:
    return ToolResult(id, (Text(f"file {id}"), IMAGE))


def moved(*ids: str) -> tuple[Text | Image, ...]:
    return tuple(block for id in ids for block in (Text(f"[image of tool result {id}]"), IMAGE))


RESULTS = [
    ("user", (ToolResult("a", (Text("file a"),)),)),
    ("user", (ToolResult("b", (Text("file b"),)),)),
    ("user", moved("a", "b")),
]


def test_images_of_parallel_results_in_messages_of_their_own_stand_behind_the_last() -> None:
    asked = request(CALLS, user(viewed("a")), user(viewed("b")))
    done = Projection(asked, **NO_MEDIA)
    assert done.messages[1:] == RESULTS
    assert done.lost == {"tool_result_image_moved": 2}


@pytest.mark.parametrize("after", [user("go on"), assistant("Two files."), assistant(call("c"))])
def test_images_stand_before_what_follows_the_results(after: InputMessage) -> None:
    answered = [user(result("c"))] if after.tool_calls else []
    asked = request(CALLS, user(viewed("a")), user(viewed("b")), after, *answered)
    done = Projection(asked, **NO_MEDIA)
    assert done.messages[1:5] == [*RESULTS, (after.role, after.blocks)]


def test_images_stand_before_other_content_of_the_last_result_message() -> None:
    asked = request(CALLS, user(viewed("a")), user(viewed("b"), Text("go on")))
    done = Projection(asked, **NO_MEDIA)
    assert done.messages[1:] == [
        ("user", (ToolResult("a", (Text("file a"),)), ToolResult("b", (Text("file b"),)))),
        ("user", moved("a", "b")),
        ("user", (Text("go on"),)),
    ]


PDF = Document("application/pdf", "aGk=")
SOUND = Audio("audio/wav", "aGk=")
FILM = Video("video/mp4", "aGk=")
OTHER = OpaqueBlock("target", "chart", "{}")


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ((PDF,), "file"),
        ((SOUND,), "audio"),
        ((FILM, FILM), "video"),
        ((OTHER,), "content"),
        ((IMAGE, PDF, IMAGE), "image and file"),
    ],
)
def test_moved_content_is_announced_by_its_kind(
    content: tuple[ResultBlock, ...], title: str
) -> None:
    asked = request(assistant(call("a")), user(ToolResult("a", content)))
    done = Projection(asked, **NO_MEDIA)
    assert done.messages[2] == ("user", (Text(f"[{title} of tool result a]"), *content))


def view(id: str) -> list[dict[str, Any]]:
    url = "data:image/png;base64,aGk="
    output = [{"type": "input_image", "image_url": url, "detail": "high"}]
    return [{"type": "function_call_output", "call_id": id, "output": output}]


CODEX = {
    "model": "gpt-5.1",
    "input": [
        {"type": "message", "role": "user", "content": "Compare a.png and b.png."},
        *(
            {"type": "function_call", "call_id": id, "name": "view_image", "arguments": "{}"}
            for id in ("call_a", "call_b")
        ),
        *view("call_a"),
        *view("call_b"),
    ],
}
PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "high"}}
CHAT = [
    {"role": "user", "content": "Compare a.png and b.png."},
    {
        "role": "assistant",
        "tool_calls": [
            {
                "id": id,
                "type": "function",
                "function": {"name": "view_image", "arguments": "{}"},
            }
            for id in ("call_a", "call_b")
        ],
    },
    {"role": "tool", "tool_call_id": "call_a", "content": ""},
    {"role": "tool", "tool_call_id": "call_b", "content": ""},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "[image of tool result call_a]"},
            PART,
            {"type": "text", "text": "[image of tool result call_b]"},
            PART,
        ],
    },
]


def test_two_images_that_codex_views_at_once_follow_both_results() -> None:
    encoded = translate_request(CODEX, dialect="openai_responses", to="openai_chat")
    assert encoded.body["messages"] == CHAT


def test_images_in_tool_messages_of_a_client_move_where_the_server_refuses_them() -> None:
    tools = [{**CHAT[2], "content": [PART]}, {**CHAT[3], "content": [PART]}]
    body = {"model": "gpt-5.1", "messages": [*CHAT[:2], *tools]}
    encoded = translate_request(body, dialect="openai_chat", to="openai_chat", server="azure")
    assert encoded.body["messages"] == CHAT
    passed = translate_request(body, dialect="openai_chat", to="openai_chat")
    assert passed.body == body


def test_a_growing_conversation_moves_images_where_a_whole_one_does() -> None:
    messages = [user("Compare."), CALLS, user(viewed("a")), user(viewed("b")), user("go on")]
    growing = Conversation(Request(model="gpt-4.1"))
    for count, message in enumerate(messages, 1):
        growing.append(message)
        if count in (1, 4, 5):
            whole = Conversation(Request(model="gpt-4.1", messages=tuple(messages[:count])))
            body = growing.dump("openai_chat").body
            assert body == whole.dump("openai_chat").body
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user", "user"]
