"""Signing of requests to Amazon Bedrock with credentials from AWS's default provider chain.

The extra `bedrock` installs botocore, which signs (SigV4) and finds credentials: in the
environment, in the files of the AWS command line, of a role or of the machine.  It may read files
and ask the network for them, so asynchronous callers sign in a thread.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

try:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session
except ImportError as exc:
    raise ImportError("no botocore, expected the extra `bedrock`: pip install botocore") from exc

from streamnorm._core.errors import CredentialsError
from streamnorm._upstream.auxiliary import UpstreamCall
from streamnorm._upstream.requests import UpstreamRequest

__all__ = ["CredentialsError", "Signer"]

RequestT = TypeVar("RequestT", UpstreamRequest, UpstreamCall, UpstreamRequest | UpstreamCall)

_SERVICE = "bedrock"


class Signer:
    """Signs requests to Amazon Bedrock.

    Args:
        region: Name of the region; None for that of the environment or the profile.
        profile: Name of a profile in the files of the AWS command line; None for the default.

    Raises:
        CredentialsError: There is no region, no such profile, or no credentials.
    """

    def __init__(self, region: str | None = None, *, profile: str | None = None) -> None:
        try:
            session = Session(profile=profile)
            self.region: str = region or session.get_config_variable("region") or ""
            credentials = session.get_credentials()
        except BotoCoreError as exc:
            raise CredentialsError(f"no credentials of AWS: {type(exc).__name__}") from exc
        if not self.region:
            raise CredentialsError("no region of AWS, expected one")
        if credentials is None:
            raise CredentialsError("no credentials of AWS, expected them in the usual places")
        self._credentials = credentials

    def __repr__(self) -> str:
        return f"Signer({self.region!r})"

    def sign(self, method: str, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        """Return a request's headers with an added signature, which is valid for five minutes.

        Only the headers that the service needs are signed: others may change on the way.

        Args:
            method: HTTP method.
            url: The whole URL, spelt as it is sent.
            headers: Headers of the request, names in lower case.
            body: The body.

        Raises:
            CredentialsError: Expired credentials cannot be refreshed.
        """
        signed = {"content-type": headers["content-type"]} if "content-type" in headers else {}
        request = AWSRequest(method=method, url=url, data=body, headers=signed)
        try:
            credentials = self._credentials.get_frozen_credentials()
            SigV4Auth(credentials, _SERVICE, self.region).add_auth(request)
        except BotoCoreError as exc:
            raise CredentialsError(f"no credentials of AWS: {type(exc).__name__}") from exc
        rest = {name: value for name, value in headers.items() if name not in _REPLACED}
        return rest | {name.lower(): value for name, value in request.headers.items()}

    def sign_request(self, request: RequestT) -> RequestT:
        """Return a signed upstream request."""
        body = request.body or b""
        headers = self.sign(request.method, request.url, request.headers, body)
        return structs.replace(request, headers=headers)


_REPLACED = ("authorization", "x-api-key", "x-amz-date", "x-amz-security-token")
