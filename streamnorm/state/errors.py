"""The vendor's errors of state: their texts, and their bodies.

Texts, codes and statuses are those of the API (read 2026-11-23 in reports of its users); each
is the same whether a response never existed, is stored no longer, or is another caller's.
"""

from __future__ import annotations

import re

from streamnorm._core.errors import StateError
from streamnorm._core.json import dumps

__all__ = [
    "duplicate_item",
    "error_body",
    "invalid_value",
    "item_not_found",
    "not_cancellable",
    "previous_not_found",
    "response_not_found",
    "unsupported",
    "unverified_content",
]

_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)


def error_body(error: StateError) -> bytes:
    """Return the JSON body of the error response; its status is that of the error."""
    fields = {"message": str(error), "type": "invalid_request_error"}
    return dumps({"error": {**fields, "param": error.param, "code": error.code}})


def previous_not_found(id: str) -> StateError:
    """Return the error of a `previous_response_id` whose chain is not stored to its start."""
    return StateError(
        f"Previous response with id {_quoted(id)} not found. "
        "Send the whole conversation as `input` instead.",
        status=400,
        code="previous_response_not_found",
        param="previous_response_id",
    )


def item_not_found(id: str) -> StateError:
    """Return the error of an `item_reference` to an item that is not stored."""
    return StateError(
        f"Item with id {_quoted(id)} not found. Items are not persisted when `store` is set to "
        "false. Try again with `store` set to true, or remove this item from your input.",
        status=404,
        param="input",
    )


def duplicate_item(id: str) -> StateError:
    """Return the error of an `item_reference` to an item that the input has already."""
    return StateError(
        f"Duplicate item found with id {_quoted(id)}. "
        "Remove duplicate items from your input and try again.",
        status=400,
        param="input",
    )


def response_not_found(id: str) -> StateError:
    """Return the error of a URL whose response is not stored."""
    return StateError(f"Response with id {_quoted(id)} not found.", status=404)


def not_cancellable() -> StateError:
    """Return the error of a response that has ended, as all that are stored have."""
    return StateError("Cannot cancel a synchronous response.", status=400)


def unsupported(name: str) -> StateError:
    """Return the error of a parameter that asks for state of another kind."""
    return StateError(
        f"Unsupported parameter: '{name}' is not supported by this provider.",
        status=400,
        code="unsupported_parameter",
        param=name,
    )


def invalid_value(name: str, expected: str) -> StateError:
    """Return the error of a value of a query that is not the expected one."""
    return StateError(
        f"Invalid value for '{name}': expected {expected}.",
        status=400,
        code="invalid_value",
        param=name,
    )


def unverified_content(name: str) -> StateError:
    """Return the error of sealed content that was not sealed here, or was changed."""
    return StateError(
        f"The encrypted content of '{name}' could not be verified. It was not made by this "
        "provider, or was changed.",
        status=400,
        code="invalid_encrypted_content",
        param=name,
    )


def _quoted(id: str) -> str:
    """Return an id in quotes; one that no server issues only with its length."""
    return f"'{id}'" if _ID.fullmatch(id) else f"of {len(id)} characters"
