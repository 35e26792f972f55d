"""The positions of credentials in the decoded content of a file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.recording.secret_shapes import SHAPED

from streamnorm.recording.scanning import find_credentials, is_replaced

KEY = "cAn4ry-qX8zuk7-wNd51"
URL = "https://api.example/v1"


def request(**fields: Any) -> dict[str, Any]:
    return {"request": {"method": "POST", **fields}}


@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        (request(url=f"{URL}?key={KEY}"), "request.url", "credential in a URL"),
        (request(uri=f"{URL}?sig={KEY}"), "request.uri", "credential in a URL"),
        (request(URL=f"{URL}?X-Amz-Signature={KEY}"), "request.URL", "credential in a URL"),
        (request(url=f"https://{KEY}@api.example/"), "request.url", "credential in a URL"),
        (
            request(headers={"Accept": "*/*", "X-Api-Key": KEY}),
            "request.headers.X-Api-Key",
            "credential in a header",
        ),
        (
            {"response": {"headers": {"set-cookie": ["a=1", f"b={KEY}"]}}},
            "response.headers.set-cookie",
            "credential in a header",
        ),
        (
            {"responseHeaders": [{"name": "a", "value": "b"}, {"name": "api-key", "value": KEY}]},
            "responseHeaders[1]",
            "credential in a header",
        ),
        ({"cookies": {"sid": KEY}}, "cookies.sid", "cookie"),
        ({"cookies": [{"name": "sid", "value": KEY}]}, "cookies[0]", "cookie"),
        ({"queryString": [{"name": "key", "value": KEY}]}, "queryString[0]", "credential in a URL"),
        ({"params": {"api_key": KEY}}, "params.api_key", "credential in a URL"),
        ([{"a": [[{"apiKey": KEY}]]}], "[0].a[0][0].apiKey", "secret field"),
        ({"client_secret": {"value": [KEY]}}, "client_secret", "secret field"),
        ({"body": json.dumps({"api_key": KEY})}, "body", "secret field"),
        ({"text": " " + json.dumps([{"api_key": KEY}])}, "text", "secret field"),
        ({"content": json.dumps({"api_key": KEY})}, "content", "secret field"),
        ({"string": json.dumps({"api_key": KEY})}, "string", "secret field"),
        ({"body": {"api_key": KEY}}, "body.api_key", "secret field"),
        ({"auth": {"type": "api_key", "key": KEY}}, "auth.key", "secret field"),
        (
            {"domain_secrets": [{"domain": "api.example", "name": "KEY", "value": KEY}]},
            "domain_secrets",
            "secret field",
        ),
    ],
)
def test_credential_is_found_at_its_position(value: Any, path: str, kind: str) -> None:
    assert list(find_credentials(value)) == [(path, kind, KEY)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        KEY,
        [KEY],
        {"say": KEY},
        {"url": f"{URL}?key={KEY}"},
        request(url=[f"{URL}?key={KEY}"]),
        request(url=f"{URL}?after={KEY}&alt={KEY}&{KEY}"),
        {"headers": {"x-note": KEY, "api-key": 7, "x-key": [None, {"a": KEY}]}},
        {"headers": [KEY, {"name": "api-key"}, {"name": 1, "value": KEY}, {"value": KEY}]},
        {"headers": KEY, "cookies": KEY, "params": None},
        {"params": {"page": KEY}},
        {"body": f'api_key: "{KEY}"', "text": "{", "string": "[" * 1000},
        {"notes": json.dumps({"api_key": KEY})},
        {"headers": {"api-key": "cAn4r"}, "password": "cAn4r"},
    ],
)
def test_other_values_are_not_found(value: Any) -> None:
    assert list(find_credentials(value)) == []


def test_parts_of_a_credential_stand_behind_it() -> None:
    value = {"headers": {"authorization": "Basic dXNlci0xOmNBbjRyeQ=="}}
    assert [position.value for position in find_credentials(value)] == [
        "dXNlci0xOmNBbjRyeQ==",
        "user-1:cAn4ry",
        "user-1",
        "cAn4ry",
    ]


@pytest.mark.parametrize(
    "name", [KEY, SHAPED["fireworks"], "a b", "", "1a", "a" * 41, "a" * 15 + "1", "é", "\ud800"]
)
def test_name_that_might_be_a_secret_is_shown_by_its_number(name: str) -> None:
    value = {"n": 1, name: {"api_key": KEY}}
    assert [position.path for position in find_credentials(value)] == ["[1].api_key"]
    assert [position.path for position in find_credentials({"a": value})] == ["a[1].api_key"]


@pytest.mark.parametrize("name", ["a", "a" * 40, "a" * 14 + "1", "x-request-id", "_b_2"])
def test_usual_name_is_shown(name: str) -> None:
    path = f"a.{name}.api_key"
    assert [p.path for p in find_credentials({"a": {name: {"api_key": KEY}}})] == [path]


@pytest.mark.parametrize("value", ["xxxxxx", "XXX", "***", "...", "<key>", "a ${KEY} b", "a{{b}}"])
def test_replacements_are_recognised(value: str) -> None:
    assert is_replaced(value)


@pytest.mark.parametrize("value", [KEY, "xxxxxxx7", "", "a", "$KEY", "latest", "exam-7"])
def test_values_are_no_replacements(value: str) -> None:
    assert not is_replaced(value)
