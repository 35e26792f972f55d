"""Requests of real clients, in their own dialect and in every other one, and back.

The judge of a translated request is the types of the target's official SDK.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from support.bodies.consecutive_turns import begins_with
from support.bodies.request_corpus import (
    RealRequest,
    captured_requests,
    needs_requests,
    real_requests,
    worked_examples,
)
from support.bodies.sdk_types import problems
from support.openai_responses.requests import within_the_types

from streamnorm import Encoded, EncodeError, Request, decode_request, encode_request
from streamnorm._core.bodies.projection.results import RepairPolicy

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
PAIRS = [(source, target) for source in DIALECTS for target in DIALECTS if source != target]

# What agents send outside of the types of the SDK of their own dialect.
OUTSIDE_THE_TYPES = {
    "anthropic": {
        "$.temperature: unknown key of MessageCreateParamsStreaming": {"aider_anthropic"},
    },
    "openai_chat": {},
    "openai_responses": {
        "$.client_metadata: unknown key of ResponseCreateParamsStreaming": {
            *("codex_gpt-5.1-codex", "codex_gpt-5.5_reasoning", "codex_gpt-6-sol_lite"),
            "codex_reasoning",
        },
        # Null in an item of reasoning.
        "$.input[].content: no array": {
            *("codex_gpt-5.5_reasoning", "codex_gpt-6-sol_lite", "codex_reasoning"),
        },
        # Text of the assistant as `output_text` in a message without an id.
        "$.input[].content[].type: not one of the words of the type": {"opencode_responses"},
        "$.input[].id: unknown key of EasyInputMessageParam": {
            *("codex_gpt-5.1-codex", "codex_gpt-5.5_reasoning", "codex_gpt-6-sol_lite"),
            "codex_reasoning",
        },
        "$.input[].status: unknown key of ResponseCustomToolCallParam": {"codex_gpt-6-sol_lite"},
        "$.tools[].search_content_types: unknown key of WebSearchToolParam": {
            "codex_gpt-5.5_reasoning"
        },
        "$.tools[].strict: missing": {"py_lc_responses"},
    },
    "gemini": {},
}

# Not a request of its dialect: the path is that of Chat Completions, the body `{"prompt": …}`.
NO_REQUESTS = {
    "chat/together__openllmetry-js__tion_114631371-should-set-attributes-in-span-for-streaming-"
    "completion_1484001317-recording"
}

# Nothing but instructions, which only Chat Completions and Responses accept, and state that only
# its own vendor has.
REFUSED = {
    "chat/openai__ai-gateway__testopenai-chat-streaming-detailed-usage": "messages",
    "gemini/google__rig__gemini-cached_content_matrix-use_streaming-1": "state.cachedContent",
    "responses/openai__maruel-genai__openairesponses-gpt-5.6-sol_thinking-GenStream-Tools-"
    "SquareRoot-2": "state.previous_response_id",
    "responses/openai__openai-dotnet__ResponsesTests-CanStreamBackgroundResponsesAsync": (
        "state.background"
    ),
    "ts_ai_responses__2": "state.item_reference",
}


# Real requests that begin with calls, which Gemini refuses before any turn of the user.
CALLS_FIRST = {
    *(
        f"chat/{server}__rig__{name}-streaming_tools-raw_followup_uses_tool_result_without_new_"
        "tool_calls-1"
        for server, name in (
            ("github-copilot", "copilot"),
            ("llamacpp", "llamacpp"),
            ("llamafile", "llamafile"),
            ("openrouter", "openrouter"),
        )
    ),
    "chat/mistral__rig__mistral-history_roundtrip_matrix-streaming_ministral_3b_raw_parallel_tool",
    "chat/openrouter__rig__openrouter-streaming_tools-stream_encrypted_reasoning_survives_into_"
    "the_next_turn-1",
}


def requests(dialect: str) -> Iterator[tuple[RealRequest, Request]]:
    """Yield the real requests of a dialect, and what they are decoded to."""
    for real in real_requests(dialect):
        if real.name not in NO_REQUESTS:
            before = copy.deepcopy(real.body)
            yield real, decode_request(real.body, dialect, path=real.path, headers=real.headers)
            assert real.body == before, real


def translated(real: RealRequest, request: Request, target: str) -> Encoded | None:
    """Return a request in another dialect, or None if it is known to have no form there."""
    try:
        made = encode_request(request, target, arguments="raw", missing_tools="drop")
    except EncodeError as exc:
        expected = REFUSED.get(real.name)
        if target == "gemini" and real.name in CALLS_FIRST:
            expected = "messages[0]"
        if exc.path != expected:
            raise
        return None
    assert REFUSED.get(real.name) in (None, "messages"), real
    return made


def refused(made: Encoded, dialect: str, model: str) -> list[str]:
    """Return what the SDK's types refuse; a server's path may name the model in its place."""
    body = within_the_types(made.body) if dialect == "openai_responses" else made.body
    found = problems(dialect, body, beta="anthropic-beta" in made.headers)
    return [each for each in found if model or each != "$.model: missing"]


@needs_requests
@pytest.mark.parametrize("dialect", DIALECTS)
def test_real_request_in_its_own_dialect_is_equal(dialect: str) -> None:
    count = 0
    for real, request in requests(dialect):
        made = encode_request(request, dialect, strict=True)
        assert made.body == real.body, real
        assert made.losses == (), real
        count += 1
    assert count >= 100


@needs_requests
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_real_request_is_of_the_types_of_another_sdk(source: str, target: str) -> None:
    for real, request in requests(source):
        made = translated(real, request, target)
        if made is not None:
            assert refused(made, target, request.model) == [], real


@needs_requests
@pytest.mark.parametrize(("source", "through"), PAIRS)
def test_real_request_comes_back_in_the_types_of_its_sdk(source: str, through: str) -> None:
    for real, request in requests(source):
        there = translated(real, request, through)
        if there is None:
            continue
        back = decode_request(there.body, through, path=there.path, headers=there.headers)
        again = encode_request(back, source, arguments="raw", missing_tools="drop")
        assert refused(again, source, request.model) == [], real
        assert len(calls(back)) == len(calls(request)), real


def calls(request: Request) -> list[str]:
    return [call.name for message in request.messages for call in message.tool_calls]


@needs_requests
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_agents_send_outside_the_types_is_listed(dialect: str) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for real in captured_requests(dialect):
        if real.path.partition("?")[0].endswith("/count_tokens"):
            continue  # which has no `max_tokens`
        is_beta = "anthropic-beta" in {name.lower() for name in real.headers}
        for problem in problems(dialect, real.body, beta=is_beta):
            agent = re.sub(r"__\d+$", "", real.name)
            found[re.sub(r"\[\d+\]", "[]", problem)].add(agent)
    assert found == OUTSIDE_THE_TYPES[dialect]


def without_marks(value: Any) -> Any:
    """Return a body without cache marks, which clients move from turn to turn."""
    if isinstance(value, dict):
        return {name: without_marks(v) for name, v in value.items() if name != "cache_control"}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


@needs_requests
@pytest.mark.parametrize("source", DIALECTS)
def test_next_request_of_an_agent_begins_with_the_one_before_in_every_dialect(source: str) -> None:
    known = {request.name: request for request in captured_requests(source)}
    count = 0
    for name, before in known.items():
        agent, _, number = name.rpartition("__")
        after = known.get(f"{agent}__{int(number) + 1}")
        if after is None:
            continue
        bodies = [without_marks(each.body) for each in (before, after)]
        if not begins_with(bodies[1], bodies[0], source):
            continue  # the agent began another conversation
        count += 1
        requests = [decode_request(body, source, path=before.path) for body in bodies]
        for target in DIALECTS:
            if name not in REFUSED and after.name not in REFUSED:
                first, second = (encode_request(request, target).body for request in requests)
                assert begins_with(second, first, target), (name, target)
    assert count >= 7


EXAMPLES = worked_examples()

# What the worked examples lose, by target; "all" are the losses of each.
LOST: dict[str, dict[str, set[str]]] = {
    "Parallel calls, image in a result, is_error, text after": {
        "openai_chat": {"tool_result_image_moved", "is_error"},
        "openai_responses": {"is_error"},
        "gemini": {"signature_placeholder"},
    },
    "Instruction in the middle": {
        "anthropic": {"system_moved", "max_tokens_defaulted"},
        "gemini": {"system_demoted"},
    },
    "Signed thinking in a tool loop, vendor switched": {
        "all": {"reasoning_dropped"},
        "openai_chat": {"reasoning"},  # a budget becomes an effort
        "openai_responses": {"reasoning"},
        "gemini": {"signature_placeholder"},
    },
    "Reasoning of two parts, encrypted, in a loop": {
        "all": {"reasoning_dropped", "id", "include"},
        "openai_chat": {"reasoning_summary"},
        "anthropic": {"store", "max_tokens_defaulted"},
        "gemini": {"store", "signature_placeholder"},
    },
    "Custom (freeform) tool": {
        "anthropic": {"custom_tool_wrapped", "max_tokens_defaulted"},
        "gemini": {"custom_tool_wrapped", "signature_placeholder"},
    },
    "Server tool in history, cited text": {
        "all": {"server_history_dropped", "citations"},
        "openai_chat": {"server_tool_dropped"},
        "openai_responses": {"max_uses"},
        "gemini": {"max_uses", "allowed_domains"},
    },
    "Structured output, strict tool": {
        "anthropic": {"schema_name", "max_tokens_defaulted"},
        "gemini": {"schema_name"},
    },
    "Prefill": {"all": {"prefill_not_continued"}},
    "Consecutive messages of one role": {"anthropic": {"max_tokens_defaulted"}},
    "Missing, late, duplicate results; repair=fill": {
        "all": {"result_filled", "duplicate_result", "results_reordered"},
        "anthropic": {"max_tokens_defaulted"},
        "openai_responses": {"is_error"},
        "gemini": {"signature_placeholder"},
    },
    "allowed_tools required, no parallel calls": {
        "anthropic": {"allowed_tools_filtered", "max_tokens_defaulted"},
        "gemini": {"parallel_tool_calls"},
    },
    "Effort, limits, sampling, identity": {
        "anthropic": {"temperature", "top_p", "seed", "service_tier", "metadata"},
        "openai_responses": {"stop_dropped", "seed"},
        "gemini": {"user", "metadata"},
    },
    "Namespace and deferred tool (Codex)": {
        "all": {"namespace_flattened"},
        "openai_chat": {"deferred_tool_loaded", "server_tool_dropped"},
        "anthropic": {"max_tokens_defaulted"},
        "gemini": {"deferred_tool_loaded", "server_tool_dropped", "signature_placeholder"},
    },
    "MCP server": {
        "openai_chat": {"mcp_server_dropped"},
        "gemini": {"allowed_tools"},
    },
}


def with_properties(value: Any) -> Any:
    """Return JSON whose parameters name their properties, be they none, as OpenAI demands."""
    if isinstance(value, list):
        return [with_properties(item) for item in value]
    if not isinstance(value, dict):
        return value
    parameters = {"type": "object", "properties": {}}
    is_bare = value.get("parameters") == {"type": "object"}
    return {
        name: parameters if is_bare and name == "parameters" else with_properties(item)
        for name, item in value.items()
    }


def example_body(example: dict[str, Any], dialect: str) -> dict[str, Any]:
    """Return a body of a worked example with the fields that all of them leave out."""
    body = example["bodies"][dialect]
    if dialect in ("openai_chat", "openai_responses") and dialect != example["src"]:
        body = with_properties(body)
    if dialect == "anthropic" != example["src"]:
        body = {"max_tokens": 32_000, **body}
    return body if dialect == "gemini" else {"model": "m", **body}


# Without it a model begins anew at each call of a tool (openai/openai-agents-python#919).
ENCRYPTED = {("Effort, limits, sampling, identity", "openai_responses")}


@needs_requests
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("example", EXAMPLES or [{}], ids=[e["title"] for e in EXAMPLES] or None)
def test_worked_example_comes_out_as_written_down(example: dict[str, Any], target: str) -> None:
    source = example["src"]
    request = decode_request(example_body(example, source), source)
    if source == target:
        assert encode_request(request, target, strict=True).body == example_body(example, target)
        return
    repair: RepairPolicy = "fill" if "repair=fill" in example["title"] else "error"
    made = encode_request(request, target, repair=repair, missing_tools="drop")
    body = dict(made.body)
    if (example["title"], target) in ENCRYPTED:
        assert body.pop("include") == ["reasoning.encrypted_content"]
    assert body == example_body(example, target)
    lost = LOST[example["title"]]
    found = {loss.feature for loss in made.losses}
    assert found == lost.get("all", set()) | lost.get(target, set())


@needs_requests
def test_worked_example_of_broken_results_is_refused_without_repair() -> None:
    example = next(each for each in EXAMPLES if "repair=fill" in each["title"])
    request = decode_request(example_body(example, "openai_chat"), "openai_chat")
    for target in DIALECTS:
        if target != "openai_chat":
            with pytest.raises(EncodeError, match=r"^messages\[\d\]\.(tool_calls|blocks)\[\d\]: "):
                encode_request(request, target)
