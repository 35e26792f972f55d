"""A secret in every position of an exchange, searched for in every file."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from streamnorm.transports.httpx import RecordingTransport

# Letters that every form changes: a url escapes the plus, JSON may escape the slash and é.
CANARY = "Zq7+Kw/é9TmX2vBn4RsL8"
URL = "https://api.example-models.com/v1/chat/completions"


def forms(secret: str = CANARY) -> dict[str, bytes]:
    raw = secret.encode()
    return {
        "raw": raw,
        "url": quote(secret, safe="").encode(),
        "url, lower case": quote(secret, safe="").encode().replace(b"%2B", b"%2b"),
        "url, as a path": quote(secret).encode(),
        "base64": b64encode(raw),
        "base64, of more": b64encode(b"key:" + raw + b":end"),
        "base64, of more still": b64encode(b"a" + raw),
        "base64, of a url": urlsafe_b64encode(b"ab" + raw),
        "JSON": json.dumps(secret, ensure_ascii=False).strip('"').encode(),
        "JSON, ASCII": json.dumps(secret).strip('"').encode(),
        "JSON, slashes": json.dumps(secret).strip('"').replace("/", "\\/").encode(),
        "JSON, each character": "".join(f"\\u{ord(char):04x}" for char in secret).encode(),
        "JSON in JSON": json.dumps(json.dumps(secret)).strip('"').encode(),
    }


FORMS = forms()


def core(form: bytes) -> bytes:
    """Return the middle of a form, which a shift of base64 does not change."""
    return form[4:-6]


def in_header(name: str, value: str = CANARY) -> Callable[[], httpx.Request]:
    return lambda: httpx.Request(
        "POST", URL, headers=[(name.encode(), value.encode())], json={"model": "m", "stream": True}
    )


def coded(coding: str, body: bytes) -> httpx.Request:
    return httpx.Request("POST", URL, headers={"content-encoding": coding}, content=body)


REQUESTS: dict[str, Callable[[], httpx.Request]] = {
    "authorization": in_header("authorization", f"Bearer {CANARY}"),
    "authorization, bare": in_header("Authorization"),
    "basic": in_header("authorization", "Basic " + b64encode(f"me:{CANARY}".encode()).decode()),
    "x-api-key": in_header("x-api-key"),
    "x-goog-api-key": in_header("X-Goog-Api-Key"),
    "api-key": in_header("api-key"),
    "cookie": in_header("cookie", f"theme=dark; session={CANARY}"),
    "organization": in_header("OpenAI-Organization"),
    "project": in_header("openai-project"),
    "proxy": in_header("proxy-authorization", f"Bearer {CANARY}"),
    "a header of one's own": in_header("x-gateway-secret"),
    "query": lambda: httpx.Request("POST", f"{URL}?alt=sse&key={quote(CANARY, safe='')}", json={}),
    "userinfo": lambda: httpx.Request(
        "POST", URL.replace("://", f"://me:{quote(CANARY, safe='')}@"), json={}
    ),
    "body": lambda: httpx.Request("POST", URL, json={"tools": [{"mcp": {"api_key": CANARY}}]}),
    "object in a secret field": lambda: httpx.Request(
        "POST", URL, json={"api_key": {"value": CANARY}}
    ),
    "bearer in a header of one's own": in_header("x-upstream", f"Bearer {CANARY}"),
    "digest": in_header("authorization", f'Digest username="me", realm="r", response="{CANARY}"'),
    "SigV4": in_header(
        "x-amz-auth",
        f"AWS4-HMAC-SHA256 Credential=me/1/r/s/a, SignedHeaders=host, Signature={CANARY}",
    ),
    "JSON in a header": in_header("x-config", json.dumps({"api_key": CANARY})),
    "path": lambda: httpx.Request("POST", f"{URL}/key/{quote(CANARY, safe='')}/v1", json={}),
    "gzip": lambda: coded("gzip", gzip.compress(json.dumps({"api_key": CANARY}).encode())),
    "BOM": lambda: coded("", json.dumps({"api_key": CANARY}).encode("utf-8-sig")),
    "NDJSON": lambda: coded("", b"{}\n" + json.dumps({"secret": {"v": CANARY}}).encode()),
    "form": lambda: httpx.Request("POST", URL, data={"client_secret": CANARY}),
    "multipart": lambda: httpx.Request(
        "POST",
        URL,
        headers={"content-type": "multipart/form-data; boundary=b"},
        content=b'--b\r\nContent-Disposition: form-data; name="api_key"\r\n\r\n%b\r\n--b--\r\n'
        % CANARY.encode(),
    ),
}


def answer(name: str, form: bytes) -> httpx.Response:
    stream = {"content-type": "text/event-stream"}
    body = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\ndata: [DONE]\n\n' % form
    match name:
        case "response header":
            headers = [(b"content-type", b"text/event-stream"), (b"retry-after", form)]
            return httpx.Response(200, headers=headers, content=body)
        case "cookie set":
            headers = [(b"content-type", b"text/event-stream"), (b"set-cookie", b"key=" + form)]
            return httpx.Response(200, headers=headers, content=body)
        case "redirect":
            headers = [(b"location", b"https://example.org/?k=" + form)]
            return httpx.Response(307, headers=headers)
        case "error message":
            return httpx.Response(
                401,
                headers={"content-type": "application/json"},
                content=b'{"error":{"message":"Incorrect API key provided: %b."}}' % form,
            )
        case "text":
            return httpx.Response(
                502, headers={"content-type": "text/html"}, content=b"<p>%b</p>" % form
            )
        case _:
            return httpx.Response(200, headers=stream, content=body)


ANSWERS = ["response header", "cookie set", "redirect", "error message", "text", "stream"]


class InPieces(httpx.SyncByteStream):
    """A body, cut in two."""

    def __init__(self, body: bytes, at: int) -> None:
        self._pieces = [body[:at], body[at:]]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


def record(directory: Path, request: httpx.Request, response: httpx.Response) -> None:
    transport = RecordingTransport(httpx.MockTransport(lambda _: response), directory)
    with httpx.Client(transport=transport) as client:
        client.send(request).read()
    assert transport.failures == ()


def leaks(directory: Path) -> list[str]:
    """Return the files whose name or content contains a form of the secret."""
    found: list[str] = []
    for path in directory.rglob("*"):
        content = path.name.encode() + path.read_bytes()
        found += [f"{name} in {path.name}" for name, form in FORMS.items() if core(form) in content]
    return found


def test_canary_would_be_found(tmp_path: Path) -> None:
    """Without a credential in the request nobody knows that it is one."""
    for form in FORMS.values():
        record(tmp_path, httpx.Request("POST", URL, json={}), answer("stream", form))
    assert len(leaks(tmp_path)) >= len(FORMS)


@pytest.mark.parametrize("place", REQUESTS)
@pytest.mark.parametrize("echo", ANSWERS)
def test_secret_of_the_request_is_in_no_file(tmp_path: Path, place: str, echo: str) -> None:
    for form in FORMS.values():
        record(tmp_path, REQUESTS[place](), answer(echo, form))
    assert len(list(tmp_path.glob("*.json"))) >= len(FORMS)
    assert leaks(tmp_path) == []


@pytest.mark.parametrize("name", FORMS)
def test_secret_split_over_two_reads_is_in_no_file(tmp_path: Path, name: str) -> None:
    body = b'data: {"error":{"message":"no such key: %b"}}\n\n' % FORMS[name]
    for at in range(body.index(FORMS[name]), body.index(b'"}}'), 3):
        response = httpx.Response(
            200, headers={"content-type": "text/event-stream"}, stream=InPieces(body, at)
        )
        record(tmp_path, REQUESTS["x-api-key"](), response)
    assert leaks(tmp_path) == []
    for path in tmp_path.glob("*.sse"):
        assert len(path.read_bytes()) == len(body)
        assert b"x" * len(CANARY) in path.read_bytes()


def test_secret_shapes_are_in_no_file_without_being_named(tmp_path: Path) -> None:
    shapes = [
        b"sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8xYz1",
        b"sk-ant-api03-Ab3dEf6hIj9lMn2pQr5tUv8xYz1-Qw",
        b"AIza" + b"SyB3dEf6hIj9lMn2pQr5tUv8xYz1Ab3dEf6",
        b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    ]
    for shape in shapes:
        record(tmp_path, httpx.Request("POST", URL, json={"a": shape.decode()}), answer("", shape))
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*"))
    assert [shape for shape in shapes if shape[8:] in written] == []


def test_redacted_text_is_in_no_file(tmp_path: Path) -> None:
    transport = RecordingTransport(
        httpx.MockTransport(lambda _: answer("stream", FORMS["base64"])), tmp_path, redact=[CANARY]
    )
    with httpx.Client(transport=transport) as client:
        client.post(URL, json={"messages": [CANARY]})
    assert leaks(tmp_path) == []


def test_redacted_text_is_in_no_file_name(tmp_path: Path) -> None:
    transport = RecordingTransport(
        httpx.MockTransport(lambda _: answer("stream", b"")), tmp_path, redact=["Zq7Kw9TmX"]
    )
    with httpx.Client(transport=transport) as client:
        client.post("https://api.example-models.com/v1/projects/Zq7Kw9TmX/chat", json={})
    assert [path.name for path in tmp_path.iterdir() if "Zq7Kw9TmX" in path.name] == []
    assert len(list(tmp_path.iterdir())) == 2
