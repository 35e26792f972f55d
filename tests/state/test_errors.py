"""Errors of state as the vendor's clients read them."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from streamnorm.state import StateError, error_body, scope_of
from streamnorm.state.turn import (
    duplicate_item,
    invalid_value,
    item_not_found,
    not_cancellable,
    previous_not_found,
    response_not_found,
    unsupported,
)


@pytest.mark.parametrize(
    ("error", "expected", "code", "param"),
    [
        (
            previous_not_found("resp_1"),
            openai.BadRequestError,
            "previous_response_not_found",
            "previous_response_id",
        ),
        (item_not_found("rs_1"), openai.NotFoundError, None, "input"),
        (duplicate_item("rs_1"), openai.BadRequestError, None, "input"),
        (response_not_found("resp_1"), openai.NotFoundError, None, None),
        (unsupported("prompt"), openai.BadRequestError, "unsupported_parameter", "prompt"),
        (invalid_value("limit", "1"), openai.BadRequestError, "invalid_value", "limit"),
        (not_cancellable(), openai.BadRequestError, None, None),
    ],
)
def test_client_raises_the_error_of_its_sdk(
    error: StateError, expected: type[Any], code: str | None, param: str | None
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "application/json"}
        return httpx2.Response(error.status, content=error_body(error), headers=headers)

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    with (
        openai.OpenAI(api_key="-", base_url="http://h/v1", http_client=http_client) as client,
        pytest.raises(expected) as caught,
    ):
        client.responses.create(model="m", input="Hi", previous_response_id="resp_1")
    raised = caught.value
    assert (raised.code, raised.param, raised.type) == (code, param, "invalid_request_error")
    assert raised.body == {
        "message": str(error),
        "type": "invalid_request_error",
        "param": param,
        "code": code,
    }


def test_scope_is_a_digest_of_the_credential() -> None:
    assert scope_of("sk-1") != scope_of("sk-2")
    assert "sk-1" not in scope_of("sk-1")
    assert len(scope_of("\ud800")) == 64
