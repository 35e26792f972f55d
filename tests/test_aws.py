"""Requests that are signed with the credentials of AWS."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import CredentialRetrievalError
from support.bedrock.signatures import KEY_ID, SECRET, assert_signed, set_credentials

from streamnorm.aws import CredentialsError, Signer
from streamnorm.codec import INVOKE_CHUNKS
from streamnorm.transports.httpx import TranscodingTransport

pytestmark = pytest.mark.anyio

URL = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a%2Fb:0/invoke"
HEADERS = {"content-type": "application/json", "x-api-key": "sk-1", "accept": "*/*"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_credentials(monkeypatch, tmp_path)


def test_missing_botocore_is_one_line_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    monkeypatch.delitem(sys.modules, "streamnorm.aws")
    with pytest.raises(ImportError, match=r"^no botocore, expected the extra `bedrock`: pip inst"):
        import_module("streamnorm.aws")


def test_signature_is_that_of_the_service() -> None:
    signed = Signer("eu-west-1").sign("POST", URL, HEADERS, b"{}")
    host = {"host": "bedrock-runtime.eu-west-1.amazonaws.com"}
    assert_signed("POST", URL, signed | host, b"{}")
    assert "x-api-key" not in signed  # of another vendor
    assert signed["accept"] == "*/*"
    with pytest.raises(AssertionError):
        assert_signed("POST", URL, signed | host, b"[]")


def test_request_without_a_body_is_signed() -> None:
    signed = Signer("eu-west-1").sign("GET", URL, {}, b"")
    assert_signed("GET", URL, signed | {"host": "bedrock-runtime.eu-west-1.amazonaws.com"}, b"")


def test_session_token_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    assert Signer("eu-west-1").sign("POST", URL, {}, b"")["x-amz-security-token"] == "token"


def test_region_and_credentials_of_a_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text("[profile team]\nregion = eu-west-1\n")
    (tmp_path / "credentials").write_text(
        f"[team]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"
    )
    signer = Signer(profile="team")
    assert repr(signer) == "Signer('eu-west-1')"
    signed = signer.sign("POST", URL, {}, b"")
    assert_signed("POST", URL, signed | {"host": "bedrock-runtime.eu-west-1.amazonaws.com"}, b"")


def test_missing_region() -> None:
    with pytest.raises(CredentialsError, match="no region of AWS"):
        Signer()


def test_missing_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(CredentialsError, match="no credentials of AWS, expected"):
        Signer("eu-west-1")


def test_missing_profile() -> None:
    with pytest.raises(CredentialsError, match="ProfileNotFound"):
        Signer("eu-west-1", profile="none")


def test_credentials_that_cannot_be_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Signer("eu-west-1")

    def fail() -> None:
        raise CredentialRetrievalError(provider="p", error_msg="secret")

    monkeypatch.setattr(signer._credentials, "get_frozen_credentials", fail)
    with pytest.raises(CredentialsError, match=r"^no credentials of AWS: CredentialRetrieval"):
        signer.sign("POST", URL, {}, b"")


# Through a transport


def transport(seen: list[httpx.Request]) -> TranscodingTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(429, json={"message": "Slow down."})

    return TranscodingTransport(
        httpx.MockTransport(answer),
        client="openai_chat",
        upstream="anthropic",
        base_url="https://bedrock-runtime.eu-west-1.amazonaws.com",
        server="bedrock",
        signer=Signer("eu-west-1"),
        framing=INVOKE_CHUNKS,
    )


ASKED: dict[str, Any] = {
    "model": "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-x",
    "messages": [{"role": "user", "content": "Snow?"}],
}


def check(request: httpx.Request) -> None:
    assert b"/model/arn:aws:bedrock:eu-west-1:1:inference-profile%2Feu." in request.url.raw_path
    assert_signed("POST", str(request.url), dict(request.headers), request.content)
    assert "Bearer" not in request.headers["authorization"]


async def test_requests_of_a_transport_are_signed_as_they_are_sent() -> None:
    seen: list[httpx.Request] = []
    headers = {"authorization": "Bearer sk-of-openai"}
    async with httpx.AsyncClient(transport=transport(seen), headers=headers) as client:
        answer = await client.post("https://h/v1/chat/completions", json=ASKED)
    assert (answer.status_code, answer.json()["error"]["message"]) == (429, "Slow down.")
    check(seen[0])


def test_requests_of_a_synchronous_transport_are_signed() -> None:
    seen: list[httpx.Request] = []
    headers = {"authorization": "Bearer sk-of-openai"}
    with httpx.Client(transport=transport(seen), headers=headers) as client:
        client.post("https://h/v1/chat/completions", json=ASKED)
    check(seen[0])
