"""Pages without a backend of their own: what they get, and what they may not decide."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway.calls import CANARY, JSON, NOWHERE, opened, scripted
from support.gateway.pages import (
    AG,
    AG_BODY,
    BODIES,
    HELLO,
    OPTIONS,
    PATHS,
    UI,
    UI_BODY,
    ask,
    between,
    chunks_of,
    every_page,
    every_route,
    text_of,
)
from support.gateway.servers import served
from support.gateway.upstreams import Head, Records, StepUpstream
from support.http.scripted_upstream import Answered, ScriptedUpstream
from support.streams.content import PROVIDERS

from streamnorm import Citation, Failed, Text
from streamnorm.gateway import ConfigError, ModelConfig, PageConfig, UpstreamConfig
from streamnorm.gateway.config import config_of
from streamnorm.testing import tool_call
from streamnorm.validation import validate

pytestmark = pytest.mark.anyio

TOOL = {"name": "alert", "description": "Shows a text", "parameters": {"type": "object"}}
SYSTEM = {
    UI: {"id": "0", "role": "system", "parts": [{"type": "text", "text": CANARY}]},
    AG: {"id": "0", "role": "system", "content": CANARY},
}


@every_page
@pytest.mark.parametrize("dialect", PROVIDERS)
async def test_page_gets_the_model_of_the_configuration(page: str, dialect: str) -> None:
    async with between(dialect=dialect) as (app, provider):
        caller = await ask(app, page)
    assert caller.status == 200
    assert caller.headers["content-type"].startswith("text/event-stream")
    assert validate(b"".join(caller.bodies), page) == []
    said = [each["delta"] for each in chunks_of(caller) if "delta" in each]
    assert "".join(said) == "Hi there."
    (sent,) = provider.requests
    assert "m-1" in (sent.body.get("model") or sent.path)
    written = json.dumps(sent.body)
    assert "Be brief." in written
    assert "99" in written


async def test_stream_of_use_chat_says_its_protocol() -> None:
    async with between() as (app, _):
        caller = await ask(app, UI)
    assert caller.headers["x-vercel-ai-ui-message-stream"] == "v1"


async def test_run_has_the_ids_of_its_request() -> None:
    async with between() as (app, _):
        first, *_, last = chunks_of(await ask(app, AG))
    assert first["type"], last["type"] == ("RUN_STARTED", "RUN_FINISHED")
    for event in (first, last):
        assert (event["threadId"], event["runId"]) == ("t-1", "r-1")


@every_page
async def test_page_chooses_neither_model_nor_options(page: str) -> None:
    chosen = {
        "model": f"{CANARY}-model",
        "system": CANARY,
        "max_tokens": 31_999,
        "temperature": 1.5,
        "forwardedProps": {"model": f"{CANARY}-model", "max_tokens": 31_999},
        "stream": False,
    }
    async with between(dialect="openai_chat") as (app, provider):
        caller = await ask(app, page, {**BODIES[page], **chosen})
    assert caller.status == 200
    (sent,) = provider.requests
    written = json.dumps(sent.body)
    assert sent.body["model"] == "m-1"
    assert not any(word in written for word in (CANARY, "31999", "1.5"))
    assert sent.body["stream"] is True


@every_page
async def test_system_messages_of_a_page_are_refused(page: str) -> None:
    body = {**BODIES[page], "messages": [SYSTEM[page], *BODIES[page]["messages"]]}
    async with between() as (app, provider):
        caller = await ask(app, page, body)
        assert caller.status == 400
        assert "a system message of the page, expected none" in text_of(caller)
        assert CANARY not in text_of(caller)
        assert not provider.requests


@every_page
async def test_system_messages_may_be_allowed(page: str) -> None:
    body = {**BODIES[page], "messages": [SYSTEM[page], *BODIES[page]["messages"]]}
    options = PageConfig(model="m-1", system="Be brief.", allow_system=True)
    async with between(options=options) as (app, provider):
        assert (await ask(app, page, body)).status == 200
    written = json.dumps(provider.requests[0].body)
    # The configuration's come first.
    assert 0 < written.index("Be brief.") < written.index(CANARY)


async def test_tools_of_a_page_are_refused() -> None:
    async with between() as (app, provider):
        caller = await ask(app, AG, {**AG_BODY, "tools": [TOOL]})
        assert caller.status == 400
        message = json.loads(text_of(caller))["message"]
        assert "tools of the page, expected none" in message
        assert not provider.requests


async def test_tools_of_a_page_may_be_allowed() -> None:
    options = PageConfig(model="m-1", allow_tools=True)
    called_tool = tool_call("alert", text="x")
    async with between(called_tool, options=options) as (app, provider):
        chunks = chunks_of(await ask(app, AG, {**AG_BODY, "tools": [TOOL]}))
    assert [each["name"] for each in provider.requests[0].body["tools"]] == ["alert"]
    assert [each["type"] for each in chunks if "toolCallName" in each] == ["TOOL_CALL_START"]


@every_page
async def test_tools_of_the_provider_are_the_configurations(page: str) -> None:
    options = PageConfig(model="m-1", tools=["web_search"])
    async with between(options=options) as (app, provider):
        assert (await ask(app, page)).status == 200
    (tool,) = provider.requests[0].body["tools"]
    assert tool["type"].startswith("web_search_")


NAMED_FILES = {
    UI: [
        {"mediaType": "image/png", "url": "https://h/x.png"},
        {"mediaType": "application/pdf", "url": "gs://bucket/x.pdf"},
        {"mediaType": "application/pdf", "url": "", "providerReference": {"anthropic": "file-1"}},
    ],
    AG: [
        {"type": "image", "source": {"type": "url", "value": "https://h/x.png"}},
        {"type": "document", "source": {"type": "file", "value": "f", "provider": "anthropic"}},
    ],
}


@pytest.mark.parametrize(
    ("page", "file"), [(page, file) for page, files in NAMED_FILES.items() for file in files]
)
async def test_files_of_the_operator_are_refused(page: str, file: dict[str, Any]) -> None:
    key = "parts" if page == UI else "content"
    message = {"id": "1", "role": "user", key: [{"type": "file", **file}]}
    async with between() as (app, provider):
        caller = await ask(app, page, {**BODIES[page], "messages": [message]})
    assert caller.status == 400
    assert "expected a data: URL" in text_of(caller)
    assert not provider.requests


async def test_files_that_a_page_sends_along_are_passed_on() -> None:
    part = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}
    message = {"id": "1", "role": "user", "parts": [part]}
    async with between() as (app, provider):
        caller = await ask(app, UI, {**UI_BODY, "messages": [message]})
    assert caller.status == 200
    assert "AAAA" in json.dumps(provider.requests[0].body)


@every_page
async def test_client_of_a_route_is_the_configurations(page: str) -> None:
    client, kind, field = {
        UI: ("ai@7", "text-end", "citations"),
        AG: ("ag-ui@1", "RUN_FINISHED", "outcome"),
    }[page]
    source = Citation("url_citation", "https://h/", "Snow")
    for named in (None, client):
        options = PageConfig(model="m-1", page_client=named)
        script = [[Text("It snows.", (source,))]]
        async with between(script, "openai_chat", pages={page: options}) as (app, _):
            (end,) = (c for c in chunks_of(await ask(app, page)) if c["type"] == kind)
        assert (field in end) == (named is not None)
    wrong = PageConfig(model="m-1", page_client="ai@4")
    expected = f"^pages.{page}: page_client 'ai@4', expected one of "
    with pytest.raises(ConfigError, match=expected):
        async with opened(pages={page: wrong}):
            pass


@every_page
async def test_models_of_the_configuration_answer(page: str) -> None:
    models = [ModelConfig(match="fast", to=["local/real-model"])]
    options = PageConfig(model="fast")
    async with between(options=options, models=models) as (app, provider):
        assert (await ask(app, page)).status == 200
    assert provider.requests[0].body["model"] == "real-model"


@every_page
async def test_refusal_of_the_provider_is_what_the_client_shows(page: str) -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}
    answers = {"/v1/messages": Answered(body, 429)}
    async with scripted(answers, "anthropic", pages=every_route()) as (app, _):
        caller = await ask(app, page)
    assert caller.status == 429
    if page == UI:
        assert caller.headers["content-type"] == "text/plain; charset=utf-8"
        assert text_of(caller) == "Slow down."
    else:
        assert caller.headers["content-type"] == "application/json"
        assert json.loads(text_of(caller))["message"] == "Slow down."


REFUSED_ACCOUNTS = [
    (401, "authentication_error", f"invalid x-api-key of {CANARY}"),
    (403, "permission_error", f"the organization {CANARY} is disabled"),
    (400, "invalid_request_error", f"{CANARY}: Your credit balance is too low"),
    (400, "invalid_request_error", f"You have reached your specified API usage limits: {CANARY}"),
]


@every_page
@pytest.mark.parametrize(("status", "kind", "message"), REFUSED_ACCOUNTS)
async def test_page_learns_nothing_of_the_operators_account(
    page: str, status: int, kind: str, message: str
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    answers = {"/v1/messages": Answered(body, status)}
    records = Records()
    observed = {"observers": (records,), "retries": 1}
    async with scripted(answers, "anthropic", pages=every_route(), **observed) as (app, upstream):
        caller = await ask(app, page)
    assert caller.status == 502
    assert "the provider refuses the gateway" in text_of(caller)
    assert CANARY not in text_of(caller)
    assert len(upstream.requests) == 1
    (call,) = records.ended
    assert isinstance(call.outcome, Failed)
    assert call.outcome.error.message == message


@every_page
async def test_nor_does_it_behind_status_200(page: str) -> None:
    message = f"invalid x-api-key of {CANARY}"
    body = {"type": "error", "error": {"type": "authentication_error", "message": message}}
    steps = [0.3, Head(401, {"content-type": "application/json"}), json.dumps(body).encode()]
    pings = {"commit_after_s": 0.01, "keepalive_s": 0.02}
    async with served(StepUpstream(steps)) as url:
        upstreams = {"local": UpstreamConfig(dialect="anthropic", base_url=url)}
        async with opened(upstreams, pages=every_route(), **pings) as app:
            caller = await ask(app, page)
    assert caller.status == 200
    (error,) = chunks_of(caller)
    assert "the provider refuses the gateway" in error.values()
    assert CANARY not in text_of(caller)


SPENT = f"You exceeded your current quota, {CANARY}, please check your plan and billing details."
RESPONSE = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
CREATED = {"type": "response.created", "sequence_number": 0, "response": RESPONSE}
SPENT_RESPONSE = {"code": "insufficient_quota", "message": SPENT}
ROLE = {"index": 0, "delta": {"role": "assistant", "content": ""}}
SAID = {"index": 0, "delta": {"content": "Hi"}}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
NO_CREDIT = {"error": {"code": 402, "message": f"Insufficient credits of {CANARY}"}}
NO_KEY = {"error": {"code": "invalid_api_key", "message": f"Incorrect API key: {CANARY}"}}
WITHIN = [
    ("openai_responses", [CREATED, {"type": "error", "sequence_number": 1, **SPENT_RESPONSE}]),
    (
        "openai_responses",
        [
            CREATED,
            {
                "type": "response.failed",
                "sequence_number": 1,
                "response": {**RESPONSE, "status": "failed", "error": SPENT_RESPONSE},
            },
        ],
    ),
    ("openai_chat", [{**CHUNK, "choices": [ROLE]}, NO_CREDIT]),
    ("openai_chat", [{**CHUNK, "choices": [ROLE]}, {**CHUNK, "choices": [SAID]}, NO_KEY]),
]


def sse(events: list[dict[str, Any]]) -> bytes:
    """Return events as server-sent events, named by their type if they have one."""
    names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    frames = zip(names, map(json.dumps, events), strict=True)
    return "".join([f"{name}data: {data}\n\n" for name, data in frames]).encode()


@every_page
@pytest.mark.parametrize(("dialect", "events"), WITHIN)
async def test_nor_does_it_within_a_stream(
    page: str, dialect: str, events: list[dict[str, Any]]
) -> None:
    records = Records()
    async with served(StepUpstream([sse(events)])) as url:
        upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=url)}
        async with opened(upstreams, pages=every_route(), observers=(records,)) as app:
            caller = await ask(app, page)
    assert caller.status == 200
    (error,) = (each for each in chunks_of(caller) if each["type"] in ("error", "RUN_ERROR"))
    assert "the provider refuses the gateway" in error.values()
    assert CANARY not in text_of(caller)
    (call,) = records.ended
    assert isinstance(call.outcome, Failed)
    assert call.outcome.error.code in ("insufficient_quota", "402", "invalid_api_key")


@every_page
async def test_page_that_is_out_of_credit_reads_that_the_gateway_is_refused(page: str) -> None:
    error = {"message": SPENT, "type": "insufficient_quota", "code": "insufficient_quota"}
    answers = {"/v1/responses": Answered({"error": error}, 429)}
    async with scripted(answers, "openai_responses", pages=every_route()) as (app, _):
        caller = await ask(app, page)
    assert caller.status == 502
    assert "the provider refuses the gateway" in text_of(caller)
    assert CANARY not in text_of(caller)


@every_page
async def test_rate_limit_names_no_organization(page: str) -> None:
    said = "Rate limit reached for gpt-4o in organization {} on requests per min (RPM): Limit 3"
    error = {"message": said.format("org-abc"), "code": "rate_limit_exceeded", "type": "requests"}
    answers = {"/v1/responses": Answered({"error": error}, 429, {"retry-after": "7"})}
    async with scripted(answers, "openai_responses", pages=every_route(), retries=0) as (app, _):
        caller = await ask(app, page)
    assert (caller.status, caller.headers["retry-after"]) == (429, "7")
    text = text_of(caller)
    assert (text if page == UI else json.loads(text)["message"]) == said.format("***")


async def test_page_with_a_key_of_the_provider_reads_what_is_said_of_it() -> None:
    body = {"type": "error", "error": {"type": "authentication_error", "message": "no such key"}}
    async with served(ScriptedUpstream({"/v1/messages": Answered(body, 401)})) as url:
        upstream = UpstreamConfig(dialect="anthropic", base_url=url, key="client")
        async with opened({"local": upstream}, pages=every_route()) as app:
            caller = await ask(app, UI)
    assert (caller.status, text_of(caller)) == (401, "no such key")
    async with served(StepUpstream([sse([{**CHUNK, "choices": [ROLE]}, NO_KEY])])) as url:
        upstream = UpstreamConfig(dialect="openai_chat", base_url=url, key="client")
        async with opened({"local": upstream}, pages=every_route()) as app:
            caller = await ask(app, UI)
    assert NO_KEY["error"]["message"] in text_of(caller)


@every_page
async def test_cut_answer_is_an_error_of_the_page(page: str) -> None:
    start = {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}}
    data = b"event: message_start\ndata: %b\n\n" % json.dumps(start).encode()
    answers = {"/v1/messages": Answered(data, 200, {"content-type": "text/event-stream"})}
    async with scripted(answers, "anthropic", pages=every_route()) as (app, _):
        caller = await ask(app, page)
    types = [chunk["type"] for chunk in chunks_of(caller)]
    assert types[-1] in ("error", "RUN_ERROR")
    assert not {"finish", "RUN_FINISHED"} & {*types}


WRONG: dict[str, list[Any]] = {
    UI: [
        {},
        [],
        {"messages": []},
        {"messages": [{"role": "user"}]},
        {"messages": [{"id": "1", "role": "critic", "parts": []}]},
        {"messages": [{"id": "1", "role": "user", "parts": [{"type": "??"}]}]},
        {"message": HELLO},
        {"messages": [{"id": "x" * 513, "role": "assistant", "parts": []}]},
        b"{",
    ],
    AG: [
        {},
        [],
        {"threadId": "t", "messages": []},
        {**AG_BODY, "messages": [{"id": "1", "role": "critic", "content": "a"}]},
        {**AG_BODY, "messages": [{"id": "1", "role": "user", "content": [{"type": "??"}]}]},
        {**AG_BODY, "tools": [{"name": 1}]},
        {**AG_BODY, "runId": "x" * 513},
        b"{",
    ],
}


@every_page
async def test_wrong_requests_are_refused_before_any_upstream(page: str) -> None:
    async with between() as (app, provider):
        for body in WRONG[page]:
            caller = await ask(app, page, body)
            assert caller.status == 400, body
            assert text_of(caller), body
        assert not provider.requests


@every_page
async def test_large_requests_are_refused(page: str) -> None:
    options = PageConfig(model="m-1", max_body_bytes=1_000)
    async with between(options=options) as (app, provider):
        body = json.dumps({**BODIES[page], "x": "y" * 1_000}).encode()
        caller = await ask(app, page, body)
        assert caller.status == 413
        assert f"a body of {len(body)} bytes, expected at most 1000" in text_of(caller)
        assert not provider.requests


@every_page
async def test_route_is_off_without_its_table(page: str) -> None:
    other = next(each for each in PATHS if each != page)
    async with opened(pages={other: OPTIONS}) as app:
        caller = await ask(app, page)
    assert caller.status == 404


@every_page
async def test_other_methods_are_refused(page: str) -> None:
    async with opened(pages=every_route()) as app:
        caller = await ask(app, page, b"", method="GET")
    assert (caller.status, caller.headers["allow"]) == (405, "POST")


@every_page
async def test_page_needs_a_key_where_clients_do(page: str) -> None:
    keys = {"environ": {"KEYS": "k-1"}, "client_keys": "env:KEYS"}
    async with opened(pages=every_route(), **keys) as app:
        assert (await ask(app, page)).status == 401
        headers = (*JSON, ("authorization", "Bearer k-1"))
        assert (await ask(app, page, headers=headers)).status == 502  # nobody listens there


@every_page
async def test_page_of_another_origin_is_refused(page: str) -> None:
    origins = {"origins": ["https://app.example"], "cors": True}
    async with opened(NOWHERE, pages=every_route(), **origins) as app:
        local = ("host", "localhost:1"), ("content-type", "application/json")
        other = (*local, ("origin", "https://evil.example"))
        assert (await ask(app, page, headers=other)).status == 403
        ours = (*local, ("origin", "https://app.example"))
        caller = await ask(app, page, headers=ours)
        assert caller.status == 502
        assert caller.headers["access-control-allow-origin"] == "https://app.example"


def test_configuration_of_a_route_is_checked() -> None:
    upstreams = {"local": {"dialect": "openai_chat", "base_url": NOWHERE}}
    for pages, problem in (
        ({"ag_ui": {}}, "pages.ag_ui: object missing required field `model`"),
        ({"ag_ui": {"model": "m", "tools": ["rm"]}}, "pages.ag_ui.tools"),
        ({"ag_ui": {"model": "m", "max_token": 1}}, "did you mean max_tokens"),
    ):
        with pytest.raises(ConfigError, match=problem):
            config_of({"upstreams": upstreams, "pages": pages}, "gateway.toml")


@pytest.mark.parametrize("name", ["useChat", "anthropic"])
async def test_route_of_another_protocol_does_not_exist(name: str) -> None:
    expected = f"^pages.{name}: no protocol of pages, expected ui_message_stream or ag_ui"
    with pytest.raises(ConfigError, match=expected):
        async with opened(pages={name: OPTIONS}):
            pass


async def test_protocol_may_have_its_other_name() -> None:
    async with opened(pages={"vercel": OPTIONS}) as app:
        assert (await ask(app, UI)).status == 502  # nobody listens there


async def test_model_of_a_route_must_be_configured() -> None:
    models = [ModelConfig(match="fast", to=["local"])]
    with pytest.raises(ConfigError, match=r"^pages.ag_ui.model: model 'm-1' is not configured"):
        async with opened(pages={AG: OPTIONS}, models=models):
            pass
