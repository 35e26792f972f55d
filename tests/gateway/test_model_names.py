"""Aliases of models: which names they stand for, and which the lists have."""

from __future__ import annotations

from typing import Any

import pytest
from support.gateway.calls import JSON, NOWHERE, POSTS, asked, called, every_dialect, opened
from support.gateway.servers import gateway_config, served
from support.http.scripted_upstream import ScriptedUpstream

from streamnorm._core.events import Completed, Usage
from streamnorm.gateway import ConfigError, ModelConfig, UpstreamConfig
from streamnorm.gateway.metrics import Metrics
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.routing import ModelNames

ANTHROPIC = (*JSON, ("x-api-key", "k"), ("anthropic-version", "2023-06-01"))
GEMINI = (*JSON, ("x-goog-api-key", "k"))
LIST = {"object": "list", "data": [{"id": "qwen3"}, {"id": "claude-9"}, {"id": "gpt-6"}]}


def model(match: str, alias: str | None, *to: str) -> ModelConfig:
    return ModelConfig(match=match, to=[*to] or ["local"], alias=alias)


MODELS = [
    model("small", "claude-tiny", "local/qwen3-0.6b"),
    model("gpt-*", "claude-*-proxy"),
    model("claude-*", None),
    model("*", "claude-x-*"),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("small", (0, "small")),
        ("claude-tiny", (0, "small")),
        ("claude-gpt-6-proxy", (1, "gpt-6")),
        ("gpt-6", (1, "gpt-6")),
        ("claude-gpt--proxy", (1, "gpt-")),
        # An alias is only that of what its entry matches.
        ("claude-qwen-proxy", (2, "claude-qwen-proxy")),
        ("claude-x-qwen3", (2, "claude-x-qwen3")),
        ("claude--proxy", (2, "claude--proxy")),
        ("claude-tiny2", (2, "claude-tiny2")),
        ("qwen3", (3, "qwen3")),
        ("", (3, "")),
    ],
)
def test_first_entry_with_a_name_or_its_alias_counts(name: str, found: tuple[int, str]) -> None:
    assert ModelNames(MODELS).find(name) == found


def test_alias_counts_before_the_match_of_its_entry() -> None:
    names = ModelNames([model("*", "claude-*")])
    assert names.find("claude-qwen3") == (0, "qwen3")
    assert names.find("claude-") == (0, "claude-")  # no model has an empty name
    # A model that another's alias hides is not listed: it could not be asked for.
    assert names.names_of(0, "qwen3") == ["qwen3", "claude-qwen3"]
    assert names.names_of(0, "claude-qwen3") == ["claude-claude-qwen3"]


def test_start_and_end_of_an_alias_do_not_overlap() -> None:
    names = ModelNames([model("m*", "aba*ba")])
    assert names.find("aba") is None
    assert names.find("abamba") == (0, "m")


def test_name_of_no_entry_is_not_found() -> None:
    assert ModelNames(MODELS[:2]).find("qwen3") is None
    assert ModelNames([]).find("qwen3") is None


@pytest.mark.parametrize("alias", ["*", "a**", "a*b*", "claude-?", "?*", "a\n*\n*"])
def test_alias_that_stands_for_no_name_is_refused(alias: str) -> None:
    with pytest.raises(ConfigError, match=r"^models\[0\]\.alias: .*, expected a name, with one \*"):
        ModelNames([model("m*", alias)])


@pytest.mark.parametrize("match", ["*", "gpt-?", "a*b"])
def test_one_alias_for_several_models_is_refused(match: str) -> None:
    with pytest.raises(ConfigError, match=r"^models\[1\]\.alias: one name for all models of"):
        ModelNames([MODELS[0], model(match, "claude-local")])


# At the gateway


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("target", "headers", "field"),
    [("/v1/models", JSON, "id"), ("/v1/models", ANTHROPIC, "id"), ("/v1/models", GEMINI, "name")],
)
async def test_list_has_the_aliases_besides(target: str, headers: Any, field: str) -> None:
    upstream = ScriptedUpstream({"/v1/models": LIST})
    async with (
        served(upstream) as url,
        opened(url, models=[*MODELS[:2], model("*", "claude-x-*")]) as app,
    ):
        _, body = await asked(app, target, method="GET", headers=headers)
    listed = body.get("data", body.get("models"))
    assert [entry[field].removeprefix("models/") for entry in listed] == [
        *("small", "claude-tiny"),
        *("gpt-6", "claude-gpt-6-proxy"),
        *("qwen3", "claude-x-qwen3", "claude-9", "claude-x-claude-9"),
    ]


@pytest.mark.anyio
async def test_claude_code_finds_the_models_of_another_server() -> None:
    """It lists what begins with `claude` or `anthropic`, by `display_name`."""
    async with opened(NOWHERE, models=[model("qwen3-32b", "claude-*")]) as app:
        target = "/v1/models?limit=1000"
        status, body = await asked(app, target, method="GET", headers=ANTHROPIC)
    assert status == 200
    assert [(entry["id"], entry["display_name"]) for entry in body["data"]] == [
        ("qwen3-32b", "qwen3-32b"),
        ("claude-qwen3-32b", "qwen3-32b"),
    ]
    assert body["has_more"] is False


@pytest.mark.anyio
@pytest.mark.parametrize("headers", [JSON, ANTHROPIC, GEMINI])
async def test_one_model_is_described_under_its_alias(headers: Any) -> None:
    answers = {"/v1/models/gpt-6": {"id": "gpt-6", "created": 5, "owned_by": "acme"}}
    upstream = ScriptedUpstream(answers)
    async with served(upstream) as url, opened(url, models=MODELS) as app:
        for name in ("gpt-6", "claude-gpt-6-proxy"):
            status, body = await asked(app, f"/v1/models/{name}", method="GET", headers=headers)
            assert status == 200
            assert body.get("id", body.get("name", "").removeprefix("models/")) == name
    assert [sent.target for sent in upstream.requests] == ["/v1/models/gpt-6"] * 2


@pytest.mark.anyio
@pytest.mark.parametrize("headers", [JSON, ANTHROPIC, GEMINI])
async def test_model_that_the_configuration_lists_is_found(headers: Any) -> None:
    """Servers such as llama.cpp list their models and describe none."""
    upstream = ScriptedUpstream({})
    async with served(upstream) as url, opened(url, models=MODELS) as app:
        for name in ("small", "claude-tiny"):
            status, body = await asked(app, f"/v1/models/{name}", method="GET", headers=headers)
            assert status == 200
            assert body.get("id", body.get("name", "").removeprefix("models/")) == name
        status, _ = await asked(app, "/v1/models/gpt-7", method="GET", headers=headers)
        assert status == 404


@pytest.mark.anyio
@pytest.mark.parametrize("upstream_dialect", POSTS)
@every_dialect
async def test_request_for_an_alias_asks_for_the_model(client: str, upstream_dialect: str) -> None:
    upstream = ScriptedUpstream({})
    target, body = POSTS[client]
    target = target.replace("/m:", "/claude-gpt-6-proxy:").replace("/m/", "/claude-gpt-6-proxy/")
    body = {**body, "model": "claude-gpt-6-proxy"} if "model" in body else body
    async with served(upstream) as url:
        upstreams = {"local": UpstreamConfig(dialect=upstream_dialect, base_url=url)}
        async with opened(upstreams, models=MODELS) as app:
            await called(app, target, body)
    (sent,) = upstream.requests
    if upstream_dialect == "gemini":
        assert sent.target == "/v1beta/models/gpt-6:generateContent"
    elif upstream_dialect == "bedrock_converse":
        assert sent.target == "/model/gpt-6/converse"
    else:
        assert sent.json["model"] == "gpt-6"


@pytest.mark.anyio
async def test_alias_of_a_model_with_another_name_upstream_asks_for_that() -> None:
    upstream = ScriptedUpstream({})
    async with served(upstream) as url, opened(url, models=MODELS) as app:
        for name in ("small", "claude-tiny"):
            await called(app, "/v1/messages", {**POSTS["anthropic"][1], "model": name})
            await called(app, "/v1/messages/count_tokens", {**POSTS["anthropic"][1], "model": name})
    assert [sent.json["model"] for sent in upstream.requests] == ["qwen3-0.6b"] * 2


def test_aliases_are_no_labels_of_metrics() -> None:
    metrics = Metrics(gateway_config("http://127.0.0.1:1", models=MODELS[:2]))
    for number in range(20):
        for name in (f"claude-gpt-{number}-proxy", "claude-tiny", f"claude-{number}"):
            call = CallRecord(client="anthropic", operation="message", started_at=0.0, model=name)
            call.status, call.outcome = 200, Completed("end_turn", Usage())
            metrics.begin(call)
            metrics.end(call)
    text = metrics.text().decode()
    labels = {
        line.partition('model="')[2].partition('"')[0]
        for line in text.splitlines()
        if line.startswith("streamnorm_requests_total{")
    }
    assert labels == {"gpt-*", "small", "other"}
