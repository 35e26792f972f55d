"""Access keys of AWS, with which clients of Amazon Bedrock sign their requests."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from support.bedrock.signatures import KEY_ID, SECRET
from support.gateway.calls import NOWHERE, POSTS, asked, body_of, called, opened
from support.gateway.servers import served_gateway
from support.http.raw_http import EMPTY_RESPONSE, raw_upstream

from streamnorm._upstream.requests import RequestRefused
from streamnorm.gateway import Config, ConfigError, Gateway, LogConfig, UpstreamConfig
from streamnorm.gateway.signatures import AccessKeys
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

HOST = "gateway.example:8080"
BODY = json.dumps(
    {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Snow?"}],
    }
).encode()
TARGET = "/model/arn%3Aaws%3Abedrock%3A%2Fx/invoke"
SESSION = "FwoGZXIvYXdzE/+="
ENVIRON = {"KEYS": f"AKIDOTHER:other-secret, {KEY_ID}:{SECRET}", "BEARERS": "b-1"}
KEYS: dict[str, Any] = {"aws_client_keys": "env:KEYS", "environ": ENVIRON}


def signed(
    target: str = TARGET,
    body: bytes = BODY,
    *,
    method: str = "POST",
    host: str = HOST,
    sent_host: str = HOST,
    key: tuple[str, str] = (KEY_ID, SECRET),
    token: str | None = None,
    service: str = "bedrock",
    region: str = "us-east-1",
    at: datetime | None = None,
    headers: Iterable[tuple[str, str]] = (("content-type", "application/json"),),
) -> dict[str, str]:
    """Return the headers of a request as botocore signs it."""
    request = AWSRequest(
        method=method, url=f"http://{host}{target}", data=body, headers=dict(headers)
    )
    signer = SigV4Auth(Credentials(*key, token), service, region)
    if at is None:
        signer.add_auth(request)
    else:  # as `add_auth` does with the time of now
        request.context["timestamp"] = at.strftime("%Y%m%dT%H%M%SZ")
        signer._modify_request_before_signing(request)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        signer._inject_signature_to_request(request, signer.signature(text, request))
    found = {name.lower(): value for name, value in request.headers.items()}
    return {"host": sent_host, **found}


async def ask(
    headers: dict[str, str],
    target: str = TARGET,
    body: bytes = BODY,
    *,
    method: str = "POST",
    settings: dict[str, Any] = KEYS,
) -> Any:
    async with opened(NOWHERE, **settings) as app:
        path = unquote(target.partition("?")[0])
        return await called(
            app, target, body, method=method, headers=headers.items(), path=path, server=None
        )


def let_in(caller: Any) -> bool:
    """Return whether the upstream was asked, at which nobody listens."""
    status: int = caller.status
    return status == 502


EVENING = datetime(2026, 11, 23, 23, 59, 58, tzinfo=UTC)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key": ("AKIDOTHER", "other-secret")},
        {"region": "eu-central-1"},
        {"token": SESSION},
        {"host": "gateway.example"},  # as Claude Code does
        {"target": "/bedrock/model/a:b;c/invoke"},
        {"target": "/model/a%252Fb%20c/invoke-with-response-stream"},
        {"target": f"{TARGET}?b=2&a=1&a="},
        {"headers": [("accept", " a   b "), ("x-amzn-bedrock-trace", "ENABLED")]},
        {"headers": [("content-encoding", "identity"), ("content-length", str(len(BODY)))]},
        {"at": timedelta(seconds=-290)},
        {"at": timedelta(seconds=290)},
    ],
    ids=str,
)
async def test_signature_of_botocore_opens(options: dict[str, Any]) -> None:
    if "at" in options:
        options = {**options, "at": datetime.now(UTC) + options["at"]}
    caller = await ask(signed(**options), options.get("target", TARGET))
    assert let_in(caller), body_of(caller)


def changed(name: str, change: Callable[[str], str]) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {**headers, name: change(headers[name])}


def without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {key: value for key, value in headers.items() if key != name}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"key": (KEY_ID, "wrong")}, "InvalidSignatureException"),
        ({"key": ("AKIDNOBODY", SECRET)}, "UnrecognizedClientException"),
        ({"body": BODY + b" "}, "InvalidSignatureException"),
        ({"target": "/model/other/invoke"}, "InvalidSignatureException"),
        ({"target": TARGET.replace("%", "%25")}, "InvalidSignatureException"),
        ({"target": f"{TARGET}?a=1"}, "InvalidSignatureException"),
        ({"method": "PUT"}, "InvalidSignatureException"),
        ({"host": "other.example"}, "InvalidSignatureException"),
        ({"service": "s3"}, "IncompleteSignatureException"),
        ({"service": "bedrock-runtime"}, "IncompleteSignatureException"),
        ({"at": timedelta(seconds=-310)}, "InvalidSignatureException"),
        ({"at": timedelta(seconds=310)}, "InvalidSignatureException"),
        ({"headers": [("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]}, "InvalidSignatureException"),
    ],
    ids=str,
)
async def test_signature_of_another_request_is_refused(options: dict[str, Any], kind: str) -> None:
    if "at" in options:
        options = {**options, "at": datetime.now(UTC) + options["at"]}
    await assert_refused(signed(**options), kind)


async def assert_refused(headers: dict[str, str], kind: str, target: str = TARGET) -> None:
    caller = await ask(headers, target)
    assert (caller.status, caller.headers["x-amzn-errortype"]) == (403, kind)
    (message,) = body_of(caller).values()
    assert SECRET not in message
    assert KEY_ID not in message


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (without("authorization"), "AccessDeniedException"),
        (without("x-amz-date"), "IncompleteSignatureException"),
        (changed("x-amz-date", lambda date: date[:-1]), "IncompleteSignatureException"),
        (changed("x-amz-date", lambda _: ""), "IncompleteSignatureException"),
        (changed("content-type", lambda _: "application/x+json"), "InvalidSignatureException"),
        (without("content-type"), "IncompleteSignatureException"),
        (changed("authorization", lambda a: a[:-1]), "IncompleteSignatureException"),
        (changed("authorization", lambda a: a[:-4] + "0000"), "InvalidSignatureException"),
        (
            changed("authorization", lambda a: a.replace("host;", "")),
            "IncompleteSignatureException",
        ),
        (
            changed("authorization", lambda a: a.replace(";x-amz-date", "")),
            "IncompleteSignatureException",
        ),
        (
            changed("authorization", lambda a: a.replace("us-east-1", "us-west-2")),
            "InvalidSignatureException",
        ),
        (
            changed("authorization", lambda a: a.replace(f"{KEY_ID}/20", f"{KEY_ID}/19")),
            "InvalidSignatureException",
        ),
        (lambda headers: {**headers, "x-amz-security-token": "t"}, "IncompleteSignatureException"),
        (lambda headers: {**headers, "x-amz-content-sha256": "0"}, "IncompleteSignatureException"),
        (changed("authorization", lambda _: "AWS4-HMAC-SHA256 " + "a" * 60_000), "Incomplete"),
        (changed("authorization", lambda _: "Bearer b-1"), "AccessDeniedException"),
    ],
)
async def test_changed_signature_is_refused(
    change: Callable[[dict[str, str]], dict[str, str]], kind: str
) -> None:
    kind = kind if kind.endswith("Exception") else f"{kind}SignatureException"
    await assert_refused(change(signed()), kind)


def damaged(text: str, random: Random) -> str:
    """Return a text in which a few characters are others, gone or twice."""
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(text))
        piece = random.choice(
            ["", text[at] * 2, chr(random.randrange(32, 127)), "é", "\t", "0" * 99]
        )
        text = text[:at] + piece + text[at + 1 :]
    return text


async def test_damaged_signature_is_refused_and_no_fault() -> None:
    random = Random(33)  # noqa: S311 - no secret
    async with opened(NOWHERE, **KEYS) as app:
        for _ in range(400):
            headers = signed()
            name = random.choice(["authorization", "authorization", "x-amz-date", "host"])
            changed = damaged(headers[name], random)
            # What only spells a header otherwise is the same: white space is no part of a value.
            if changed.split() == headers[name].split():
                continue
            caller = await called(app, TARGET, BODY, headers={**headers, name: changed}.items())
            assert caller.status in (400, 403), (name, changed)


async def test_what_hides_behind_a_fragment_is_signed_too() -> None:
    await assert_refused(
        signed("/model/a/invoke"), "InvalidSignatureException", "/model/a/invoke#/model/b/invoke"
    )


@pytest.mark.parametrize("host", ["", "[", "a/b", "a b", "@", "é"])
async def test_host_that_is_none_is_refused(host: str) -> None:
    headers = {**signed(), "host": host}
    await assert_refused(headers, "InvalidSignatureException")


@pytest.mark.parametrize("target", ["[a/model/m/invoke", "]a/model/m/invoke", "@[x/model/m/invoke"])
async def test_target_without_a_leading_slash_is_refused(target: str) -> None:
    """It would be a part of the host, which Python may refuse to read."""
    caller = await ask(signed(), target)
    assert caller.status == 403


async def test_bearer_opens_beside_access_keys() -> None:
    settings = {**KEYS, "client_keys": "env:BEARERS"}
    bearer = {"host": HOST, "authorization": "Bearer b-1", "content-type": "application/json"}
    assert let_in(await ask(bearer, settings=settings))
    assert let_in(await ask(signed(), settings=settings))
    wrong = {**bearer, "authorization": "Bearer b-2"}
    caller = await ask(wrong, settings=settings)
    assert (caller.status, caller.headers["x-amzn-errortype"]) == (403, "AccessDeniedException")


async def test_signature_does_not_open_without_access_keys() -> None:
    settings = {"client_keys": "env:BEARERS", "environ": ENVIRON}
    caller = await ask(signed(), settings=settings)
    assert caller.status == 403


async def test_any_signature_opens_a_gateway_without_keys() -> None:
    caller = await ask({**signed(key=("dummy", "dummy")), "host": "localhost"}, settings={})
    assert let_in(caller)


# What AWS's SDK for JavaScript signs (@aws-sdk/client-bedrock-runtime 3.1163.0), on HTTP/1.1 and
# on HTTP/2.
JS_HEADERS = {
    "content-type": "application/octet-stream",
    "content-length": "104",
    "x-amz-user-agent": "aws-sdk-js/3.1163.0",
    "amz-sdk-request": "attempt=1; max=1",
    "x-amz-date": "20261127T030752Z",
    "x-amz-content-sha256": "364a659ff9d0e16b143e5d1921650965a2b0102f99a5f3393deb341825a6c687",
}
JS_NAMES = (
    "amz-sdk-invocation-id;amz-sdk-request;content-length;content-type",
    "x-amz-content-sha256;x-amz-date;x-amz-user-agent",
)


@pytest.mark.parametrize(
    ("names", "host", "id", "signature"),
    [
        (
            f"{JS_NAMES[0]};host;{JS_NAMES[1]}",
            "127.0.0.1:45507",
            "b24058f5-caca-4ab2-a587-04168a560860",
            "b25848ac737f32bd9aa4c9fc556ba8658608255a380842b01c975e5e19ee6c05",
        ),
        (
            f":authority;{JS_NAMES[0]};{JS_NAMES[1]}",
            "127.0.0.1:41047",
            "cd71c407-8aa4-494e-9618-4c7646c49c6d",
            "a318bfca1a0ba62c0f1314c0157e6168a294754cc10fa4bb28b5c1c3e91ec634",
        ),
    ],
    ids=["http1", "http2"],
)
def test_signature_of_the_sdk_for_javascript(
    names: str, host: str, id: str, signature: str
) -> None:
    credential = f"{KEY_ID}/20261127/us-east-1/bedrock/aws4_request"
    headers = {
        **JS_HEADERS,
        "host": host,
        "amz-sdk-invocation-id": id,
        "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, "
        f"Signature={signature}",
    }
    keys = AccessKeys(f"{KEY_ID}:{SECRET}")
    found = keys.signature_in(headers, datetime(2026, 11, 27, 3, 8, tzinfo=UTC))
    profile = "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.x"
    digest = headers["x-amz-content-sha256"]
    keys.verify(found, "POST", f"/model/{profile}/invoke?", headers, digest)
    with pytest.raises(RequestRefused, match="does not match"):
        keys.verify(found, "POST", f"/model/{profile}/converse?", headers, digest)


async def test_body_of_the_sdk_for_javascript_has_no_type_of_json() -> None:
    kind = "application/octet-stream"
    assert let_in(await ask(signed(headers=[("content-type", kind)])))
    caller = await ask({**signed(headers=[("content-type", "text/plain")])})
    assert caller.status == 415
    async with opened(NOWHERE) as app:
        headers = [("host", "here"), ("content-type", kind)]
        status, _ = await asked(app, "/v1/messages", BODY, headers=headers)
    assert status == 415


@pytest.mark.parametrize("client", [client for client in POSTS if client != "bedrock_converse"])
async def test_access_keys_alone_let_nobody_else_in(client: str) -> None:
    target, body = POSTS[client]
    data = json.dumps(body).encode()
    async with opened(NOWHERE, **KEYS) as app:
        status, _ = await asked(app, target, body)
        assert status == 401
        headers = signed(target, data)
        caller = await called(app, target, data, headers=headers.items())
    assert caller.status == 401


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
async def test_signature_never_reaches_an_upstream(dialect: str) -> None:
    headers = {**signed(token=SESSION), "host": "localhost", "x-amzn-trace-id": "Root=1"}
    headers |= {"amz-sdk-request": "attempt=1", "amz-sdk-invocation-id": "1"}
    with raw_upstream(EMPTY_RESPONSE) as upstream:
        config = UpstreamConfig(dialect=dialect, base_url=upstream.url, key="client")
        async with opened({"local": config}) as app:
            await called(app, TARGET, BODY, headers=headers.items(), path=unquote(TARGET))
    ((head, _),) = upstream.requests
    names = {line.partition(b":")[0].lower() for line in head[1:]}
    assert not [name for name in names if name.startswith((b"x-amz", b"amz", b"authorization"))]
    assert b"x-api-key" not in names


async def test_compressed_body_is_verified_as_it_arrived() -> None:
    data = gzip.compress(BODY)
    headers = [("content-type", "application/json"), ("content-encoding", "gzip")]
    assert let_in(await ask(signed(body=data, headers=headers), body=data))


async def test_body_in_pieces_is_verified_as_a_whole() -> None:
    async with opened(NOWHERE, **KEYS) as app:
        headers = signed().items()
        pieces = [BODY[:5], BODY[5:6], BODY[6:]]
        caller = await called(app, TARGET, headers=headers, pieces=pieces, path=unquote(TARGET))
        assert let_in(caller)
        pieces = [BODY[:5], BODY[6:]]
        caller = await called(app, TARGET, headers=headers, pieces=pieces, path=unquote(TARGET))
        assert caller.status == 403


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        ("AKID", "no pair of an id and a secret, expected ID:SECRET"),
        ("AKID:", "no pair of an id and a secret, expected ID:SECRET"),
        ("AKID:a b", "no pair of an id and a secret, expected ID:SECRET"),
        ("AKID:a,", "no pair of an id and a secret, expected ID:SECRET"),
        ("AKID:a,AKID:b", "an id twice, expected each once"),
        ("", "KEYS is empty in the environment, expected a key"),
    ],
)
def test_wrong_access_keys_stop_the_start(listed: str, problem: str) -> None:
    config = Config(
        upstreams={"u": UpstreamConfig(dialect="anthropic", base_url="https://h")},
        aws_client_keys="env:KEYS",
    )
    with pytest.raises(ConfigError) as raised:
        Gateway(config, environ={"KEYS": listed})
    assert str(raised.value) == f"aws_client_keys: {problem}"


def test_missing_botocore_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "streamnorm.gateway.signatures", None)
    config = Config(
        upstreams={"u": UpstreamConfig(dialect="anthropic", base_url="https://h")},
        aws_client_keys="env:KEYS",
    )
    with pytest.raises(ConfigError, match=r"aws_client_keys: botocore is not installed \(pip inst"):
        Gateway(config, environ=ENVIRON)


def test_upstream_is_not_sent_the_key_of_the_gateway() -> None:
    upstream = UpstreamConfig(dialect="anthropic", base_url="https://h", key="client")
    with pytest.raises(ConfigError, match="the key of the client"):
        Gateway(Config(upstreams={"u": upstream}, aws_client_keys="env:KEYS"), environ=ENVIRON)


MODELS = [
    {"match": "us.anthropic.claude-x", "to": ["local"]},
    {"match": "qwen3", "to": ["local"], "alias": "claude-*"},
    {"match": "other-*", "to": ["local"]},
]


async def test_configured_models_are_listed_as_inference_profiles() -> None:
    async with opened(NOWHERE, models=MODELS) as app:
        status, listed = await asked(
            app, "/inference-profiles?typeEquals=SYSTEM_DEFINED", method="GET"
        )
        assert status == 200
        names = [each["inferenceProfileId"] for each in listed["inferenceProfileSummaries"]]
        assert names == ["us.anthropic.claude-x", "qwen3", "claude-qwen3"]
        target = "/inference-profiles/us.anthropic.claude-x"
        status, found = await asked(app, target, method="GET")
        assert (status, found) == (200, listed["inferenceProfileSummaries"][0])
        caller = await called(app, "/inference-profiles/none", method="GET")
    assert (caller.status, list(body_of(caller))) == (404, ["message"])
    assert caller.headers["x-amzn-errortype"] == "ResourceNotFoundException"


async def test_list_has_no_models_that_nobody_has_configured() -> None:
    async with opened(NOWHERE) as app:
        status, listed = await asked(app, "/inference-profiles", method="GET")
        assert (status, listed) == (200, {"inferenceProfileSummaries": []})
        status, found = await asked(app, "/inference-profiles/m", method="GET")
    assert (status, found["inferenceProfileId"]) == (200, "m")


async def test_stream_is_found_by_its_access_key_alone() -> None:
    """A signature is another one for each request, and at each second."""
    body = b'{"messages": [{"role": "user", "content": [{"text": "Snow?"}]}]}'
    provider = FakeProvider(["It snows."] * 2)
    named = [("content-type", "application/json"), ("x-streamnorm-stream", "s-1")]
    log, target = LogConfig(url="memory:"), "/model/m/converse"
    async with (
        served_gateway(provider.app(), log=log, **KEYS) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        host = gateway.url.removeprefix("http://")

        async def ask_signed(seconds: int, key: tuple[str, str] = (KEY_ID, SECRET)) -> Any:
            at = datetime.now(UTC) + timedelta(seconds=seconds)
            headers = signed(target, body, host=host, sent_host=host, key=key, at=at, headers=named)
            return await http.post(target, content=body, headers=headers)

        first, again = [await ask_signed(each) for each in (0, 9)]
        assert (first.status_code, again.status_code) == (200, 200)
        assert first.json()["output"] == again.json()["output"]
        assert len(provider.requests) == 1
        other = "AKIDOTHER", "other-secret"
        assert (await ask_signed(0, other)).status_code == 200
        assert len(provider.requests) == 2


async def test_list_needs_a_key_too() -> None:
    headers = signed("/inference-profiles", b"", method="GET", headers=())
    caller = await ask(headers, "/inference-profiles", b"", method="GET")
    assert caller.status == 200
    caller = await ask({"host": HOST}, "/inference-profiles", b"", method="GET")
    assert caller.status == 403


OTHER = "/guardrail/g-1/version/1/apply"


@pytest.mark.parametrize("settings", [KEYS, {}], ids=["keys", "none"])
@pytest.mark.parametrize("is_signed", [True, False], ids=["signed", "unsigned"])
async def test_operation_of_bedrock_that_the_gateway_lacks_is_not_found(
    settings: dict[str, Any], is_signed: bool
) -> None:
    """boto3 reads `message` and `x-amzn-errortype`, and no error of another vendor."""
    # Signed here: a signature is valid for minutes, and tests are collected long before they run.
    headers = signed(OTHER) if is_signed else {"host": HOST, "amz-sdk-invocation-id": "i"}
    caller = await ask(headers, OTHER, settings=settings)
    is_let_in = not settings or is_signed
    kind = "ResourceNotFoundException" if is_let_in else "AccessDeniedException"
    assert caller.status == (404 if is_let_in else 403)
    assert caller.headers["x-amzn-errortype"] == kind
    assert list(body_of(caller)) == ["message"]


async def test_wrong_signature_opens_no_other_path_either() -> None:
    caller = await ask(signed(OTHER, key=("AKIDUNKNOWN", "x")), OTHER)
    assert caller.status == 403
    assert caller.headers["x-amzn-errortype"] == "UnrecognizedClientException"


async def test_signature_is_none_at_a_path_of_another_vendor() -> None:
    target = "/v1/chat/completions"
    caller = await ask(signed(target), target)
    assert (caller.status, list(body_of(caller))) == (401, ["error"])
