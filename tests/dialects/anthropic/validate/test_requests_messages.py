"""Orders of messages, calls and results that Anthropic refuses, each with the nearest legal one."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.refusals import (
    Refusal,
    assistant,
    call,
    cloud_request,
    request,
    result,
    system,
    text,
    thinking,
    user,
)

from streamnorm.validation import validate_request

OPUS = "claude-opus-5"
BUDGET = {"type": "enabled", "budget_tokens": 1024}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
NO_PREFILL = (
    "This model does not support assistant message prefill. "
    "The conversation must end with a user message."
)
NO_RESULT = (
    "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message."
)
NO_CALL = (
    "unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must "
    "have a corresponding `tool_use` block in the previous message."
)

TOOL_LOOPS = [
    Refusal(f"anthropic.{rule}", request(*refused), path, message, request(*legal))
    for rule, path, message, refused, legal in (
        (
            "missing_result",
            "messages[1]",
            f"messages.1: {NO_RESULT.format('toolu_2')}",
            (user("q"), assistant(call(), call("toolu_2")), user(result())),
            (user("q"), assistant(call(), call("toolu_2")), user(result("toolu_2"), result())),
        ),
        (
            "missing_result",
            "messages[1]",
            f"messages.1: {NO_RESULT.format('toolu_1')}",
            (user("q"), assistant(call()), user(text("wait"), result())),
            (user("q"), assistant(call()), user(result(), text("wait"))),
        ),
        (
            "missing_result",
            "messages[1]",
            f"messages.1: {NO_RESULT.format('toolu_1')}",
            (user("q"), assistant(call()), user("wait"), user(result())),
            (user("q"), assistant(call()), user(result()), user("wait")),
        ),
        (
            "missing_result",
            "messages[1]",
            f"messages.1: {NO_RESULT.format('srvtoolu_1')}",
            (user("q"), assistant(call("srvtoolu_1"), text("found")), user("more")),
            (user("q"), assistant(SEARCH, FOUND, text("found")), user("more")),
        ),
        (
            "missing_result",
            "messages[1]",
            f"messages.1: {NO_RESULT.format('toolu_1')}",
            (user("q"), assistant(call())),
            (user("q"), assistant(call()), user(result())),
        ),
        (
            "unexpected_result",
            "messages[2].content[1]",
            f"messages.2.content.1: {NO_CALL.format('toolu_9')}",
            (user("q"), assistant(call()), user(result(), result("toolu_9"))),
            (user("q"), assistant(call()), user(result())),
        ),
        (
            "unexpected_result",
            "messages[4].content[0]",
            f"messages.4.content.0: {NO_CALL.format('toolu_1')}",
            (user("q"), assistant(call()), user(result()), assistant("a"), user(result())),
            (user("q"), assistant(call()), user(result()), assistant("a"), user("b")),
        ),
        (
            "duplicate_tool_use",
            "messages[3].content[0].id",
            "messages: `tool_use` ids must be unique",
            (
                *(user("q"), assistant(call()), user(result())),
                *(assistant(call()), user(result())),
            ),
            (
                *(user("q"), assistant(call()), user(result())),
                *(assistant(call("toolu_2")), user(result("toolu_2"))),
            ),
        ),
        (
            "duplicate_result",
            "messages[2].content[1].tool_use_id",
            "messages.2.content.1.tool_use_id: each tool_use must have a single result. Found "
            "multiple `tool_result` blocks with id: toolu_1",
            (user("q"), assistant(call()), user(result(), result())),
            (user("q"), assistant(call()), user(result(), text("r"))),
        ),
        (
            "server_result",
            "messages[1].content[0]",
            "messages.1.content.0: tool use with id srvtoolu_1 was found without a corresponding "
            "result block",
            (user("q"), assistant(SEARCH, text("found")), user("more")),
            (user("q"), assistant(SEARCH, call()), user(result()), assistant(FOUND, text("a"))),
        ),
    )
]
THINKING = [
    Refusal(
        "anthropic.thinking_first",
        request(*refused, thinking=BUDGET),
        path,
        f"{path.replace('[', '.').replace(']', '')}: Expected `thinking` or `redacted_thinking`, "
        f"but found `{found}`. When `thinking` is enabled, a final `assistant` message must start "
        "with a thinking block",
        request(*legal, thinking=BUDGET),
        others=(("deepseek", "m"),),
    )
    for path, found, refused, legal in (
        (
            "messages[1].content[0].type",
            "tool_use",
            (user("q"), assistant(call()), user(result())),
            (user("q"), assistant(thinking(), call()), user(result())),
        ),
        (
            "messages[1].content.type",
            "text",
            (user("q"), assistant("I call."), assistant(thinking(), call()), user(result())),
            (user("q"), assistant(call()), user(result()), assistant("a"), user("b")),
        ),
        # A tool loop is one answer: thinking begins it, and may come once more where it is
        # interleaved.
        (
            "messages[1].content[0].type",
            "tool_use",
            (
                *(user("q"), assistant(call()), user(result())),
                *(assistant(thinking(), call("toolu_2")), user(result("toolu_2"))),
            ),
            (
                *(user("q"), assistant(thinking(), call()), user(result())),
                *(assistant(call("toolu_2")), user(result("toolu_2"))),
            ),
        ),
        (
            "messages[1].content.type",
            "text",
            (user("q"), assistant("So:")),
            (user("q"), assistant("So"), user("on")),
        ),
    )
]
PREFILLED = (user("q"), assistant("So:"))
PREFILL = [
    Refusal(
        "anthropic.prefill",
        request(*PREFILLED),
        "messages[1]",
        NO_PREFILL,
        legal,
        model,
        others=(
            (None, "claude-opus-4-5"),
            (None, "claude-sonnet-4-20250514"),
            (None, "claude-opus-4-20250514"),
            (None, "claude-3-7-sonnet-20250219"),
            ("vertex", "claude-haiku-4-5@20251001"),
        ),
    )
    for model in (
        "claude-opus-4-6",
        "claude-sonnet-4.6",
        OPUS,
        "claude-fable-5",
        "claude-fable-5-1",
    )
    for legal in (request(*PREFILLED, user("on")), request(user("q"), assistant(SEARCH)))
]
PREFILL += [
    Refusal(
        "anthropic.final_thinking",
        request(user("q"), assistant(*blocks)),
        "messages[1]",
        f"messages.1: The final block in an assistant message cannot be `{kind}`.",
        legal,
        others=(("deepseek", "m"),),
    )
    for kind, blocks, legal in (
        ("thinking", (thinking(),), request(user("q"), assistant(thinking()), user("on"))),
        (
            "thinking",
            (text("a"), thinking()),
            request(user("q"), assistant(thinking(), text("a"))),
        ),
        (
            "redacted_thinking",
            (thinking(), {"type": "redacted_thinking", "data": "eA=="}),
            request(user("q"), assistant(thinking(), call()), user(result())),
        ),
    )
]
PREFILL += [
    Refusal(
        "anthropic.prefill",
        request(*PREFILLED),
        "messages[1]",
        NO_PREFILL,
        request(*PREFILLED, user("on")),
        model,
        "copilot",
        others=(("copilot", "claude-sonnet-4.5"), ("copilot", "claude-haiku-4.5")),
    )
    for model in ("claude-opus-4.6", "claude-sonnet-4.6")
]
SYSTEM = [
    *(
        Refusal(
            "anthropic.system_role",
            request(user("q"), system("s")),
            "messages[1]",
            "role 'system' is not supported on this model",
            request(user("q"), user("s")),
            model,
            others=((None, "claude-opus-4-8"), (None, "claude-sonnet-5"), (None, OPUS)),
        )
        for model in ("claude-opus-4-7", "claude-sonnet-4-6", "claude-3-7-sonnet-20250219")
    ),
    *(
        Refusal(
            f"{server}.system_role",
            cloud_request(user("q"), system("s")),
            "messages[1]",
            "role 'system' is not supported on this model",
            cloud_request(user("q"), user("s")),
            OPUS,
            server,
            others=((None, OPUS),),
        )
        for server in ("bedrock", "vertex")
    ),
    *(
        Refusal(
            "anthropic.system_after_user",
            request(*refused),
            path,
            f"messages.{path[9]}: role 'system' must follow a 'user' message or an 'assistant' "
            "message ending in a server tool result",
            request(*legal),
            OPUS,
        )
        for path, refused, legal in (
            ("messages[0]", (system("s"), user("q")), (user("q"), system("s"))),
            (
                "messages[2]",
                (user("q"), assistant("a"), system("s"), assistant("b"), user("c")),
                (user("q"), assistant(SEARCH, FOUND), system("s"), assistant("b"), user("c")),
            ),
            (
                "messages[2]",
                (user("q"), system("s"), system("t")),
                (user("q"), system("s")),
            ),
        )
    ),
    Refusal(
        "anthropic.system_before_assistant",
        request(user("q"), system("s"), user("r")),
        "messages[1]",
        "messages.1: role 'system' must precede an 'assistant' message or end the array",
        request(user("q"), user("r"), system("s")),
        OPUS,
    ),
]


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": source}


BYTES = image(type="base64", media_type="image/png", data="AAAA")
LINKED = image(type="url", url="https://h/a.png")
FILES = [
    Refusal(
        "anthropic_clouds.url_sources",
        cloud_request(*refused),
        path,
        f"{path.replace('[', '.').replace(']', '')}: URL sources are not supported",
        cloud_request(*legal),
        server=server,
        others=((None, "m"),),
    )
    for server in ("bedrock", "vertex")
    for refused, legal, path in (
        ((user(LINKED),), (user(BYTES),), "messages[0].content[0].source.type"),
        (
            (user("q"), assistant(call()), user({**result(), "content": [LINKED]})),
            (user("q"), assistant(call()), user({**result(), "content": [BYTES]})),
            "messages[2].content[0].content[0].source.type",
        ),
    )
]
CASES = [*TOOL_LOOPS, *THINKING, *PREFILL, *SYSTEM, *FILES]


@pytest.mark.parametrize("refusal", CASES, ids=str)
def test_request_is_refused_by(refusal: Refusal) -> None:
    refusal.check()


def test_results_may_be_of_calls_in_the_thread_of_the_vendor() -> None:
    body = request(user(result()), thread={"type": "continue", "previous_message_id": "msg_1"})
    headers = {"anthropic-beta": "message-threads-2026-08-12"}
    assert validate_request(body, "anthropic", headers=headers) == []


@pytest.mark.parametrize(
    "paused",
    [SEARCH, FOUND, {"type": "compaction", "content": "…"}],
    ids=lambda block: block["type"],
)
def test_paused_answer_is_no_prefill(paused: dict[str, Any]) -> None:
    body = request(user("q"), assistant(text("a"), paused))
    assert validate_request(body, "anthropic", model=OPUS) == []
