"""The positions of credentials: headers with their schemes, the path of a URL, JSON fields."""

from __future__ import annotations

import json
from base64 import b64encode
from urllib.parse import quote

import pytest

from streamnorm.recording.format import WireRequest
from streamnorm.recording.secrets import Secrets
from streamnorm.recording.secrets.credentials import (
    find_in_header,
    find_in_json,
    find_in_url,
    is_secret_header,
)

URL = "https://api.example.com/v1/messages"
KEY = "cAn4ry-qX8zuk7-wNd51"
SIGNATURE = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
SIGV4 = (
    "AWS4-HMAC-SHA256 Credential=AKIDcAn4ryQX8zuk7WNd/20261123/us-east-1/bedrock/aws4_request,"
    f" SignedHeaders=content-type;host;x-amz-date, Signature={SIGNATURE}"
)
DIGEST = (
    'Digest username="cAn4ry-user", realm="models@example.com", nonce="cAn4ry-\\"nonce",'
    ' uri="/v1/messages", algorithm=SHA-256, qop=auth, nc=00000001, cnonce="cAn4ry-cnonce",'
    f' response="{SIGNATURE}", opaque="cAn4ry-opaque"'
)


def basic(pair: str) -> str:
    return "Basic " + b64encode(pair.encode()).decode()


def learnt_of(request: WireRequest, text: str) -> str:
    """Return a response's text after the request was seen."""
    secrets = Secrets()
    secrets.scrub_request(request)
    return secrets.scrub(text.encode()).decode()


@pytest.mark.parametrize(
    ("value", "credentials"),
    [
        (f"Bearer {KEY}", {KEY}),
        (f"  bearer \t {KEY}  ", {KEY}),
        (basic(f"user-1:{KEY}"), {f"user-1:{KEY}", "user-1", KEY}),
        (basic(f"user-1:{KEY}").rstrip("="), {f"user-1:{KEY}", "user-1", KEY}),
        ("Basic " + b64encode(f"jürgen:{KEY}".encode("latin-1")).decode(), {"jürgen", KEY}),
        (
            DIGEST,
            {"cAn4ry-user", 'cAn4ry-"nonce', "cAn4ry-cnonce", SIGNATURE, "cAn4ry-opaque"},
        ),
        (
            SIGV4,
            {
                "AKIDcAn4ryQX8zuk7WNd",
                "AKIDcAn4ryQX8zuk7WNd/20261123/us-east-1/bedrock/aws4_request",
                SIGNATURE,
            },
        ),
        (SIGV4.replace(", ", ","), {"AKIDcAn4ryQX8zuk7WNd", SIGNATURE}),
    ],
)
@pytest.mark.parametrize(
    "name", ["authorization", "Proxy-Authorization", "x-upstream-auth", "x-note", "api-key"]
)
def test_credentials_are_learnt_without_their_scheme(
    name: str, value: str, credentials: set[str]
) -> None:
    found = set(find_in_header(name, value))
    assert credentials <= found
    parts = {
        "SHA-256",
        "auth",
        "models@example.com",
        "/v1/messages",
        "content-type;host;x-amz-date",
    }
    assert not parts & found


@pytest.mark.parametrize(
    ("value", "credentials"),
    [("Key abcdef", ["abcdef"]), ("Key abcde", ["Key abcde"]), ("abc", ["abc"])],
)
def test_short_credential_is_learnt_with_its_scheme(value: str, credentials: list[str]) -> None:
    assert list(find_in_header("authorization", value)) == credentials


@pytest.mark.parametrize(
    "value",
    [
        "Basic authentication",
        "Basic realm",
        "Digest of the week",
        "bearer of good news",
        "AWS4-HMAC-SHA256",
        "Bearer",
        "[1, 2]",
        "{broken",
        "[" * 1000,
    ],
)
def test_ordinary_headers_have_no_credentials(value: str) -> None:
    assert list(find_in_header("x-note", value)) == []


def test_challenges_have_no_credentials() -> None:
    assert list(find_in_header("WWW-Authenticate", f'Digest realm="a", nonce="{KEY}"')) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (":authority", "api.example.com"),
        (":Authority", "api.example.com"),
        (":method", "POST"),
        (":scheme", "https"),
        (":status", "200"),
        (":path", "/v1/messages?page=value-7"),
    ],
)
def test_pseudo_headers_have_no_credentials(name: str, value: str) -> None:
    """They are the request line of HTTP/2 (RFC 9113, section 8.3), also spelled in capitals."""
    assert list(filter(None, find_in_header(name, value))) == []
    assert not is_secret_header(name)


@pytest.mark.parametrize(
    "name", ["author", "X-Author", "x-authors", "x-author-id", "authority", "x-co-authored-by"]
)
def test_headers_of_authors_have_no_credentials(name: str) -> None:
    """Their values, such as names, may stand anywhere in a body."""
    assert list(find_in_header(name, "Ada Lovelace")) == []
    assert not is_secret_header(name)


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "Proxy-Authorization", "x-authorisation", "x-forwarded-authorization"),
        *("auth", "x-auth", "x-auth-token", "x-oauth", "x-authorized-by", "x-authoriser"),
        *("x-goog-authenticated-user-email", "x-authentication", "x-author-auth"),
        *("x-author-token", "x-authorkey", "authority-secret"),
    ],
)
def test_headers_named_by_auth_are_secret(name: str) -> None:
    assert is_secret_header(name)


def test_key_in_a_pseudo_header_is_found_as_in_a_url() -> None:
    assert KEY in find_in_header(":path", f"/v1beta/models?alt=sse&key={KEY}")


@pytest.mark.parametrize(
    ("name", "value", "credentials"),
    [
        ("cookie", f"a=1; auth=Bearer%20{KEY}", {KEY}),
        ("set-cookie", f'sid="Bearer {KEY}"; Path=/', {KEY}),
        ("x-config", json.dumps({"provider": "p", "api_key": KEY}), {KEY}),
        ("x-config", json.dumps([{"override": {"authorization": f"Bearer {KEY}"}}]), {KEY}),
        ("x-config", "  " + json.dumps({"headers": {"x-team-key": KEY}}), {KEY}),
        ("x-credentials", json.dumps({"user": "user-1", "v": [KEY]}), {"user-1", KEY}),
    ],
)
def test_values_inside_of_headers_are_learnt(name: str, value: str, credentials: set[str]) -> None:
    assert credentials <= set(find_in_header(name, value))


def test_bare_key_is_replaced_in_body_url_and_response() -> None:
    secrets = Secrets()
    body = json.dumps({"messages": [f"my key is {KEY}"]}).encode()
    headers = (("x-original-authorization", f"Bearer {KEY}"),)
    recorded = secrets.scrub_request(WireRequest("POST", f"{URL}/{KEY}/go", headers, body))
    hidden = "x" * len(KEY)
    assert recorded.url == f"{URL}/{hidden}/go"
    assert recorded.body == {"messages": [f"my key is {hidden}"]}
    assert secrets.scrub(f"wrong key {KEY}".encode()) == f"wrong key {hidden}".encode()


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("https://proxy.example/aB3dE5fG7hI9jK1lM3/v1/chat/completions", "aB3dE5fG7hI9jK1lM3"),
        (f"https://gateway.example/v1/{'0a1b2c3d' * 4}/openai", "0a1b2c3d" * 4),
        ("https://mcp.example/s/Zk3-pQ9x_T7vLm2a-aB3dE5fG_hI9jK1lM/sse", None),
        ("https://api.example/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/x", None),
        ("https://hooks.example/services/T0/B0/aB3dE5fG7hI9jK1lM3nO5pQ7", None),
        ("https://api.example/key/cAn4ry77/v1", "cAn4ry77"),
        ("https://api.example/webhooks/cAn4ry77", "cAn4ry77"),
        ("https://api.example/api_key=cAn4ry/v1", "cAn4ry"),
        ("https://api.example/v1;token=cAn4ry", "cAn4ry"),
        ("https://api.example/token/c%41n4ry77/v1", "cAn4ry77"),
    ],
)
def test_tokens_in_the_path_are_learnt(url: str, token: str | None) -> None:
    longest = max(url.removeprefix("https://").split("/"), key=len)
    token = token or longest.rpartition(":")[2]
    assert token in set(find_in_url(url))
    request = WireRequest("POST", url, (), b"")
    assert learnt_of(request, f"no such token: {token}") == "no such token: " + "x" * len(token)
    assert quote(token) not in Secrets().scrub_request(request).url
    assert token not in Secrets().scrub_request(request).url


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/responses/resp_0a1b2c3d0a1b2c3d0a1b2c3d0a1b2c3d/cancel",
        "/v1/conversations/conv_0a1b2c3d0a1b2c3d/items/msg_0a1b2c3d0a1b2c3d",
        "/v1beta/models/gemini-2.5-flash-preview-09-2025:streamGenerateContent",
        "/v1/projects/my-project-20261123/locations/us-central1/publishers/google/models/x",
        "/openai/deployments/gpt-4o-mini-2024-07-18/chat/completions",
        "/model/us.anthropic.claude-3-5-sonnet-20240620-v1:0/invoke-with-response-stream",
        "/v1/123e4567-e89b-12d3-a456-426614174000/runs",
        "/v1/key/info-77",
        "/v1/key/info-of-keys",
        "/v1/aB3dE5fG7hI9jK1",
        "/v1/Zk3-pQ9x_T7vLm2a-aB3dE5fG_hI9jK",
        "/v1/zk3-pq9x_t7vlm2a-ab3de5fg_hi9jk1lm",
        "/v1/ZK3-PQ9X_T7VLM2A-AB3DE5FG_HI9JK1LM",
        "/v1/Zk3-pQ9x_T7vLm2-aB3dE5f_hI9jK1l_Zz",
        "/v1/key/info",
        "/v1/messages/count_tokens",
        "/v1/tokens/count",
        "/v1/1234567890123456",
        "/v1/ABCDEFGHIJKLMNOPQRSTUVWX",
        "/production-environment-of-team-7/v1",
        "/my-long-gateway-name-with-many-words-2026/v1",
        "/v1/x=value-of-x-77",
    ],
)
def test_names_and_ids_in_the_path_are_no_secrets(path: str) -> None:
    assert set(find_in_url("https://api.example" + path)) <= {""}


def test_signature_of_a_signed_url_is_learnt() -> None:
    credential = "AKIDcAn4ryQX8zuk7WNd%2F20261123%2Fus-east-1%2Fs3%2Faws4_request"
    url = f"{URL}?X-Amz-Credential={credential}&X-Amz-Signature={SIGNATURE}&alt=sse"
    assert {"AKIDcAn4ryQX8zuk7WNd", SIGNATURE} <= set(find_in_url(url))
    assert "sse" not in set(find_in_url(url))


@pytest.mark.parametrize(
    ("field", "credentials"),
    [
        ({"value": KEY}, [KEY]),
        ({"type": "secret", "name": "prod", "value": KEY}, [KEY]),
        ({"type": "string", "description": "the key", "value": KEY}, [KEY]),
        ([{"old": {"v": KEY}}, {"new": [KEY, None, True]}], [KEY, KEY]),
        ({"default": KEY}, [KEY]),
        ({"n": 12345678}, ["12345678"]),
        ({"type": "string", "minLength": 8, "x": {}}, []),
        ({"anyOf": [{"type": "string", "default": "secret-default"}, {"type": "null"}]}, []),
        ({"$ref": "#/$defs/Password"}, []),
        ({"description": "of the user"}, []),
        ({"type": "object", "properties": {"api_key": {"value": KEY}}}, [KEY]),
    ],
)
def test_objects_in_secret_fields_are_secret_unless_they_are_a_schema(
    field: object, credentials: list[str]
) -> None:
    value = {"model": "m", "api_key": field}
    assert list(find_in_json(value)) == credentials
    recorded = Secrets().scrub_request(WireRequest("POST", URL, (), json.dumps(value).encode()))
    text = json.dumps(value)
    for credential in credentials:
        text = text.replace(credential, "x" * len(credential))
    if credentials != ["12345678"]:
        assert recorded.body == json.loads(text)


@pytest.mark.parametrize(
    ("body", "public"),
    [
        # OpenAI, Responses: `ContainerNetworkPolicyDomainSecretParam`.
        (
            {"domain_secrets": [{"domain": "api.example", "name": "KEY", "value": KEY}]},
            ["api.example"],
        ),
        # Google, `ApiKeyConfig` of a tool.
        ({"authConfig": {"apiKeyConfig": {"apiKeyString": KEY}}}, []),
        # Azure OpenAI, authentication of `data_sources`.
        ({"authentication": {"type": "api_key", "key": KEY}}, ["api_key"]),
        ({"authentication": {"type": "key_and_key_id", "key": KEY, "key_id": KEY}}, []),
        ({"authentication": {"type": "connection_string", "connection_string": KEY}}, []),
        # Vaults of Anthropic and OpenAI.
        ({"auth": {"type": "static_bearer", "mcp_server_url": URL, "token": KEY}}, [URL]),
        ({"type": "environment_variable", "secret_name": "A_KEY", "secret_value": KEY}, ["A_KEY"]),
        ({"tunnel_token": KEY}, []),
    ],
)
def test_credentials_that_a_request_hands_to_the_provider_are_replaced(
    body: dict[str, object], public: list[str]
) -> None:
    content = json.dumps({"tools": [body]})
    recorded = Secrets().scrub_request(WireRequest("POST", URL, (), content.encode()))
    assert recorded.body == json.loads(content.replace(KEY, "x" * len(KEY)))
    request = WireRequest("POST", URL, (), content.encode())
    said = " ".join([f"no access by {KEY}", *public])
    assert learnt_of(request, said) == said.replace(KEY, "x" * len(KEY))


@pytest.mark.parametrize(
    "value",
    [
        {"token": "Hello", "bytes": [72], "logprob": -0.1},
        {"type": "eq", "key": "region", "value": "europe"},
        {"type": "api_key", "id": "apikey_0123"},
        {"authentication": "required", "type": ["api_key"]},
        {"type": "string", "key": "long-enough"},
    ],
)
def test_ordinary_keys_and_tokens_have_no_credentials(value: object) -> None:
    assert find_in_json(value) == []


def test_scheme_in_a_field_is_not_part_of_the_key() -> None:
    assert set(find_in_json({"api_key": f"Bearer {KEY}"})) == {f"Bearer {KEY}", KEY}
    assert set(find_in_json({"headers": {"X-Up": f"Bearer {KEY}"}})) == {KEY}


@pytest.mark.parametrize(
    "unit", ["a", " ", "=", 'a="', "a=", "a=b,", 'a="\\', "\\", "Basic ", "{", "7/"]
)
@pytest.mark.parametrize("start", ["Digest ", "Basic ", "Bearer ", "", "https://h.example/v1/"])
def test_time_is_linear_in_the_size_of_a_header(start: str, unit: str) -> None:
    """A quadratic search would take minutes."""
    value = start + unit * (128 * 1024 // len(unit))
    for name in ("authorization", "x-note", "cookie", "location"):
        for _ in find_in_header(name, value):
            pass


def test_response_adds_at_most_256_credentials() -> None:
    """Each is searched for in the whole body: a server must not make that slow."""
    secrets = Secrets()
    query = "&".join(f"a={number:08}" for number in range(300))
    secrets.scrub_response_headers([("location", f"https://h.example/?{query}"), ("api-key", KEY)])
    scrubbed = secrets.scrub(query.encode()).decode()
    assert scrubbed.startswith("a=xxxxxxxx&")
    assert scrubbed.endswith("&a=00000299")
    assert secrets.scrub(KEY.encode()).decode() == KEY
