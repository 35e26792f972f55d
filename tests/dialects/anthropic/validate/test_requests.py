"""Fields, words and content that Anthropic refuses, each with the nearest legal request."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.refusals import (
    Refusal,
    assistant,
    call,
    cloud_request,
    image,
    request,
    result,
    system,
    text,
    thinking,
    tool,
    user,
)

from streamnorm.validation import validate_request

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
FORMAT = {"type": "json_schema", "schema": {}}
EXTRA = "Extra inputs are not permitted"
OPUS = "claude-opus-5"


def looped(*blocks: Any, results: tuple[Any, ...] = (), **fields: Any) -> dict[str, Any]:
    """Return a request whose last message has the result of a call in the one before."""
    return request(user("q"), assistant(*blocks, call()), user(*(results or [result()])), **fields)


def document(**source: Any) -> dict[str, Any]:
    return {"type": "document", "source": {**PDF, **source}}


MISSING = [
    Refusal("anthropic.required_fields", refused, path, f"{where}: Field required", request())
    for refused, path, where in (
        (request(max_tokens=None), "max_tokens", "max_tokens"),
        (request({"role": "user"}), "messages[0].content", "messages.0.content"),
        (
            request(user({"type": "text"})),
            "messages[0].content[0].text",
            "messages.0.content.0.text.text",
        ),
        (request(tools=[{"name": "f"}]), "tools[0].input_schema", "tools.0.custom.input_schema"),
        (
            request(thinking={"type": "enabled"}),
            "thinking.budget_tokens",
            "thinking.enabled.budget_tokens",
        ),
    )
]
UNKNOWN = [
    Refusal("anthropic.unknown_fields", refused, path, f"{where}: {EXTRA}", legal)
    for path, where, refused, legal in (
        ("seed", "seed", request(seed=7), request()),
        (
            "messages[0].name",
            "messages.0.name",
            request({**user("q"), "name": "ann"}),
            request(),
        ),
        (
            "messages[1].content[0].valid",
            "messages.1.content.0.thinking.valid",
            looped({**thinking(), "valid": True}),
            looped(thinking()),
        ),
        (
            "messages[1].content[0].cache_control",
            "messages.1.content.0.thinking.cache_control",
            looped({**thinking(), "cache_control": MARK}),
            looped(thinking()),
        ),
        (
            "messages[2].content[0].content[0].odd",
            "messages.2.content.0.tool_result.content.0.text.odd",
            looped(results=(result(content=[text("r", odd=1)]),)),
            looped(results=(result(content=[text("r")]),)),
        ),
        (
            "messages[0].content[0].source.name",
            "messages.0.content.0.document.source.base64.name",
            request(user(document(name="a"))),
            request(user(document())),
        ),
        (
            "tools[0].cache_control.odd",
            "tools.0.custom.cache_control.ephemeral.odd",
            request(tools=[tool(cache_control={**MARK, "odd": 1})]),
            request(tools=[tool(cache_control=MARK)]),
        ),
        (
            "system[0].odd",
            "system.0.odd",
            request(system=[text("s", odd=1)]),
            request(system=[text("s")]),
        ),
        ("tools[0].odd", "tools.0.custom.odd", request(tools=[tool(odd=1)]), request()),
        (
            "thinking.display",
            "thinking.disabled.display",
            request(thinking={"type": "disabled", "display": "omitted"}),
            request(thinking={"type": "disabled"}),
        ),
        (
            "tool_choice.name",
            "tool_choice.auto.name",
            request(tools=[tool()], tool_choice={"type": "auto", "name": "f"}),
            request(tools=[tool()], tool_choice={"type": "auto"}),
        ),
        (
            "metadata.team",
            "metadata.team",
            request(metadata={"team": "a"}),
            request(metadata={"user_id": "u"}),
        ),
        (
            "output_config.format.name",
            "output_config.format.name",
            request(output_config={"format": {**FORMAT, "name": "n"}}),
            request(output_config={"format": FORMAT}),
        ),
    )
]
BETAS = [
    Refusal("anthropic.beta_fields", refused, path, f"{where}: {EXTRA}", legal, OPUS)
    for path, where, refused, legal in (
        ("thread", "thread", request(thread={"type": "create"}), request()),
        (
            "messages[1].clear_at",
            "messages.1.clear_at",
            request(user("q"), {**system("s"), "clear_at": "never"}),
            request(user("q"), system("s")),
        ),
        (
            "output_config.task_budget",
            "output_config.task_budget",
            request(output_config={"task_budget": {"type": "tokens", "total": 9}}),
            request(output_config={"effort": "low"}),
        ),
        (
            "thinking.block_binding",
            "thinking.block_binding",
            request(thinking={"type": "adaptive", "block_binding": {}}),
            request(thinking={"type": "adaptive"}),
        ),
        (
            "system[0].cache_control.scope",
            "system.0.cache_control.ephemeral.scope",
            request(system=[text("s", cache_control={**MARK, "scope": "global"})]),
            request(system=[text("s", cache_control=MARK)]),
        ),
        (
            "messages[0].content[0].cache_control.scope",
            "messages.0.content.0.text.cache_control.ephemeral.scope",
            request(user(text("a", cache_control={**MARK, "scope": "global"}))),
            request(),
        ),
    )
]
WORDS = [
    Refusal(
        f"anthropic.{rule}",
        refused,
        path,
        f"{path.replace('[', '.').replace(']', '')}: Input should be {words}",
        legal,
        OPUS,
        others=(("deepseek", OPUS),),
    )
    for rule, path, words, refused, legal in (
        (
            "effort_word",
            "output_config.effort",
            "'low', 'medium', 'high', 'xhigh' or 'max'",
            request(output_config={"effort": "minimal"}),
            request(output_config={"effort": "low"}),
        ),
        (
            "output_format",
            "output_config.format.type",
            "'json_schema'",
            request(output_config={"format": {"type": "json_object"}}),
            request(output_config={"format": FORMAT}),
        ),
        (
            "thinking_type",
            "thinking.type",
            "'enabled', 'adaptive', 'between_tools' or 'disabled'",
            request(thinking={"type": "auto"}),
            request(thinking={"type": "between_tools"}),
        ),
        (
            "thinking_display",
            "thinking.display",
            "'summarized', 'omitted' or 'updates'",
            request(thinking={"type": "adaptive", "display": "detailed"}),
            request(thinking={"type": "adaptive", "display": "summarized"}),
        ),
        (
            "tool_choice_type",
            "tool_choice.type",
            "'auto', 'any', 'tool' or 'none'",
            request(tools=[tool()], tool_choice={"type": "required"}),
            request(tools=[tool()], tool_choice={"type": "any"}),
        ),
        (
            "service_tier",
            "service_tier",
            "'auto' or 'standard_only'",
            request(service_tier="flex"),
            request(service_tier="auto"),
        ),
        (
            "speed",
            "speed",
            "'standard' or 'fast'",
            request(speed="slow"),
            request(speed="fast"),
        ),
        (
            "cache_ttl",
            "system[0].cache_control.ttl",
            "'5m' or '1h'",
            request(system=[text("s", cache_control={**MARK, "ttl": "30m"})]),
            request(system=[text("s", cache_control=HOUR)]),
        ),
        (
            "tool_schema_type",
            "tools[0].input_schema.type",
            "'object'",
            request(tools=[tool(input_schema={"type": "array"})]),
            request(tools=[tool(input_schema={"type": "object"})]),
        ),
    )
]
VALUES = [
    Refusal(f"anthropic.{rule}", refused, path, message, legal)
    for rule, path, message, refused, legal in (
        (
            "temperature_range",
            "temperature",
            "temperature: range: 0..1",
            request(temperature=1.5),
            request(temperature=1),
        ),
        ("top_p_range", "top_p", "top_p: range: 0..1", request(top_p=1.5), request(top_p=1)),
        (
            "min_budget",
            "thinking.budget_tokens",
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
            request(thinking={"type": "enabled", "budget_tokens": 1023}),
            request(thinking={"type": "enabled", "budget_tokens": 1024}),
        ),
        (
            "tool_input",
            "messages[1].content[0].input",
            "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
            request(user("q"), assistant(call(input="{}")), user(result())),
            looped(),
        ),
        (
            "tool_id",
            "messages[1].content[0].id",
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            request(user("q"), assistant(call("f:0")), user(result("f_0"))),
            request(user("q"), assistant(call("f_0")), user(result("f_0"))),
        ),
        (
            "tool_name",
            "tools[0].name",
            "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
            request(tools=[tool("a.b")]),
            request(tools=[tool("a" * 128)]),
        ),
        (
            "tool_schema_without_type",
            "tools[0].input_schema.type",
            "tools.0.input_schema.type: Field required",
            request(tools=[tool(input_schema={})]),
            request(tools=[tool()]),
        ),
        (
            "image_media_type",
            "messages[0].content[0].source.media_type",
            "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', "
            "'image/png', 'image/gif' or 'image/webp'",
            request(user(image("application/pdf"))),
            request(user(image("image/webp"))),
        ),
        (
            "document_media_type",
            "messages[0].content[0].source.media_type",
            "messages.0.content.0.document.source.base64.media_type: "
            "Input should be 'application/pdf'",
            request(user(document(media_type="text/csv"))),
            request(user(document())),
        ),
        (
            "no_messages",
            "messages",
            "messages: at least one message is required",
            {**request(), "messages": []},
            request(),
        ),
    )
]
CONTENT = [
    Refusal(f"anthropic.{rule}", refused, path, message, legal)
    for rule, path, message, refused, legal in (
        (
            "marked_empty_text",
            "messages[0].content[1].text",
            "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
            request(user(text("q"), text("", cache_control=MARK))),
            request(user(text("q"), text("a", cache_control=MARK))),
        ),
        (
            "empty_text",
            "messages[0].content[1].text",
            "messages: text content blocks must be non-empty",
            request(user(text("q"), text(""))),
            request(user(text("q"))),
        ),
        (
            "empty_text",
            "system[0].text",
            "system: text content blocks must be non-empty",
            request(system=[text("")]),
            request(system=""),
        ),
        (
            "blank_text",
            "messages[2].content[0].content[0].text",
            "messages: text content blocks must contain non-whitespace text",
            looped(results=(result(content=[text("\n ")]),)),
            looped(results=(result(content=[text("\n .")]),)),
        ),
        (
            "blank_text",
            "messages[0].content",
            "messages: text content blocks must contain non-whitespace text",
            request(user(" ")),
            request(user(" .")),
        ),
        (
            "empty_content",
            "messages[0].content",
            "messages.0: all messages must have non-empty content except for the optional final "
            "assistant message",
            request({"role": "user", "content": []}, assistant("a")),
            request(user("q"), {"role": "assistant", "content": []}),
        ),
        (
            "trailing_space",
            "messages[1].content",
            "messages: final assistant content cannot end with trailing whitespace",
            request(user("q"), assistant(text("So: "))),
            request(user("q"), assistant(text("So:"))),
        ),
        (
            "empty_result",
            "messages[2].content[0].content",
            "messages.2.content.0.tool_result.content: at least one content block is required",
            looped(results=(result(content=[]),)),
            looped(results=(result(content=""),)),
        ),
        *(
            (
                "empty_error",
                "messages[2].content[0]",
                "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
                looped(results=(result(is_error=True, content=content),)),
                looped(results=(result(is_error=is_error, content=legal),)),
            )
            for content, is_error, legal in (("", True, "failed"), (None, None, ""))
        ),
        *(
            (
                "signature",
                "messages[1].content[0].signature",
                "messages.1.content.0: Invalid `signature` in `thinking` block",
                looped(thinking(signature)),
                looped(thinking("EqQB+/8=")),
            )
            for signature in ("", "sn1.openai.gAAA", "EqQB CkYI")
        ),
        (
            "redacted_data",
            "messages[1].content[0].data",
            "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
            looped({"type": "redacted_thinking", "data": "sn1.openai.gAAA"}),
            looped({"type": "redacted_thinking", "data": "EqQB"}),
        ),
    )
]
MARKS = [
    Refusal(f"anthropic.{rule}", refused, path, message, legal)
    for rule, path, message, refused, legal in (
        (
            "max_marks",
            "cache_control",
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
            request(
                user(*(text("a", cache_control=MARK) for _ in range(3)), text("b")),
                tools=[tool(cache_control=MARK)],
                cache_control=MARK,
            ),
            request(
                user(*(text("a", cache_control=MARK) for _ in range(3)), text("b")),
                cache_control=MARK,
            ),
        ),
        (
            "ttl_order",
            "messages[0].content[0].cache_control.ttl",
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
            request(user(text("a", cache_control=HOUR)), system=[text("s", cache_control=MARK)]),
            request(user(text("a", cache_control=MARK)), system=[text("s", cache_control=HOUR)]),
        ),
        (
            "top_level_ttl",
            "cache_control.ttl",
            "cache_control.ttl: differs from the ttl of the last cacheable block",
            request(user(text("a", cache_control=HOUR)), cache_control=MARK),
            request(user(text("a", cache_control=HOUR)), cache_control=HOUR),
        ),
    )
]
NESTED = [
    Refusal(
        "anthropic.nested_mark",
        looped(results=(result(content=[text("r", cache_control=MARK)]),)),
        "messages[2].content[0].content[0].cache_control",
        "cache_control may not be specified within `tool_result.content`. Instead, place it "
        "directly on `tool_result`",
        looped(results=(result(cache_control=MARK),)),
        server=server,
        others=(("deepseek", "m"),),
    )
    for server in (None, "copilot")
]
CLOUDS = [
    Refusal(
        "anthropic.required_fields",
        request(model=None),
        "anthropic_version",
        "anthropic_version: Field required",
        cloud_request(),
        server="bedrock",
    ),
    Refusal(
        "anthropic.unknown_fields",
        {**cloud_request(), "model": "m"},
        "model",
        f"model: {EXTRA}",
        cloud_request(),
        server="vertex",
        others=(("bedrock", "m"), ("deepseek", "m")),
    ),
    Refusal(
        "bedrock.unknown_fields",
        cloud_request(service_tier="auto"),
        "service_tier",
        f"service_tier: {EXTRA}",
        cloud_request(),
        server="bedrock",
        others=((None, "m"), ("vertex", "m")),
    ),
    Refusal(
        "anthropic.beta_fields",
        request(context_management={"edits": []}),
        "context_management",
        f"context_management: {EXTRA}",
        request(),
        server="copilot",
        others=(("deepseek", "m"),),
    ),
    Refusal(
        "vertex.cache_control",
        cloud_request(cache_control=MARK),
        "cache_control",
        f"cache_control: {EXTRA}",
        cloud_request(),
        server="vertex",
        others=((None, "m"),),
    ),
    *(
        Refusal(
            f"bedrock.{rule}",
            cloud_request(tools=[tool(input_schema=schema)]),
            "tools[0].input_schema.type",
            "The value at tools.0.input_schema.type must be one of the following: object.",
            cloud_request(tools=[tool()]),
            server="bedrock",
            others=((None, "m"),),
        )
        for rule, schema in (
            ("tool_schema_type", {"type": "string"}),
            ("tool_schema_without_type", {"properties": {}}),
        )
    ),
    Refusal(
        "bedrock.eager_input_streaming",
        cloud_request(tools=[tool(eager_input_streaming=True)]),
        "tools[0].eager_input_streaming",
        f"tools.0.eager_input_streaming: {EXTRA}",
        cloud_request(tools=[tool()]),
        server="bedrock",
        others=((None, "m"), ("vertex", "m")),
    ),
    Refusal(
        "bedrock.betas",
        cloud_request(anthropic_beta=["context-1m-2025-08-07", "claude-code-20250219"]),
        "anthropic_beta[1]",
        "The model returned the following errors: invalid beta flag",
        cloud_request(anthropic_beta=["context-1m-2025-08-07"]),
        server="bedrock",
        others=((None, "m"), ("vertex", "m")),
    ),
]

BROKEN = [
    Refusal(
        "anthropic.lone_surrogates",
        request(user("whole \U0001f600"), user("half \ud83d")),
        "messages[1].content",
        "The request body is not valid JSON: no low surrogate in string",
        request(user("whole \U0001f600")),
        others=(("bedrock", OPUS),),
    )
]

CASES = [
    *(*MISSING, *UNKNOWN, *BETAS, *WORDS, *VALUES, *CONTENT, *MARKS, *NESTED),
    *CLOUDS,
    *BROKEN,
]


@pytest.mark.parametrize("refusal", CASES, ids=str)
def test_request_is_refused_by(refusal: Refusal) -> None:
    refusal.check()


def test_fields_of_a_beta_are_accepted_with_it() -> None:
    for name, header in (
        ("context_management", "claude-code-20250219, context-management-2025-06-27"),
        ("context_management", "compact-2026-01-12"),
        ("thread", "message-threads-2026-08-12"),
    ):
        body = request(**{name: {"edits": []}})
        assert validate_request(body, "anthropic", headers={"anthropic-beta": header}) == []
    body = cloud_request(
        context_management={"edits": []}, anthropic_beta=["context-management-2025-06-27"]
    )
    assert validate_request(body, "anthropic", server="bedrock") == []


def test_count_of_tokens_needs_no_bound() -> None:
    body = request(max_tokens=None)
    assert validate_request(body, "anthropic", path="/v1/messages/count_tokens") == []


@pytest.mark.parametrize(
    "beta", ["mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"]
)
def test_system_message_may_change_its_fields_alone(beta: str) -> None:
    body = request(user("q"), {"role": "system", "output_config": {"effort": "low"}})
    headers = {"anthropic-beta": beta}
    assert validate_request(body, "anthropic", model=OPUS, headers=headers) == []


@pytest.mark.parametrize(
    "body",
    [
        {"messages": "q", "tools": {}, "system": 1, "thinking": [], "tool_choice": "auto"},
        {"messages": [1, {"role": 2, "content": 3}, {"role": "user", "content": [1, {"type": 2}]}]},
        {"messages": [user({"type": "tool_result", "content": [1]}), assistant({"type": "text"})]},
        {"messages": [{"role": "user", "content": None}], "tools": [1, {"type": 2, "name": 3}]},
        {"messages": [user({"type": "image", "source": {"type": 1}})], "anthropic_beta": [1]},
        {"messages": [assistant({"type": []}), user({"type": {}})], "tools": [{"type": []}]},
        {"metadata": 1, "output_config": {"format": 1}, "cache_control": 1, "thread": 1},
    ],
    ids=str,
)
def test_any_json_is_judged(body: dict[str, Any]) -> None:
    for server in (None, "bedrock", "vertex", "copilot"):
        found = validate_request(body, "anthropic", server=server)
        assert all(violation.message for violation in found)
