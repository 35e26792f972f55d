"""What a method and a path ask for, and the URL of an endpoint."""

from __future__ import annotations

import re

import pytest

from streamnorm._core.codec import Endpoints, Operation, RequestedOperation, Route
from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS
from streamnorm._registry import DIALECTS

VERTEX = "/v1/projects/p/locations/l/publishers"
UUID = "ad5663da-63e6-86c6-e0be-ff15effa8357"


@pytest.mark.parametrize(
    ("dialect", "method", "path", "asked"),
    [
        *(
            (dialect, "GET", path, asked)
            for dialect in ("anthropic", "openai_chat", "openai_responses", "gemini")
            for path, asked in {
                "/v1/models": RequestedOperation("models"),
                "/models": RequestedOperation("models"),
                "/proxy/v1beta/models": RequestedOperation("models"),
                "/v1/models/m-1": RequestedOperation("model", "m-1"),
                "/v1/models/accounts/a/models/m": RequestedOperation(
                    "model", "accounts/a/models/m"
                ),
            }.items()
        ),
        ("anthropic", "POST", "/v1/messages", RequestedOperation("message")),
        ("anthropic", "POST", "/v1/v1/messages", RequestedOperation("message")),
        ("anthropic", "POST", "/messages", RequestedOperation("message")),
        ("anthropic", "POST", "/v1/messages/count_tokens", RequestedOperation("count")),
        (
            *("anthropic", "POST", f"{VERTEX}/anthropic/models/claude-x:rawPredict"),
            RequestedOperation("message", "claude-x"),
        ),
        (
            *("anthropic", "POST", f"{VERTEX}/anthropic/models/claude-x@1:streamRawPredict"),
            RequestedOperation("message", "claude-x@1"),
        ),
        ("anthropic", "GET", "/v1/messages", None),
        ("anthropic", "POST", "/v1/threads/t/messages", None),
        ("anthropic", "POST", "/v1/models", None),
        ("anthropic", "POST", "/v1/messages/batches", None),
        ("anthropic", "POST", "/v1/chat/completions", None),
        ("openai_chat", "POST", "/v1/chat/completions", RequestedOperation("message")),
        ("openai_chat", "POST", "/chat/completions", RequestedOperation("message")),
        ("openai_chat", "GET", "/v1/chat/completions", None),
        ("openai_chat", "GET", "/v1/chat/completions/c", None),
        ("openai_chat", "POST", "/v1/responses", None),
        ("openai_chat", "POST", "/v1/embeddings", None),
        ("openai_responses", "POST", "/v1/responses", RequestedOperation("message")),
        ("openai_responses", "POST", "/v1/responses/input_tokens", RequestedOperation("count")),
        ("openai_responses", "POST", "/v1/responses/compact", RequestedOperation("compact")),
        (
            *("openai_responses", "GET", "/v1/responses/resp_1"),
            RequestedOperation("response", response_id="resp_1"),
        ),
        (
            "openai_responses",
            "GET",
            f"/v1/responses/{UUID}",
            RequestedOperation("response", response_id=UUID),
        ),
        (
            *("openai_responses", "DELETE", "/v1/responses/resp_1"),
            RequestedOperation("delete", response_id="resp_1"),
        ),
        (
            *("openai_responses", "POST", "/v1/responses/resp_1/cancel"),
            RequestedOperation("cancel", response_id="resp_1"),
        ),
        (
            *("openai_responses", "GET", "/v1/responses/resp_1/input_items"),
            RequestedOperation("input_items", response_id="resp_1"),
        ),
        ("openai_responses", "GET", "/v1/responses", None),
        ("openai_responses", "POST", "/v1/responses/resp_1", None),
        ("openai_responses", "GET", "/v1/responses/resp_1/other", None),
        ("gemini", "POST", "/v1beta/models/g:generateContent", RequestedOperation("message", "g")),
        ("gemini", "POST", "/v1/models/g:streamGenerateContent", RequestedOperation("stream", "g")),
        (
            "gemini",
            "POST",
            "/models/org/g:1:generateContent",
            RequestedOperation("message", "org/g:1"),
        ),
        (
            "gemini",
            "POST",
            f"{VERTEX}/google/models/g:generateContent",
            RequestedOperation("message", "g"),
        ),
        ("gemini", "POST", "/v1beta/models/g:countTokens", RequestedOperation("count", "g")),
        (
            *("gemini", "POST", "/v1beta/tunedModels/t:generateContent"),
            RequestedOperation("message", "tunedModels/t"),
        ),
        ("gemini", "GET", "/v1beta/tunedModels/t", RequestedOperation("model", "tunedModels/t")),
        ("gemini", "POST", "/v1beta/models/g:embedContent", None),
        (
            "gemini",
            "GET",
            "/v1beta/models/g:generateContent",
            RequestedOperation("model", "g:generateContent"),
        ),
    ],
)
def test_method_and_path_say_what_is_asked(
    dialect: str, method: str, path: str, asked: RequestedOperation | None
) -> None:
    assert DIALECTS[dialect].endpoints.match(method, path) == asked


@pytest.mark.parametrize("end", ["\n", "/", "x"])
def test_path_that_goes_on_is_another(end: str) -> None:
    paths = ("/messages", "/chat/completions", "/responses", "/models/m:generateContent")
    for known in DIALECTS.values():
        assert all(known.endpoints.match("POST", path + end) is None for path in paths)


def test_body_decides_between_a_message_and_a_stream() -> None:
    endpoints = DIALECTS["anthropic"].endpoints
    for body in ({}, {"stream": False}, {"stream": 1}, [], None):
        assert endpoints.match("POST", "/v1/messages", body) == RequestedOperation("message")
    streamed = {"model": "m", "stream": True}
    assert endpoints.match("POST", "/v1/messages", streamed) == RequestedOperation("stream", "m")
    counted = endpoints.match("POST", "/v1/messages/count_tokens", streamed)
    assert counted == RequestedOperation("count", "m")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/v1/responses/resp_1/input_items"])
def test_path_of_a_list_is_of_no_dialect(path: str) -> None:
    assert not any(known.endpoints.serves(path) for known in DIALECTS.values())


def test_hostile_path_is_read_once() -> None:
    """A pattern that starts anew at each segment would take minutes."""
    path = "/models/" * 100_000 + "\n"
    for known in DIALECTS.values():
        for method in ("GET", "POST"):
            assert known.endpoints.match(method, path) is None


OPENAI = Endpoints(versioned_base=True)


@pytest.mark.parametrize(
    ("base_url", "path", "url"),
    [
        ("https://h", "/v1/messages", "https://h/v1/messages"),
        ("https://h/", "/v1/messages", "https://h/v1/messages"),
        ("https://h/v1", "/v1/messages", "https://h/v1/messages"),
        ("https://h/v1/", "/v1/messages", "https://h/v1/messages"),
        ("https://h//v1//", "/v1/messages", "https://h/v1/messages"),
        ("http://h:80/anthropic", "/v1/messages", "http://h:80/anthropic/v1/messages"),
        ("https://h/anthropic/v1", "/v1/messages", "https://h/anthropic/v1/messages"),
        # Cloudflare's own version, which is not that of the API.
        (
            "https://h/v1/acc/gw/anthropic",
            "/v1/messages",
            "https://h/v1/acc/gw/anthropic/v1/messages",
        ),
        ("https://h/v1/anthropic", "/v1/messages", "https://h/v1/anthropic/v1/messages"),
        ("https://h/v1beta", "/v1beta/models/g:x?alt=sse", "https://h/v1beta/models/g:x?alt=sse"),
        ("https://h/v1", "/v1beta/models/g:x", "https://h/v1/models/g:x"),
        ("https://h/v2alpha1", "/v1beta/models", "https://h/v2alpha1/models"),
        ("https://h/voice", "/v1beta/models", "https://h/voice/v1beta/models"),
        ("https://h/v1", "/model/m:0/invoke", "https://h/v1/model/m:0/invoke"),
        ("https://h/v1", "", "https://h/v1/"),
        ("https://h?a=b", "/v1/models", "https://h/v1/models?a=b"),
        ("https://h/v1?a=b", "/v1/models?c=d", "https://h/v1/models?a=b&c=d"),
        ("https://h/v1#part", "/v1/models", "https://h/v1/models"),
    ],
)
def test_version_stands_in_a_url_once(base_url: str, path: str, url: str) -> None:
    assert Endpoints().url(base_url, path) == url


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://h", "https://h/v1/chat/completions"),
        ("https://h/v1", "https://h/v1/chat/completions"),
        ("https://h/api/paas/v4/", "https://h/api/paas/v4/chat/completions"),
        ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
        ("https://h/v1/acc/gw/openai", "https://h/v1/acc/gw/openai/chat/completions"),
        ("https://h/proxy", "https://h/proxy/v1/chat/completions"),
    ],
)
def test_version_in_the_base_url_of_an_openai_sdk_may_stand_anywhere(
    base_url: str, url: str
) -> None:
    assert OPENAI.url(base_url, "/v1/chat/completions") == url
    for name in ("openai_chat", "openai_responses"):
        assert DIALECTS[name].endpoints.versioned_base


def test_first_route_that_matches_counts() -> None:
    routes = (
        Route("POST", re.compile(r"/a/(?P<model>.+)\Z"), "stream"),
        Route("POST", re.compile(r"/a/b\Z"), "message"),
    )
    endpoints = Endpoints(routes=routes)
    assert endpoints.match("POST", "/a/b") == RequestedOperation("stream", "b")
    assert endpoints.model("/a/b", {"model": 5}) == "b"
    assert endpoints.streams("/a/b", None)
    assert not endpoints.streams("/x", None)


@pytest.mark.parametrize("before", ["", "/v1", "/proxy/v7"])
def test_canonical_path_is_what_the_route_names(before: str) -> None:
    endpoints = DIALECTS["openai_responses"].endpoints
    for path in ("/responses/resp_1/cancel", "/responses/compact"):
        assert endpoints.canonical_path("POST", before + path) == f"/v1{path}"
    assert endpoints.canonical_path("PUT", f"{before}/responses/compact") == ""


INVOKED = "/base/model/arn:aws:x%2Fclaude;v1/invoke"


@pytest.mark.parametrize(
    ("path", "operation", "model"),
    [
        (INVOKED, "message", "arn:aws:x/claude;v1"),
        (f"{INVOKED}-with-response-stream", "stream", "arn:aws:x/claude;v1"),
        ("/model/arn:aws:x/claude/invoke", "message", "arn:aws:x/claude"),
        ("/model/a%252Fb/invoke", "message", "a%2Fb"),
        ("/model/invoke/invoke", "message", "invoke"),
    ],
)
def test_name_of_a_model_at_a_cloud_is_decoded_once(
    path: str, operation: Operation, model: str
) -> None:
    asked = RequestedOperation(operation, model, "", INVOKE_CHUNKS, BEDROCK)
    endpoints = DIALECTS["anthropic"].endpoints
    assert endpoints.match("POST", path, {"stream": True, "model": "m"}) == asked
    assert endpoints.streams(path, {"stream": True}) == (operation == "stream")
    assert endpoints.serves(path)
    assert endpoints.match("GET", path) is None


@pytest.mark.parametrize("path", ["/model/invoke", "/models/a/invoke", "/model/a/invoke/b"])
def test_other_path_is_none_of_a_cloud(path: str) -> None:
    endpoints = DIALECTS["anthropic"].endpoints
    assert endpoints.cloud_route(path) is None
    assert endpoints.rename_model(path, "m") == path


def test_model_is_renamed_in_the_path_of_a_cloud() -> None:
    endpoints = DIALECTS["anthropic"].endpoints
    assert endpoints.rename_model(INVOKED, "m%2Fn") == "/model/m%2Fn/invoke"


def test_dialect_is_spoken_in_the_form_of_a_cloud() -> None:
    dialect = DIALECTS["anthropic"]
    route = dialect.endpoints.cloud_route(INVOKED)
    assert route is not None
    spoken = dialect.adapt_to_route(route)
    assert (spoken.name, spoken.framing, spoken.cloud) == ("anthropic", INVOKE_CHUNKS, BEDROCK)
    assert spoken.endpoints.key_headers == ("authorization",)
    assert spoken.endpoints.request_id_header == "x-amzn-requestid"
    assert dialect.adapt_to_route(dialect.endpoints.routes[0]) is dialect


@pytest.mark.parametrize(
    ("end", "operation"),
    [("converse", "message"), ("converse-stream", "stream"), ("count-tokens", "count")],
)
def test_path_of_converse_names_model_and_operation(end: str, operation: Operation) -> None:
    asked = RequestedOperation(operation, "arn:x/nova", "", None, BEDROCK)
    endpoints = DIALECTS["bedrock_converse"].endpoints
    assert endpoints.match("POST", f"/base/model/arn:x%2Fnova/{end}", {"stream": True}) == asked
    assert endpoints.match("POST", "/model/" * 20_000) is None


def test_one_vendor_compacts_conversations_and_has_a_websocket() -> None:
    endpoints = {name: known.endpoints for name, known in DIALECTS.items()}
    assert [name for name, each in endpoints.items() if each.compacts] == ["openai_responses"]
    assert [name for name, each in endpoints.items() if each.socket_framing is not None] == [
        "openai_responses"
    ]


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("GET", "/v1beta/interactions/i", "response"),
        ("DELETE", "/v1/interactions/i", "delete"),
        ("POST", "/interactions/i/cancel", "cancel"),
    ],
)
def test_path_of_an_interaction_names_it(method: str, path: str, operation: Operation) -> None:
    endpoints = DIALECTS["gemini_interactions"].endpoints
    assert endpoints.match(method, path) == RequestedOperation(operation, "", "i")
    assert endpoints.match("PUT", path) is None
