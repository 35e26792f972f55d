"""Credentials in URLs that stand in bodies, such as those of servers of MCP."""

from __future__ import annotations

import json

import pytest

from streamnorm.recording.format import WireRequest
from streamnorm.recording.secrets import Secrets

KEY = "Zq8vLk3pTn5wYx2c"


def hidden(field: str, url: str) -> str:
    """Return what is recorded of a request with a URL, and of an answer that repeats the key."""
    secrets = Secrets()
    body = json.dumps({"tools": [{"type": "mcp", field: url}]}).encode()
    headers = (("content-type", "application/json"),)
    sent = secrets.scrub_request(WireRequest("POST", "https://h/v1/responses", headers, body))
    return json.dumps(sent.body) + secrets.scrub(KEY.encode()).decode()


@pytest.mark.parametrize("field", ["server_url", "url", "serverUrl", "uri", "baseURL"])
@pytest.mark.parametrize(
    "url",
    [
        f"https://server.example/x/mcp?api_key={KEY}",
        f"wss://server.example/x?a=1&token={KEY}#z",
        f"https://{KEY}@server.example/x",
        f"HTTPS://user:{KEY}@server.example/x",
    ],
)
def test_key_in_a_url_is_hidden_wherever_it_stands(field: str, url: str) -> None:
    recorded = hidden(field, url)
    assert KEY not in recorded
    assert "server.example/x" in recorded


@pytest.mark.parametrize(
    ("field", "url"),
    [
        ("image_url", f"https://files.example/{KEY}/a.png?width=100&version={KEY}"),
        ("text", f"see https://server.example/?api_key={KEY}"),
        ("url", f"data:text/plain;api_key={KEY}"),
    ],
)
def test_other_parts_of_a_url_and_other_texts_stay(field: str, url: str) -> None:
    assert KEY in hidden(field, url)
