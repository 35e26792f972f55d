"""What the errors of a cloud are called, and the form of their bodies."""

from __future__ import annotations

import json

import pytest

from streamnorm import StreamError
from streamnorm._core.codec.endpoints import BEDROCK


@pytest.mark.parametrize(
    ("status", "code", "name"),
    [
        (400, None, "ValidationException"),
        (401, None, "UnrecognizedClientException"),
        (403, None, "AccessDeniedException"),
        (404, "model_not_found", "ResourceNotFoundException"),
        (408, None, "ModelTimeoutException"),
        (413, None, "ValidationException"),
        (424, None, "ModelErrorException"),
        (429, None, "ThrottlingException"),
        (429, "ModelNotReadyException", "ModelNotReadyException"),
        (424, "modelStreamErrorException", "ModelStreamErrorException"),
        (403, "InvalidSignatureException", "InvalidSignatureException"),
        (500, None, "InternalServerException"),
        (502, "secretException", "InternalServerException"),
        (503, None, "ServiceUnavailableException"),
        (504, None, "ModelTimeoutException"),
        (529, None, "ThrottlingException"),
        (None, "", "InternalServerException"),
    ],
)
def test_error_has_the_name_of_an_exception(
    status: int | None, code: str | None, name: str
) -> None:
    assert BEDROCK.error_type(StreamError("upstream", "no", code, status)) == name


def test_error_is_a_message() -> None:
    assert json.loads(BEDROCK.error_body('"Slow."')) == {"message": '"Slow."'}
