"""Verification of AWS signatures (SigV4), by which clients of Amazon Bedrock authenticate.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html (read
2026-11-27).  botocore's own signer signs a request again, with the headers that its client has
named, and the signatures are compared.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials
from msgspec import Struct

from streamnorm._upstream.requests import RequestRefused
from streamnorm.gateway.config import ConfigError

_SERVICE = "bedrock"
_WINDOW_S = 300
_TIME = "%Y%m%dT%H%M%SZ"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=(?P<key_id>\w{1,128})/(?P<day>\d{8})/(?P<region>[\w-]{1,64})"
    r"/(?P<service>[\w-]{1,64})/aws4_request, *SignedHeaders=(?P<names>[a-z0-9;:_-]{1,4096}), *"
    r"Signature=(?P<value>[0-9a-f]{64})",
    re.ASCII,
)
_PAIR = re.compile(r"(?P<key_id>\w{1,128}):(?P<secret>[!-~]{1,512})", re.ASCII)
_DATE, _TOKEN, _HOST = "x-amz-date", "x-amz-security-token", "host"
_AUTHORITY = ":authority"  # HTTP/2's field for the host, of which servers of ASGI make a `host`
_PAYLOAD_HASH = "x-amz-content-sha256"
_PORT = re.compile(r":[0-9]+\Z", re.ASCII)


class Signature(Struct, frozen=True):
    """The signature of a request, parsed from its headers.

    Attributes:
        key_id: Id of the access key.
        region: Region of AWS that was signed.
        names: Names of the signed headers.
        value: The signature.
        signed_at: Value of `x-amz-date`.
    """

    key_id: str
    region: str
    names: tuple[str, ...]
    value: str
    signed_at: str


class AccessKeys:
    """The access keys with which clients may sign requests.

    Args:
        listed: Pairs of an id and its secret, `ID:SECRET`, separated by commas.

    Raises:
        ConfigError: One is no such pair, or an id is repeated.
    """

    def __init__(self, listed: str) -> None:
        self._secrets: dict[str, str] = {}
        for pair in listed.split(","):
            found = _PAIR.fullmatch(pair.strip())
            if found is None:
                raise ConfigError(
                    "aws_client_keys: no pair of an id and a secret, expected ID:SECRET"
                )
            if found["key_id"] in self._secrets:
                raise ConfigError("aws_client_keys: an id twice, expected each once")
            self._secrets[found["key_id"]] = found["secret"]

    def signature_in(self, headers: Mapping[str, str], now: datetime) -> Signature:
        """Return a request's signature, checked as far as possible without the body.

        Args:
            headers: Headers of the request by lower-case name.
            now: The time.

        Raises:
            RequestRefused: It is none of the last five minutes, or of another key.
        """
        found = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
        if found is None or found["service"] != _SERVICE:
            raise _refusal(
                "no signature by SigV4 for the service bedrock, expected one", "Incomplete"
            )
        names = tuple(found["names"].split(";"))
        plain = {_HOST if name == _AUTHORITY else name for name in names}
        needed = {_HOST, _DATE, *({_TOKEN, _PAYLOAD_HASH} & headers.keys())}
        if not needed <= plain <= headers.keys():
            raise _refusal("a signature without a header that it needs", "Incomplete")
        signed_at = headers[_DATE]
        try:
            time = datetime.strptime(signed_at, _TIME).replace(tzinfo=UTC)
        except ValueError as exc:
            raise _refusal(f"an {_DATE} that is no time", "Incomplete") from exc
        if abs((now - time).total_seconds()) > _WINDOW_S or not signed_at.startswith(found["day"]):
            raise _refusal("a signature of another time, expected one of the last five minutes")
        if found["key_id"] not in self._secrets:
            raise RequestRefused(
                "an unknown access key, expected one of aws_client_keys",
                403,
                code="UnrecognizedClientException",
            )
        return Signature(found["key_id"], found["region"], names, found["value"], signed_at)

    def verify(
        self,
        signature: Signature,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body_hash: str,
    ) -> None:
        """Sign a request again, and check that the signatures are equal.

        Args:
            signature: What `signature_in` has returned.
            method: HTTP method.
            target: Path and query, as the URL spells them.
            headers: Headers of the request by lower-case name.
            body_hash: SHA-256 of the body as it arrived, in hexadecimal digits.

        Raises:
            RequestRefused: The signatures differ: another secret, or a changed request.
        """
        if not target.startswith("/"):  # which would be a part of the host
            raise _refusal("a target without a leading slash, expected one")
        host = headers[_HOST]
        hosts = {_HOST, _AUTHORITY} & set(signature.names)
        signed = {name: headers[name] for name in signature.names if name not in hosts}
        matches = headers.get(_PAYLOAD_HASH, body_hash) == body_hash
        if matches:
            # Claude Code signs the host without its port.
            expected = [
                self._sign(
                    signature, method, target, signed | dict.fromkeys(hosts, name), body_hash
                )
                for name in (host, _PORT.sub("", host))
            ]
            matches = any(hmac.compare_digest(each, signature.value) for each in expected)
        if not matches:
            raise _refusal("a signature that does not match the request, expected one that does")

    def _sign(
        self,
        signature: Signature,
        method: str,
        target: str,
        signed: Mapping[str, str],
        body_hash: str,
    ) -> str:
        # A fragment would hide what stands behind it; the host is one of the headers.
        url = f"http://host{target}".replace("#", "%23")
        request: Any = AWSRequest(method=method, url=url, headers=signed)
        request.context.update(timestamp=signature.signed_at, body_hash=body_hash)
        secret = Credentials(signature.key_id, self._secrets[signature.key_id])
        signer = _SignerOfNamed(secret, _SERVICE, signature.region)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return str(signer.signature(text, request))


class _SignerOfNamed(SigV4Auth):
    """Signer of exactly the headers that a client has signed."""

    def headers_to_sign(self, request: Any) -> HTTPHeaders:
        found = HTTPHeaders()
        for name, value in request.headers.items():
            found[name.lower()] = value
        return found

    def payload(self, request: Any) -> str:
        return str(request.context["body_hash"])


def _refusal(message: str, kind: str = "Invalid") -> RequestRefused:
    return RequestRefused(message, 403, code=f"{kind}SignatureException")
