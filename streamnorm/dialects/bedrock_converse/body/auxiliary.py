"""Token counts.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html (read
2026-11-27, botocore 1.44.8).  Models are listed by another service of AWS.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import get_object, get_str
from streamnorm._core.codec import CountCodec, Written
from streamnorm._core.errors import DecodeError, EncodeError

_INPUT, _CONVERSE, _INVOKED = "input", "converse", "invokeModel"
_INVOKED_BODY = f"$.{_INPUT}.{_INVOKED}.body"


class _Count(CountCodec, frozen=True):
    """The codec of `count-tokens`."""

    def read_invocation(self, body: dict[str, Any]) -> bytes | None:
        """Return the body within `input.invokeModel`; None if the input is of another kind.

        Raises:
            DecodeError: It is no base64.
        """
        invoked = get_object(get_object(body, _INPUT) or {}, _INVOKED)
        if invoked is None:
            return None
        try:
            return b64decode(get_str(invoked, "body") or "", validate=True)
        except ValueError as exc:
            raise DecodeError("no base64, expected that of a body", path=_INVOKED_BODY) from exc

    def read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the request within `input.converse`.

        Raises:
            DecodeError: The input is of another kind.
        """
        request = get_object(get_object(body, _INPUT) or {}, _CONVERSE)
        if request is None:
            raise DecodeError("missing, expected an object", path=f"$.{_INPUT}.{_CONVERSE}")
        return request

    def write_request(self, written: Written) -> Written:
        resource, _, _ = written.path.rpartition("/")
        if not resource:
            raise EncodeError("no model, expected one", path="model")
        body = {_INPUT: {_CONVERSE: written.body}}
        return structs.replace(written, body=body, path=f"{resource}/count-tokens")


COUNT = _Count(
    fields=frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"}),
    tokens="inputTokens",
)
