"""Bodies of Anthropic's own clients for servers that apply its checks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from streamnorm import Encoded, EncodeError, decode_request, encode_request
from streamnorm._core.codec import WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.anthropic.body.fitting import fit_body
from streamnorm.dialects.anthropic.body.request import REQUEST_CAPABILITIES

CHECKED = structs.replace(REQUEST_CAPABILITIES, vendor_checks=True)
CLEARS = {"type": "clear_thinking_20251015", "keep": "all"}
COMPACTS = {"type": "compact_20260112"}


def fit(
    body: dict[str, Any], *, named: bool = True, **target: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return a body as a named server takes it, and the names of what was lost."""
    losses = Losses()
    context = WriteContext(structs.replace(CHECKED, **target), losses, named=named)
    return fit_body(body, context), [loss.feature for loss in losses.list()]


def call(**fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, **fields}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a body with an answer of blocks, which is not the last message."""
    messages = [{"role": "assistant", "content": list(blocks)}, {"role": "user", "content": "a"}]
    return {"messages": messages}


LEGAL: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "text", "text": "a "}, call()]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
    ],
    "tools": [{"name": "f", "defer_loading": True}, {"type": "mcp_toolset"}],
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [CLEARS]},
}


def test_what_the_vendor_accepts_stays() -> None:
    assert fit(LEGAL) == (LEGAL, [])
    assert fit(LEGAL)[0] is LEGAL
    assert fit({"messages": 1})[0] == {"messages": 1}


@pytest.mark.parametrize("target", [{"named": False}, {"vendor_checks": False}], ids=str)
def test_body_for_another_server_is_the_client_s_affair(target: dict[str, Any]) -> None:
    body = said(call(input="{}"))
    assert fit(body, **target)[0] is body


@pytest.mark.parametrize(
    ("given", "after"),
    [('{"a":1}', {"a": 1}), ("", {}), (None, {}), ({}, {})],
    ids=str,
)
def test_input_of_a_call_is_an_object(given: object, after: dict[str, Any]) -> None:
    for kind in ("tool_use", "server_tool_use"):
        body, lost = fit(said(call(type=kind, input=given)))
        assert body == said(call(type=kind, input=after))
        assert lost == ([] if given == after else ["tool_input"])


def test_input_that_is_no_object_is_an_error() -> None:
    with pytest.raises(EncodeError, match="no JSON object, expected one") as caught:
        fit(said({"type": "text", "text": "a"}, call(input=[1])))
    assert caught.value.path == "messages[0].blocks[1]"


def test_ids_have_the_characters_of_the_vendor() -> None:
    result = {"type": "tool_result", "tool_use_id": "f:0"}
    body, lost = fit(
        {
            "messages": [
                {"role": "assistant", "content": [call(id="f:0")]},
                {"role": "user", "content": [result]},
            ]
        }
    )
    (call_after,), (result_after,) = (message["content"] for message in body["messages"])
    assert call_after["id"] == result_after["tool_use_id"] == "snid_f_3a0"
    assert lost == ["tool_id_changed"]


def test_result_without_content_has_no_empty_array() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": []}
    body, lost = fit({"messages": [{"role": "user", "content": [result]}]})
    (after,) = body["messages"][0]["content"]
    assert after == {"type": "tool_result", "tool_use_id": "toolu_1"}
    assert lost == []


@pytest.mark.parametrize(
    ("content", "after"),
    [
        ("So: ", "So:"),
        ("So:", "So:"),
        (
            [{"type": "text", "text": "a "}, {"type": "text", "text": "So:\n"}],
            [{"type": "text", "text": "a "}, {"type": "text", "text": "So:"}],
        ),
        ([], []),
    ],
    ids=str,
)
def test_last_text_of_the_assistant_does_not_end_in_white_space(content: Any, after: Any) -> None:
    body, lost = fit({"messages": [{"role": "assistant", "content": content}]})
    assert body == {"messages": [{"role": "assistant", "content": after}]}
    assert lost == ([] if content == after else ["trailing_white_space"])


def test_tools_of_one_name_are_an_error() -> None:
    search = {"type": "web_search_20250305", "name": "f"}
    with pytest.raises(EncodeError, match="name of another tool") as caught:
        fit({"tools": [{"name": "f"}, search]})
    assert caught.value.path == "tools[1]"


def test_one_tool_is_not_deferred() -> None:
    body, lost = fit({"tools": [{"name": "f", "defer_loading": True}]})
    assert body == {"tools": [{"name": "f"}]}
    assert lost == ["deferred_tool_loaded"]


@pytest.mark.parametrize(
    ("thinking", "default", "edits", "after"),
    [
        ({"type": "disabled"}, True, [CLEARS], None),
        (None, False, [CLEARS, COMPACTS], [COMPACTS]),
        (None, True, [CLEARS], [CLEARS]),
        ({"type": "enabled"}, False, [CLEARS], [CLEARS]),
        (None, False, [COMPACTS, 1], [COMPACTS, 1]),
    ],
)
def test_thinking_is_cleared_where_the_model_thinks(
    thinking: Any, default: bool, edits: list[Any], after: list[Any] | None
) -> None:
    body: dict[str, Any] = {"context_management": {"edits": edits}}
    if thinking is not None:
        body["thinking"] = thinking
    fitted, lost = fit(body, reasons_by_default=default)
    assert fitted.get("context_management") == (None if after is None else {"edits": after})
    assert lost == ([] if after == edits else ["context_management"])


# Requests of Claude Code and its like, for clouds


def encoded(body: dict[str, Any], server: str, model: str, beta: str = "") -> Encoded:
    headers = {"anthropic-beta": beta} if beta else {}
    asked = decode_request({"max_tokens": 100, **body}, "anthropic", headers=headers)
    return encode_request(structs.replace(asked, model=model), "anthropic", server=server)


QUESTION = {"role": "user", "content": "q"}


def test_unknown_fields_are_dropped_wherever_they_stand() -> None:
    """anthropics/claude-code#19513."""
    body = {
        "odd": 1,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "q", "odd": 1}], "x": 1}
        ],
        "system": [{"type": "text", "text": "s", "odd": 1}],
        "tools": [{"name": "f", "input_schema": {"type": "object", "odd": 1}, "odd": 1}],
    }
    sent = encoded(body, "copilot", "claude-sonnet-4.5")
    assert sent.body == {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
        "system": [{"type": "text", "text": "s"}],
        "tools": [{"name": "f", "input_schema": {"type": "object", "odd": 1}}],
        "model": "claude-sonnet-4.5",
    }
    assert [(loss.feature, loss.where) for loss in sent.losses] == [
        *(("odd", "request"), ("x", "messages"), ("odd", "messages"), ("odd", "system")),
        ("odd", "tools"),
    ]


def test_context_management_reaches_copilot_with_its_beta() -> None:
    """ericc-ch/copilot-api#217."""
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    body = {"messages": [QUESTION], "context_management": edits}
    sent = encoded(body, "copilot", "claude-sonnet-4.5")
    assert sent.body["context_management"] == edits
    assert sent.headers["anthropic-beta"] == "context-management-2025-06-27"


def test_form_of_an_output_stands_where_the_clouds_have_it() -> None:
    form = {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
    sent = encoded({"messages": [QUESTION], "output_format": form}, "vertex", "claude-sonnet-4-5")
    assert sent.body["output_config"] == {"format": form}
    assert "output_format" not in sent.body


def test_effort_reaches_the_models_of_bedrock_that_have_one() -> None:
    """anthropics/claude-code-action#1005."""
    body = {"messages": [QUESTION], "output_config": {"effort": "low"}}
    for model, expected in (
        ("anthropic.claude-sonnet-4-5-v1:0", None),
        ("anthropic.claude-opus-4-6-v1", {"effort": "low"}),
    ):
        assert encoded(body, "bedrock", model).body.get("output_config") == expected


def test_betas_that_bedrock_does_not_know_are_dropped_with_their_fields() -> None:
    """BerriAI/litellm#19877."""
    server = {"type": "url", "name": "docs", "url": "https://example.com/mcp"}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "docs"}
    tool = {"name": "f", "input_schema": {"type": "object"}}
    body = {"messages": [QUESTION], "mcp_servers": [server], "tools": [tool, toolset]}
    beta = "mcp-client-2025-11-20,context-1m-2025-08-07"
    sent = encoded(body, "bedrock", "anthropic.claude-sonnet-4-5-v1:0", beta)
    assert sent.body["tools"] == [tool]
    assert "mcp_servers" not in sent.body
    assert sent.body["anthropic_beta"] == ["context-1m-2025-08-07"]


def test_system_message_is_text_of_the_user_on_bedrock() -> None:
    """stdapi-ai/stdapi.ai#49."""
    body = {"messages": [QUESTION, {"role": "system", "content": "s"}]}
    sent = encoded(body, "bedrock", "anthropic.claude-opus-4-8")
    assert sent.body["messages"][1] == {"role": "user", "content": "<system>\ns\n</system>"}
