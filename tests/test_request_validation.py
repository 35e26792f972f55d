"""What `validate_request` returns, whichever rules there are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.mutations import damaged_body, json_value
from support.bodies.request_strategies import requests
from support.draws import Draws, draws, with_half_the_examples
from support.recording.secret_shapes import SHAPED

from streamnorm import DecodeError, EncodeError, Limits, Request, UnknownDialect, encode_request
from streamnorm._core.codec import MAX_PROBLEMS
from streamnorm.profiles import VENDOR
from streamnorm.profiles.rules import shipped_rules
from streamnorm.validation import RequestViolation, quoted, quoted_path, rules_for, validate_request

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
LEGAL: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Hi."}],
    },
    "openai_chat": {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hi."}]},
    "openai_responses": {"model": "gpt-4.1", "input": "Hi."},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]},
    "gemini_interactions": {"model": "gemini-3-pro-preview", "input": "Hi."},
}
TOO_FEW = {"model": "gpt-5", "input": "Hi.", "max_output_tokens": 10}
SAYS = (
    "Invalid 'max_output_tokens': integer below minimum value. "
    "Expected a value >= 16, but got 10 instead."
)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def rule_ids(dialect: str, *, server: str | None = None, model: str = "") -> set[str]:
    return {rule.id for rule in rules_for(dialect, server=server, model=model)}


# What is returned


@each_dialect
def test_legal_request_has_no_violations(dialect: str) -> None:
    assert validate_request(LEGAL[dialect], dialect) == []


@pytest.mark.parametrize("body", [TOO_FEW, json.dumps(TOO_FEW), json.dumps(TOO_FEW).encode()])
def test_violation_says_what_the_provider_answers(body: Any) -> None:
    assert validate_request(body, "responses") == [
        RequestViolation(
            rule="openai_responses.max_output_tokens",
            path="max_output_tokens",
            message=SAYS,
            status=400,
            type=None,
            code="integer_below_min_value",
        )
    ]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", "null", '{"a":1e', b"\xff"])
def test_body_that_is_no_json_object_is_an_error(body: Any) -> None:
    with pytest.raises(DecodeError):
        validate_request(body, "openai_chat")


def test_body_beyond_a_bound_is_an_error() -> None:
    with pytest.raises(DecodeError, match="expected at most 9"):
        validate_request(b'{"a": "bcdefg"}', "openai_chat", limits=Limits(max_event_bytes=9))
    with pytest.raises(DecodeError, match="nested deeper than 2"):
        validate_request({"a": [[[1]]]}, "openai_chat", limits=Limits(max_json_depth=2))


def test_unknown_dialect_is_an_error() -> None:
    with pytest.raises(UnknownDialect, match="'esperanto'"):
        validate_request({}, "esperanto")


def test_body_is_not_changed() -> None:
    body = json.loads(json.dumps(TOO_FEW))
    validate_request(body, "responses")
    assert body == TOO_FEW


# Whose rules hold


@each_dialect
def test_nameless_and_unknown_servers_are_the_vendor(dialect: str) -> None:
    own = rule_ids(dialect)
    assert own == rule_ids(dialect, server=VENDOR)
    assert own == rule_ids(dialect, server="a-server-that-nobody-knows")


def test_server_with_rules_or_profiles_has_its_own() -> None:
    assert validate_request(TOO_FEW, "responses", server="azure") != []
    # Known by its profiles alone, and by profiles of another dialect alone.
    assert validate_request(TOO_FEW, "responses", server="vllm") == []
    assert validate_request(TOO_FEW, "responses", server="cerebras") != []


def test_token_counts_are_no_requests_for_messages() -> None:
    assert validate_request(TOO_FEW, "responses", path="/v1/responses/input_tokens") == []
    assert validate_request(TOO_FEW, "responses", path="/v1/responses") != []


EMPTY_ENUM = {
    **LEGAL["gemini"],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "f",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"city": {"type": "STRING", "enum": []}},
                    },
                }
            ]
        }
    ],
}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"path": "/v1beta/models/gemini-3-pro-preview:generateContent"}, 1),
        ({"path": "/v1beta/models/gemini-2.5-pro:generateContent"}, 0),
        ({"model": "gemini-3-pro-preview"}, 1),
        (
            {
                "path": "/v1beta/models/gemini-2.5-pro:generateContent",
                "model": "gemini-3-pro-preview",
            },
            1,
        ),
        ({}, 0),
    ],
)
def test_model_is_that_of_the_option_the_path_or_the_body(
    options: dict[str, str], count: int
) -> None:
    found = validate_request(EMPTY_ENUM, "gemini", **options)
    assert [each.rule for each in found] == ["gemini.enum_values"] * count


def test_model_of_the_body_counts_where_it_stands_there() -> None:
    body = {**LEGAL["openai_responses"], "reasoning": {"effort": "minimal"}}
    assert validate_request({**body, "model": "gpt-5"}, "responses") == []
    assert validate_request({**body, "model": "gpt-5.1"}, "responses") != []
    assert validate_request({**body, "model": "gpt-5"}, "responses", model="gpt-5.1") != []


def test_headers_are_read_whatever_their_case() -> None:
    body = {**LEGAL["anthropic"], "context_management": {"edits": []}}
    beta = {"Anthropic-Beta": "context-management-2025-06-27"}
    assert validate_request(body, "anthropic", headers=beta) == []
    assert validate_request(body, "anthropic") != []


# How much is returned


@pytest.mark.parametrize("count", [MAX_PROBLEMS - 1, MAX_PROBLEMS, MAX_PROBLEMS + 1])
def test_violations_are_limited(count: int) -> None:
    messages = [{"role": "nobody", "content": "Hi."}] * count
    found = validate_request({**LEGAL["openai_chat"], "messages": messages}, "openai_chat")
    assert len(found) == min(count, MAX_PROBLEMS)
    assert {each.rule for each in found} == {"openai_chat.roles"}


# What is quoted


@pytest.mark.parametrize("number", [-(10**79), -(10**78)])
def test_long_number_is_not_quoted(number: int) -> None:
    [found] = validate_request({**TOO_FEW, "max_output_tokens": number}, "responses")
    quoted = "…" if number == -(10**79) else str(number)
    assert f"but got {quoted} instead" in found.message


SECRETS = tuple(secret for secret in SHAPED.values() if len(secret) <= 80)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("text", ["{}", "Bearer {}", "key={}", "x.{}.y"])
def test_secret_is_not_quoted(secret: str, text: str) -> None:
    assert quoted(text.format(secret)) == "…"
    assert quoted_path(f"tools[0].{text.format(secret)}.type") == "…"


@pytest.mark.parametrize(
    "secret",
    [
        *("sk_live_51Habcdefghijkl", "rk_test_51Habcdefghijkl", "whsec_abcdefghijkl0123"),
        *("npm_abcdefghijkl01234567", "tvly-abcdefghijkl0123", "ASIAIOSFODNN7EXAMPLE"),
        *("https://user:hunter2@mcp.example/sse", "postgres://me:pw@db/x"),
    ],
)
def test_secret_of_a_service_in_a_tool_is_not_quoted(secret: str) -> None:
    assert quoted(secret) == "…"
    assert quoted_path(f"tools[0].{secret}.type") == "…"


@pytest.mark.parametrize(
    "text",
    [
        *("", "x" * 80, "task-list", "gpt-5-pro", "claude-opus-4-5-20251101", "get_weather"),
        *("call_0123456789abcdef0123456789", "rs_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e77"),
        *("organization", "projects_of_a_team", "keyJoin", "https://mcp.example:443/sse"),
        *("risk_test_results_of_2026", "http://[::1]:80/a@b"),
    ],
)
def test_short_text_is_quoted(text: str) -> None:
    assert quoted(text) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *(("x" * 81, "…"), (True, "true"), (False, "false"), (1, "1"), (0.5, "0.5"), (None, "…")),
        *(([], "…"), ({"a": "b"}, "…")),
    ],
)
def test_other_values_are_quoted_as_json_or_not_at_all(value: object, shown: str) -> None:
    assert quoted(value) == shown


def test_names_in_a_path_are_quoted_as_others_are() -> None:
    assert quoted_path("input[12].content[0].type") == "input[12].content[0].type"
    assert quoted_path(f"tools[0].{'x' * 81}.type") == "tools[0].….type"
    assert quoted_path("") == ""
    assert quoted_path("a." * 600) == f"{'a.' * 500}…"


# Any JSON

_SERVERS = sorted({server for rule in shipped_rules() for server in rule.servers})


def st_servers() -> st.SearchStrategy[str | None]:
    return st.none() | st.sampled_from(_SERVERS)


def check_judgement(body: dict[str, Any], dialect: str, server: str | None) -> None:
    """Check that a body is judged, and that what is said of it is bounded."""
    try:
        found = validate_request(body, dialect, server=server)
    except DecodeError:  # nested too deep
        return
    rules = {rule.id: rule for rule in shipped_rules() if rule.dialect == dialect}
    assert len(found) <= MAX_PROBLEMS
    for each in found:
        rule = rules[each.rule]
        assert (each.status, each.type, each.code) == (rule.status, rule.type, rule.code)
        assert len(each.path) <= 1001
        for shown in (each.message, each.path):
            assert LONG[:81] not in shown
            assert not any(secret in shown for secret in SECRETS)


def with_words(d: Draws, value: Any, words: tuple[str, ...]) -> Any:
    """Return a value in which some of its texts and keys are words."""
    match value:
        case dict():
            return {
                d.pick(words) if d.flag(9) else key: with_words(d, item, words)
                for key, item in value.items()
            }
        case list():
            return [with_words(d, item, words) for item in value]
        case str():
            return d.pick(words) if d.flag(5) else value
        case _:
            return value


LONG = "é" * 300
WORDS = (*SECRETS, LONG)


@each_dialect
@with_half_the_examples
@given(d=draws(), server=st_servers())
def test_any_object_is_judged(dialect: str, d: Draws, server: str | None) -> None:
    value = json_value(d, 6)
    body = value if isinstance(value, dict) else {"messages": value, "input": value}
    check_judgement(with_words(d, body, WORDS), dialect, server)


@each_dialect
@with_half_the_examples
@given(request=requests(), d=draws(), server=st_servers())
def test_damaged_request_is_judged(
    dialect: str, request: Request, d: Draws, server: str | None
) -> None:
    try:
        body = encode_request(request, dialect, repair="fill").body
    except EncodeError:
        body = LEGAL[dialect]
    check_judgement(with_words(d, damaged_body(d, body), WORDS), dialect, server)
