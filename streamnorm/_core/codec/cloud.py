"""Clouds: services that serve the models of vendors at paths, and with errors, of their own.

https://docs.aws.amazon.com/bedrock/latest/APIReference, as botocore 1.44.5 has it in
`bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm._core.events import StreamError
from streamnorm._core.json import dumps

_MESSAGE = "message"


class Cloud(Struct, frozen=True, kw_only=True):
    """The conventions of a cloud.

    The name of a model is one percent-encoded segment of its paths, and the path alone decides
    whether an answer is streamed.

    Attributes:
        name: Name of the cloud, as of its server in profiles.
        key_headers: Request headers that may hold a key.
        header_prefix: Prefix of the cloud's own headers, which are passed on with requests and
            answers.
        request_id_header: Response header with the id of the request.
        overloaded_status: HTTP status of an overloaded server.
        forbidden_status: HTTP status of a request without a valid key.
        error_type: Function from an error to the name of the exception that clients read.
        error_type_header: Response header with that type.
    """

    name: str
    key_headers: tuple[str, ...]
    header_prefix: str
    request_id_header: str
    overloaded_status: int
    forbidden_status: int
    error_type: Callable[[StreamError], str]
    error_type_header: str

    def error_body(self, message: str) -> bytes:
        """Return the JSON body of an error response."""
        body: dict[str, Any] = {_MESSAGE: message}
        return dumps(body)


# The errors of the operations, and those of all services of AWS, by their HTTP status.
_TYPES = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    402: "AccessDeniedException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    409: "ConflictException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
    529: "ThrottlingException",
}
_NAMES = frozenset(_TYPES.values()) | {
    "ConflictException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InternalServerException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "ModelNotReadyException",
    "ModelStreamErrorException",
    "ServiceQuotaExceededException",
}


def _exception_of(error: StreamError) -> str:
    """Return the name of the exception that an error is, by its code or else by its status."""
    code = error.code or ""
    # An exception of a stream has the same name, beginning with a small letter.
    name = code[:1].upper() + code[1:]
    if name in _NAMES:
        return name
    status = error.status_hint or 500
    return _TYPES.get(status, "ValidationException" if status < 500 else "InternalServerException")


BEDROCK = Cloud(
    name="bedrock",
    key_headers=("authorization",),
    header_prefix="x-amzn-bedrock-",
    request_id_header="x-amzn-requestid",
    overloaded_status=429,
    forbidden_status=403,
    error_type=_exception_of,
    # Without it, boto3 reports the status as the code of the error.
    error_type_header="x-amzn-errortype",
)
"""Amazon Bedrock."""
