"""Readers of the JSON errors of all vendors, servers and proxies.

A compatible server often writes its errors in another vendor's format, and a proxy in front of
it in one of its own; so every dialect reads all formats.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StreamError
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import clean, compact, is_array, is_object

__all__ = ["find_error", "named_error"]

_MAPPED = frozenset(
    {"message", "type", "code", "status", "status_code", "param", "error", "object"}
)


def find_error(value: Any) -> StreamError | None:
    """Return the error in a JSON value, or None.

    `{"error": null}` is none; a value with choices is an error only by its `error` member.
    """
    if is_array(value):  # Gemini's compatible endpoint
        value = value[0] if value else None
    if not is_object(value):
        return None
    error = value.get("error")
    if error:
        return _from_member(error, value)
    if value.get("choices"):
        return None
    if value.get("object") == "error" or value.get("type") == "error":  # old vLLM; a router
        inner = value.get("message")
        return _from_object(inner if is_object(inner) and "message" in inner else value)
    base = value.get("base_resp")  # MiniMax
    if is_object(base) and base.get("status_code"):
        return upstream_error(_text(base.get("status_msg")), code=_text(base["status_code"]))
    if "detail" in value:  # FastAPI
        return upstream_error(_text(value["detail"]))
    if "message" in value and "statusCode" in value:
        return _from_object({"message": value["message"], "code": value["statusCode"]})
    return None


def named_error(data: str, value: Any) -> StreamError:
    """Return the error of an SSE event named `error`, whatever its data."""
    return find_error(value) or (
        _from_object(value) if is_object(value) else upstream_error(clean(data))
    )


def _from_member(error: Any, owner: dict[str, Any]) -> StreamError:
    if not is_object(error):
        return upstream_error(_text(error), code=_text(owner.get("error_type")) or None)
    if "message" not in error and "message" in owner:
        error = {**error, "message": owner["message"]}
    if "status" not in error and "status_code" in owner:  # Cerebras
        error = {**error, "status": owner["status_code"]}
    if owner.get("request_id") is not None:  # Anthropic
        error = {"request_id": owner["request_id"], **error}
    return _from_object(error)


def _from_object(error: dict[str, Any]) -> StreamError:
    code, status = error.get("code"), error.get("status", error.get("status_code"))
    type = _text(error.get("type")) or None
    if isinstance(status, str):  # Google's word, as RESOURCE_EXHAUSTED
        type, status = type or status or None, None
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:  # Azure, LiteLLM
        status = int(code) if status is None else status
    if isinstance(code, int):
        status = code if status is None else status
        code = None if type else code
    extra = {key: value for key, value in error.items() if key not in _MAPPED and value is not None}
    if error.get("param") is not None:
        extra["param"] = error["param"]
    return upstream_error(
        _text(error.get("message", "")),
        code=_text(code) or None,
        type=type,
        status=status if isinstance(status, int) else None,
        extra=extra,
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact(value)
