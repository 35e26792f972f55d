"""Which upstreams answer a request."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm._registry import DIALECTS
from streamnorm._upstream.requests import RequestRefused
from streamnorm.gateway import Config, ModelConfig, UpstreamConfig
from streamnorm.gateway.routing import Routing

UPSTREAMS = {
    "local": UpstreamConfig(dialect="chat", base_url="http://127.0.0.1:8000/v1/", server="vllm"),
    "claude": UpstreamConfig(dialect="claude", base_url="https://h", key="env:KEY"),
    "codex": UpstreamConfig(dialect="responses", base_url="https://h", key="env:KEY"),
    "google": UpstreamConfig(dialect="gemini", base_url="https://h", key="client"),
}


def routing(*models: ModelConfig, **upstreams: UpstreamConfig) -> Routing:
    config = Config(upstreams=upstreams or UPSTREAMS, models=list(models))
    return Routing(config, {"KEY": "canary-7f3a"})


def entry(match: str, *to: str, **options: Any) -> ModelConfig:
    return ModelConfig(match=match, to=list(to), **options)


def names(found: Routing, model: str, client: str = "anthropic") -> list[tuple[str, str | None]]:
    targets = found.targets(model, DIALECTS[client])
    return [(target.name, target.upstream.model) for target in targets]


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("openai_chat", "local"),
        ("anthropic", "claude"),
        ("openai_responses", "codex"),
        ("gemini", "google"),
    ],
)
def test_without_models_the_upstream_of_the_dialect_answers(client: str, name: str) -> None:
    assert names(routing(), "whatever", client) == [(name, None)]
    assert names(routing(), "", client) == [(name, None)]


def test_without_models_and_without_the_dialect_the_first_upstream_answers() -> None:
    found = routing(local=UPSTREAMS["local"], codex=UPSTREAMS["codex"])
    assert names(found, "m", "gemini") == [("local", None)]


def test_first_entry_that_matches_counts() -> None:
    found = routing(
        entry("claude-opus-?", "claude/opus", "local/qwen3/32b"),
        entry("claude-*", "local", "claude"),
        entry("*[1m]", "codex"),
        entry("claude-x", "google"),
    )
    assert names(found, "claude-opus-5") == [("claude", "opus"), ("local", "qwen3/32b")]
    assert names(found, "claude-x") == [("local", None), ("claude", None)]
    assert names(found, "gpt[1m]") == [("codex", None)]
    assert found.names.find("claude-x") == (1, "claude-x")
    for model in ("Claude-x", "gpt1", "gpt", "x-claude-"):
        with pytest.raises(RequestRefused) as raised:
            names(found, model)
        assert str(raised.value) == (
            f"model {model!r} is not configured, expected one of the list of models"
        )
        assert raised.value.error.status_hint == 404
        assert raised.value.error.code == "model_not_found"


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("m" * 64, "'" + "m" * 64 + "'"),
        ("m" * 65, "'" + "m" * 61 + "...'"),
        ("a\x1b[31m\n", r"'a\x1b[31m\n'"),
        ("\ud800\u202e", r"'\ud800\u202e'"),
    ],
)
def test_name_of_a_model_is_shown_in_one_short_line(model: str, shown: str) -> None:
    with pytest.raises(RequestRefused) as raised:
        names(routing(entry("x", "local")), model)
    assert str(raised.value).startswith(f"model {shown} is not configured, ")


def test_request_without_a_model_needs_one_where_models_are_configured() -> None:
    with pytest.raises(RequestRefused, match="no name of a model, expected one") as raised:
        names(routing(entry("m", "local")), "")
    assert raised.value.error.status_hint == 400
    assert names(routing(entry("*", "local")), "") == [("local", None)]


def test_name_of_any_length_is_matched_in_linear_time() -> None:
    found = routing(entry("*a*a*a*a*a*a*b", "local"))
    with pytest.raises(RequestRefused):
        names(found, "a" * 100_000)


def test_targets_have_the_options_of_their_model() -> None:
    options = entry("m", "local", max_tokens=5)
    (target,) = routing(options).targets("m", DIALECTS["gemini"])
    assert target.options == options
    assert not target.normalize
    assert target.upstream.dialect == "openai_chat"
    assert target.upstream.server == "vllm"
    assert target.upstream.base_url == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("name", "headers", "forwards_key"),
    [
        ("local", {}, False),
        ("claude", {"x-api-key": "canary-7f3a"}, False),
        ("codex", {"authorization": "Bearer canary-7f3a"}, False),
        ("google", {}, True),
    ],
)
def test_key_is_sent_in_the_header_of_the_vendor_and_not_shown(
    name: str, headers: dict[str, str], *, forwards_key: bool
) -> None:
    (target,) = routing(entry("m", name)).targets("m", DIALECTS["gemini"])
    assert target.upstream.headers == headers
    assert target.upstream.forwards_key is forwards_key
    assert "canary" not in repr(target) + str(target.upstream) + repr([target])


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://api.groq.com/openai/v1", "groq"),
        ("http://127.0.0.1:8000/v1", "compatible"),
        ("http://models.internal/v1", "compatible"),
    ],
)
def test_server_is_known_by_its_host(url: str, server: str) -> None:
    upstream = UpstreamConfig(dialect="chat", base_url=url)
    (target,) = routing(only=upstream).targets("m", DIALECTS["gemini"])
    assert target.upstream.server == server
