"""Reasoning, output format, service tier and the compaction of context, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.bodies import Body, asked, read, rewritten, write

from streamnorm import (
    DecodeError,
    InputMessage,
    OutputFormat,
    ReasoningOptions,
    Request,
    Text,
    encode_request,
)

SCHEMA: Body = {"type": "object", "properties": {}, "additionalProperties": False}
CLEARS: Body = {"type": "clear_thinking_20251015", "keep": "all"}
COMPACTS: Body = {
    "type": "compact_20260112",
    "trigger": {"type": "input_tokens", "value": 100_000},
}
BRIEFLY: Body = {**COMPACTS, "instructions": "Briefly"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "disabled"}}, ReasoningOptions("off")),
        ({"thinking": {"type": "adaptive"}}, ReasoningOptions("adaptive")),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            ReasoningOptions("budget", budget_tokens=2048),
        ),
        ({"thinking": {"type": "enabled"}}, ReasoningOptions("budget")),
        (
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            ReasoningOptions("adaptive", show="auto"),
        ),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            ReasoningOptions("adaptive", show="none"),
        ),
        (
            {"thinking": {"type": "adaptive", "display": "updates"}},
            ReasoningOptions("adaptive", show="auto", extra={"anthropic": {"display": "updates"}}),
        ),
        (
            {"thinking": {"type": "between_tools"}},
            ReasoningOptions(extra={"anthropic": {"type": "between_tools"}}),
        ),
        (
            {
                "thinking": {
                    "type": "adaptive",
                    "block_binding": {"prefix_mismatch_behavior": "drop_block"},
                }
            },
            ReasoningOptions(
                "adaptive",
                extra={"anthropic": {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}},
            ),
        ),
        ({"output_config": {"effort": "xhigh"}}, ReasoningOptions(effort="xhigh")),
        (
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
            ReasoningOptions("off", "low"),
        ),
    ],
)
def test_reasoning_is_read_and_written_again(fields: Body, expected: ReasoningOptions) -> None:
    assert read(**fields).reasoning == expected
    assert rewritten(**fields) == asked(**fields)


@pytest.mark.parametrize(
    "fields", [{}, {"thinking": None}, {"output_config": None}, {"output_config": {}}]
)
def test_reasoning_may_not_be_said(fields: Body) -> None:
    assert read(**fields).reasoning is None


@pytest.mark.parametrize(
    ("options", "thinking", "losses"),
    [
        (
            ReasoningOptions("adaptive", show="detailed"),
            {"type": "adaptive", "display": "summarized"},
            [("reasoning_summary", "written as summarized")],
        ),
        (ReasoningOptions(show="auto"), None, [("reasoning_summary", "dropped without reasoning")]),
        (
            ReasoningOptions("off", extra={"anthropic": {"display": "updates", "depth": 2}}),
            {"type": "disabled", "depth": 2},
            [],
        ),
        (
            ReasoningOptions(show="auto", extra={"anthropic": {"display": "updates"}}),
            {"display": "updates"},
            [],
        ),
        (ReasoningOptions(extra={"gemini": {"a": 1}}), None, []),
    ],
)
def test_what_reasoning_shows_needs_reasoning(
    options: ReasoningOptions, thinking: Body | None, losses: list[tuple[str, str]]
) -> None:
    wrote = write(Request(reasoning=options))
    assert (wrote.body.get("thinking"), wrote.losses) == (thinking, losses)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            {"type": "json_schema", "schema": SCHEMA},
            OutputFormat("json_schema", SCHEMA, strict=True),
        ),
        (
            {"type": "json_schema", "schema": SCHEMA, "name": "ans"},
            OutputFormat("json_schema", SCHEMA, strict=True, extra={"anthropic": {"name": "ans"}}),
        ),
    ],
)
def test_schema_of_the_answer_is_read_and_written_again(form: Body, expected: OutputFormat) -> None:
    fields = {"output_config": {"effort": "low", "format": form}}
    assert read(**fields).output == expected
    assert rewritten(**fields) == asked(**fields)
    older = {"output_config": {"effort": "low"}, "output_format": form}
    assert read(**older).output == expected
    assert rewritten(**older) == asked(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"output_config": {"format": {"type": "verse"}}},
        {"output_format": {"type": "verse"}},
        {"output_config": {"task_budget": {"type": "tokens", "total": 10}}},
        {
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
            "output_format": {"type": "json_schema", "schema": {}},
        },
    ],
)
def test_other_output_fields_are_kept(fields: Body) -> None:
    request = read(**fields)
    assert request.extra is not None
    assert request.extra["anthropic"].keys() <= fields.keys()
    assert rewritten(**fields) == asked(**fields)


def test_schema_is_all_of_the_output() -> None:
    output = OutputFormat("json_schema", SCHEMA, "ans", "The answer", strict=False)
    wrote = write(Request(output=output))
    assert wrote.body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert wrote.losses == [
        ("schema_name", "dropped"),
        ("schema_description", "dropped"),
        ("schema_strict", "enforced"),
    ]


def test_output_without_a_schema_is_any_json() -> None:
    wrote = write(Request(output=OutputFormat("json_schema")))
    assert wrote.body["output_config"] == {"format": {"type": "json_schema", "schema": {}}}
    assert wrote.losses == []


def test_output_of_text_need_not_be_said() -> None:
    assert write(Request(output=OutputFormat("text"))) == ({"messages": []}, [], [])


@pytest.mark.parametrize(
    ("word", "tier"), [("auto", "auto"), ("standard_only", "default"), ("express", None)]
)
def test_service_tier_is_read_and_written_again(word: str, tier: str | None) -> None:
    assert read(service_tier=word).service_tier == tier
    assert rewritten(service_tier=word) == asked(service_tier=word)


@pytest.mark.parametrize(
    ("management", "tokens", "rest"),
    [
        ({"edits": [COMPACTS]}, 100_000, None),
        ({"edits": [CLEARS]}, None, {"edits": [CLEARS]}),
        (
            {"edits": [CLEARS, BRIEFLY]},
            100_000,
            {"edits": [CLEARS, {"type": "compact_20260112", "instructions": "Briefly"}]},
        ),
        (
            {"edits": [COMPACTS], "mode": 2},
            100_000,
            {"edits": [{"type": "compact_20260112"}], "mode": 2},
        ),
        (
            {"edits": [{"type": "compact_20260112"}]},
            None,
            {"edits": [{"type": "compact_20260112"}]},
        ),
        ({"edits": 1}, None, {"edits": 1}),
        ({"mode": 2}, None, {"mode": 2}),
        *(
            ({"edits": [edit]}, None, {"edits": [edit]})
            for edit in (
                {"type": "compact_20260112", "trigger": {"type": "input_tokens"}},
                {"type": "compact_20260112", "trigger": {"type": "turns", "value": 3}},
                {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": "3"}},
                "compact",
            )
        ),
    ],
)
def test_compaction_is_read_and_written_again(
    management: Body, tokens: int | None, rest: Body | None
) -> None:
    request = read(context_management=management)
    assert request.compact_at_tokens == tokens
    assert request.extra == (None if rest is None else {"anthropic": {"context_management": rest}})
    assert rewritten(context_management=management) == asked(context_management=management)


@pytest.mark.parametrize(
    ("kept", "edits"),
    [
        (None, [COMPACTS]),
        ({"edits": [CLEARS]}, [CLEARS, COMPACTS]),
        ({"edits": 1}, [COMPACTS]),
        (1, [COMPACTS]),
    ],
)
def test_compaction_is_added_to_other_edits(kept: Any, edits: list[Body]) -> None:
    extra = None if kept is None else {"anthropic": {"context_management": kept}}
    request = Request(compact_at_tokens=100_000, extra=extra)
    assert write(request).body["context_management"] == {"edits": edits}


def test_conversation_is_compacted_no_earlier_than_the_api_allows() -> None:
    hi = InputMessage("user", (Text("Hi"),))
    request = Request(model="claude-opus-5", messages=(hi,), max_tokens=9, compact_at_tokens=20_000)
    made = encode_request(request, "anthropic")
    trigger = {"type": "input_tokens", "value": 50_000}
    edits = [{"type": "compact_20260112", "trigger": trigger}]
    assert made.body["context_management"] == {"edits": edits}
    assert [(loss.feature, loss.detail) for loss in made.losses] == [
        ("compact_at_tokens", "written as 50000")
    ]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"thinking": "on"}, "thinking"),
        ({"thinking": {}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": "1"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "display": 1}}, "thinking.display"),
        ({"output_config": 1}, "output_config"),
        ({"output_config": {"effort": 1}}, "output_config.effort"),
        ({"output_config": {"format": 1}}, "output_config.format"),
        ({"output_format": 1}, "output_format"),
        ({"service_tier": 1}, "service_tier"),
        ({"context_management": 1}, "context_management"),
    ],
)
def test_broken_option_is_refused_with_its_path(fields: Body, path: str) -> None:
    with pytest.raises(DecodeError) as error:
        read(**fields)
    assert error.value.path == f"$.{path}"


def test_null_of_an_inner_field_is_no_loss() -> None:
    request = read(metadata={"user_id": None})
    assert request.extra == {"anthropic": {"metadata": {"user_id": None}}}
    assert encode_request(request, "openai_chat").losses == ()
