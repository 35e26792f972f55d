"""Verification of AWS signatures, by signing requests again."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

__all__ = ["KEY_ID", "SECRET", "assert_signed", "set_credentials"]

KEY_ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([\w-]+)/bedrock/aws4_request, "
    r"SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})"
)


def set_credentials(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Set AWS credentials in the environment, and hide the machine's own."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(directory / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(directory / "credentials"))


def assert_signed(
    method: str, url: str, headers: dict[str, str], body: bytes, *, region: str = "eu-west-1"
) -> None:
    """Check the signature of a received request."""
    found = _AUTHORIZATION.fullmatch(headers["authorization"])
    assert found is not None, headers["authorization"]
    key_id, day, of, names, signature = found.groups()
    assert (key_id, of) == (KEY_ID, region)
    stamp = headers["x-amz-date"]
    assert stamp.startswith(day)
    signed_at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - signed_at).total_seconds()) < 300
    signer = SigV4Auth(Credentials(KEY_ID, SECRET), "bedrock", of)
    request = AWSRequest(
        method=method,
        url=url,
        data=body,
        headers={name: headers[name] for name in names.split(";") if name != "host"},
    )
    assert {"host", "x-amz-date"} <= set(names.split(";"))
    assert headers["host"] == urlsplit(url).netloc
    request.context["timestamp"] = stamp
    canonical = signer.canonical_request(request)
    assert signer.signature(signer.string_to_sign(request, canonical), request) == signature
