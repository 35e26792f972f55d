"""Answers at the paths of a cloud: the headers that its clients expect, and its lists of models."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any
from uuid import uuid4

from streamnorm._core.codec import Dialect
from streamnorm.asgi.exchange import Send, encode_headers

_ERROR_STATUS = 400
# botocore 1.44.5, `bedrock/2023-04-20/service-2.json`: ARNs have a region and an account.
_ARN_PREFIX = "arn:aws:bedrock:local"
_ACCOUNT = "000000000000"


def complete_headers(client: Dialect, send: Send) -> Send:
    """Return a `send` that adds the headers of a cloud; `send` itself for all other clients.

    Args:
        client: The client's dialect, as it is spoken at the path of the request.
        send: The server's `send`.
    """
    if client.cloud is None:
        return send
    # Users of botocore read the id from each answer, and support asks for it.
    request_id = {client.endpoints.request_id_header: str(uuid4())}

    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            known = {name.decode("latin-1") for name, _ in headers}
            is_answer = message["status"] < _ERROR_STATUS
            added = request_id | (dict(client.endpoints.answer_headers) if is_answer else {})
            new = {name: value for name, value in added.items() if name not in known}
            message = {**message, "headers": [*headers, *encode_headers(new)]}
        await send(message)

    return send_with_headers


def list_profiles(names: Iterable[str]) -> dict[str, Any]:
    """Return the answer of `ListInferenceProfiles`, with one for each name of a model."""
    return {"inferenceProfileSummaries": [describe_profile(name) for name in names]}


def describe_profile(name: str) -> dict[str, Any]:
    """Return the answer of `GetInferenceProfile` for the name of a model."""
    return {
        "inferenceProfileName": name,
        "inferenceProfileArn": f"{_ARN_PREFIX}:{_ACCOUNT}:inference-profile/{name}",
        "inferenceProfileId": name,
        "models": [{"modelArn": f"{_ARN_PREFIX}::foundation-model/{name}"}],
        "status": "ACTIVE",
        "type": "SYSTEM_DEFINED",
    }
