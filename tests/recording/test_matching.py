"""Which requests are the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec import UNSET

from streamnorm.recording.format import RecordedRequest
from streamnorm.recording.matching import (
    mask_secrets,
    normalise,
    same_operation,
    same_request,
)

CHAT = "https://api.example.com/v1/chat/completions"


def post(body: Any, url: str = CHAT) -> RecordedRequest:
    return RecordedRequest("POST", url, {}, body)


def same(one: Any, other: Any, **options: Any) -> bool:
    return same_request(normalise(post(one), **options), normalise(post(other), **options))


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


# Equality of JSON


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"n": 1}, {"n": 1.0}),
        ([1, [2]], [1.0, [2.0]]),
        (None, None),
    ],
)
def test_equal_values_match(one: Any, other: Any) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"stream": True}, {"stream": 1}),
        ({"stream": False}, {"stream": 0}),
        ({"a": None}, {}),
        ({"a": 1}, {"b": 1}),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}),
        ("1", 1),
        ({}, []),
    ],
)
def test_different_values_do_not_match(one: Any, other: Any) -> None:
    assert not same(one, other)


def test_null_body_differs_from_no_body() -> None:
    asked = RecordedRequest("POST", CHAT, {})
    assert not same_request(asked, post(None))


def test_recording_without_a_body_matches_any_body() -> None:
    assert same_request(post({"a": 1}), RecordedRequest("POST", CHAT, {}))
    assert not same_request(RecordedRequest("POST", CHAT, {}), post({"a": 1}))


@pytest.mark.parametrize("field", [{"text": "b"}, {"bytes": 2}])
def test_bodies_that_are_no_json_are_compared(field: dict[str, Any]) -> None:
    one = RecordedRequest("POST", CHAT, {}, **field)
    other = RecordedRequest("POST", CHAT, {}, text="a", bytes=None)
    assert same_request(one, one)
    assert not same_request(one, other)


# Operation


def of(url: str, method: str = "POST") -> RecordedRequest:
    return RecordedRequest(method, url, {})


@pytest.mark.parametrize(
    ("asked", "recorded"),
    [
        ("http://127.0.0.1:9/v1/messages", "https://api.example.com/v1/messages"),
        ("http://h/v1/messages", "http://h/proxy/v1/messages"),
        ("http://h/team/proxy/v1/messages", "http://h/v1/messages"),
        ("http://h/v1//messages/", "http://h/v1/messages"),
        ("http://h/v1/m%3Ago", "http://h/v1/m:go"),
        ("http://h", "http://h/"),
    ],
)
def test_path_matches_behind_a_prefix(asked: str, recorded: str) -> None:
    assert same_operation(of(asked), of(recorded), None)


@pytest.mark.parametrize(
    ("asked", "recorded"),
    [
        ("http://h/v1/messages", "http://h/v2/messages"),
        ("http://h/v1/messages", "http://h/v1/messages/count_tokens"),
        ("http://h/av1/messages", "http://h/v1/messages"),
        ("http://h/v1/messages", "http://h/"),
    ],
)
def test_different_path_does_not_match(asked: str, recorded: str) -> None:
    assert not same_operation(of(asked), of(recorded), None)


def test_method_counts_and_its_case_does_not() -> None:
    assert same_operation(of(CHAT, "post"), of(CHAT, "POST"), None)
    assert not same_operation(of(CHAT, "GET"), of(CHAT, "POST"), None)


def test_dialect_of_the_recording_must_match_that_of_the_path() -> None:
    assert same_operation(of(CHAT), of(CHAT), "openai_chat")
    assert not same_operation(of(CHAT), of(CHAT), "anthropic")
    assert same_operation(of("http://h/llm"), of("http://h/llm"), "anthropic")


def test_query_counts_and_its_order_does_not() -> None:
    asked = normalise(post({}, CHAT + "?beta=true&alt=sse"))
    assert same_request(asked, normalise(post({}, "http://h/x?alt=sse&beta=true")))
    assert not same_request(asked, normalise(post({}, CHAT + "?alt=sse")))


def test_headers_and_host_are_ignored() -> None:
    request = RecordedRequest("post", "https://u:p@h:1/v1/x?b=2&a=1#f", {"accept": "*/*"}, {})
    assert normalise(request) == RecordedRequest("POST", "/v1/x?a=1&b=2", {}, {})


# Values that vary between runs of a client


def test_session_and_user_ids_are_ignored() -> None:
    body = {
        "model": "m",
        "prompt_cache_key": "k",
        "client_metadata": {"turn": "1"},
        "safety_identifier": "s",
        "metadata": {"user_id": "u"},
    }
    assert normalise(post(body)).body == {"model": "m"}


def test_other_metadata_is_compared() -> None:
    assert normalise(post({"metadata": {"user_id": "u", "run": "r"}})).body == {
        "metadata": {"run": "r"}
    }


def test_session_fields_elsewhere_are_compared() -> None:
    body = {"tools": [{"prompt_cache_key": "k", "metadata": {"user_id": "u"}}]}
    assert normalise(post(body)).body == body


def test_cache_control_is_ignored_except_in_arguments() -> None:
    mark = {"type": "ephemeral"}
    body = {
        "system": [{"type": "text", "text": "s", "cache_control": mark}],
        "tools": [
            {
                "name": "t",
                "cache_control": mark,
                "input_schema": {"properties": {"cache_control": {"type": "string"}}},
            }
        ],
        "messages": [
            {"content": [{"type": "tool_use", "id": "a", "input": {"cache_control": "no"}}]}
        ],
    }
    assert normalise(post(body)).body == {
        "system": [{"type": "text", "text": "s"}],
        "tools": [
            {"name": "t", "input_schema": {"properties": {"cache_control": {"type": "string"}}}}
        ],
        "messages": [
            {"content": [{"type": "tool_use", "id": "call-1", "input": {"cache_control": "no"}}]}
        ],
    }


def test_billing_block_is_ignored() -> None:
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cc_entry=cli;"}
    assert normalise(post({"system": [billing, {"type": "text", "text": "s"}]})).body == {
        "system": [{"type": "text", "text": "s"}]
    }


def test_input_item_ids_are_ignored_and_references_numbered() -> None:
    body = {
        "input": [
            {"type": "message", "id": "msg_1", "content": [{"type": "input_text", "id": "kept"}]},
            {"type": "item_reference", "id": "msg_9"},
            {"type": "item_reference", "id": "msg_7"},
            {"type": "mcp_approval_response", "approval_request_id": "msg_9", "approve": True},
            "no item",
        ]
    }
    assert normalise(post(body)).body == {
        "input": [
            {"type": "message", "content": [{"type": "input_text", "id": "kept"}]},
            {"type": "item_reference", "id": "item-1"},
            {"type": "item_reference", "id": "item-2"},
            {"type": "mcp_approval_response", "approval_request_id": "item-1", "approve": True},
            "no item",
        ]
    }


def test_id_of_no_call_is_compared() -> None:
    assert not same({"tools": [{"id": "a"}]}, {"tools": [{"id": "b"}]})


def test_arguments_are_compared() -> None:
    def call(path: str) -> Any:
        return {"content": [{"type": "tool_use", "id": "a", "input": {"id": path}}]}

    assert same({"messages": [call("x")]}, {"messages": [call("x")]})
    assert not same({"messages": [call("x")]}, {"messages": [call("y")]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Claude Code
        ("Today's date is 2026-11-21.\n</r>", "Today's date is 2027-01-02.\n</r>"),
        (
            "# Env\n - Primary working directory: /home/a\n x",
            "# Env\n - Primary working directory: /b\n x",
        ),
        (
            "memory at `/home/a/.claude/projects/-home-a-b/memory/`. This",
            "memory at `/Users/c/.claude/projects/-Users-c-d/memory/`. This",
        ),
        (" - OS Version: Linux 6.1\nx", " - OS Version: Darwin 25\nx"),
        # Codex
        ("<cwd>/home/a</cwd>", "<cwd>C:\\b</cwd>"),
        ("<current_date>2026-11-21</current_date>", "<current_date>2026-11-22</current_date>"),
        ("<timezone>UTC</timezone>", "<timezone>Asia/Tokyo</timezone>"),
        (
            "Chunk ID: 4bda85\nWall time: 0.0 seconds\nx",
            "Chunk ID: 00ff\nWall time: 12.5 seconds\nx",
        ),
        (
            '{"chunk_id":"ab12","wall_time_seconds":0.1}',
            '{"chunk_id":"c3","wall_time_seconds":2e-05}',
        ),
        # opencode
        (
            "<env>\n  Working directory: /a\n  Today's date: Sat Nov 21 2026\n</env>",
            "<env>\n  Working directory: /b/c\n  Today's date: Mon Jan 4 2027\n</env>",
        ),
        # Gemini CLI
        (
            "Today's date is Saturday, November 21, 2026 (formatted according to the locale).",
            "Today's date is Samstag, 2. Januar 2027 (formatted according to the locale).",
        ),
        (
            "- **Workspace Directories:**\n  - /a\n  - /b\nx\n\n/a/\n├───f\n",
            "- **Workspace Directories:**\n  - /c\nx\n\n/c/d/\n├───f\n",
        ),
        (
            "I'm currently working in the directory: /a\nx",
            "I'm currently working in the directory: ~/b\nx",
        ),
        # Qwen Code
        (
            "The current date is: Saturday, November 21, 2026. Note",
            "The current date is: Monday, January 4, 2027. Note",
        ),
        # pi
        (
            "Current date: 2026-11-21\nCurrent working directory: /a",
            "Current date: 2027-01-04\nCurrent working directory: /b",
        ),
        (
            "Current date and time: Saturday, November 21, 2026 at 10:30:15 AM UTC\nx",
            "Current date and time: Monday, January 4, 2027 at 1:02:03 PM CET\nx",
        ),
        (
            "Today\u2019s date: 2026\u5e7411\u670821\u65e5",
            "Today\u2019s date: 2027\u5e741\u67084\u65e5",
        ),
    ],
)
def test_environment_description_of_an_agent_is_ignored(one: str, other: str) -> None:
    assert same(says(one), says(other))
    assert not same(says(one + "\nand"), says(other + "\nor"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Today's date is 2026-11-21. Say yes", "Today's date is 2026-11-21. Say no"),
        ("Today's date is a fruit", "Today's date is a meeting"),
        ("The date was 2026-11-21", "The date was 2026-11-22"),
        ("The working directory: is it /a?", "The working directory: is it /b?"),
        ("Working directory: none", "Working directory: any"),
        ("<cwd>none</cwd>", "<cwd>any</cwd>"),
        ("look into /a\n", "look into /b\n"),
    ],
)
def test_text_resembling_an_environment_description_is_compared(one: str, other: str) -> None:
    assert not same(says(one), says(other))


def test_scrubbed_runs_match_at_any_length() -> None:
    assert same(says("key xxxxxx."), says("key xxxxxxxxxxxxxxxx."))
    assert not same(says("key xxxxx."), says("key xxxxxxxxxxxxxxxx."))
    assert not same(says("key xxxxxxxx."), says("key xxxxxxxx!"))


@pytest.mark.parametrize("compared", [normalise, mask_secrets])
@pytest.mark.parametrize("place", ["tools", "input_schema"])
def test_secret_fields_match_at_any_length(compared: Any, place: str) -> None:
    def server(name: str, value: str) -> RecordedRequest:
        return compared(post({place: [{name: value}]}))

    assert same_request(server("password", "xxx"), server("password", "xxxx"))
    assert same_request(server("x-api-key", "xxx"), server("x-api-key", "xxxx"))
    assert not same_request(server("password", ""), server("password", "xxxx"))
    assert not same_request(server("size", "xxx"), server("size", "xxxx"))
    assert not same_request(server("password", "abc"), server("password", "xyz"))


def test_ignored_patterns_are_removed_from_strings() -> None:
    ignore = [r"run-\d+", re.compile("(?i)SEED=\\w+ ?")]
    assert same(says("run-1 seed=a go"), says("run-22 go"), ignore=ignore)
    assert not same(says("run-1 go"), says("run-22 stop"), ignore=ignore)
    one = post({}, "http://h/v1/runs/run-1/messages")
    assert normalise(one, ignore).url == "/v1/runs//messages"


def test_exact_match_ignores_only_secrets() -> None:
    body = {"prompt_cache_key": "k", "text": "Current date: 2026-11-21 xxxxxxxxxx"}
    request = RecordedRequest("POST", CHAT + "?key=xxxxxxxxx", {"a": "b"}, body, text=None)
    assert mask_secrets(request) == RecordedRequest(
        "POST",
        "/v1/chat/completions?key=xxxxxxxx",
        {},
        {"prompt_cache_key": "k", "text": "Current date: 2026-11-21 xxxxxxxx"},
    )


def test_text_is_normalised_too() -> None:
    request = RecordedRequest("POST", CHAT, {}, text="Current date: 2026-11-21\nxxxxxxxxxx")
    assert normalise(request).text == "Current date: <date>\nxxxxxxxx"
    assert normalise(request).body is UNSET


def test_long_word_behind_the_memory_of_a_project_is_read_once() -> None:
    text = "see /home/a/.claude/projects/x-y and " + "a" * 200_000
    request = RecordedRequest("POST", "http://x/v1/messages", {}, {"messages": [{"content": text}]})
    found = normalise(request)  # which would take minutes if the time were quadratic
    assert found.body["messages"][0]["content"].startswith("see <directory> and aaaa")
