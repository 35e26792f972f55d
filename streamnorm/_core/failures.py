"""Errors of streams: from providers, limits and bodies that are no stream.

A compatible server often writes its errors in another vendor's format, and a proxy in front of
it has a format of its own; so every dialect reads the errors of all formats.  Each failure is a
`StreamError`, with its HTTP status (`response_status`) and its exception (`as_exception`).
"""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import structs

from streamnorm._core.context_overflow import context_overflow, is_context_overflow
from streamnorm._core.errors import (
    EncodeError,
    LimitExceeded,
    NotAStream,
    RemoteProtocolError,
    StreamnormError,
    TruncatedStream,
    UpstreamError,
)
from streamnorm._core.events import Failed, StreamError, Truncated
from streamnorm._core.json import clean, compact, is_array, is_object, object_in
from streamnorm._core.limits import StoredBytes
from streamnorm._core.messages import Message
from streamnorm._core.rpc_errors import retry_info_in

# Azure says `deployment`, OpenRouter `no endpoints found for`.
_MODEL_WORDS = ("model", "deployment", "no endpoints found for")

# "Cannot POST /v1beta/models/x:generateContent" is about a path, not about a model.
_PATH = re.compile(r"(?<!\w)/\S*")
# Fields of an error that `StreamError` has; all others are its `extra`.
_MAPPED = frozenset(
    {"message", "type", "code", "status", "status_code", "param", "error", "object"}
)

NOT_A_STREAM = "not_a_stream"
"""Code of the `StreamError("malformed")` for a body that is no event stream."""

# Probable causes, by the kind of the body.
_HINTS = {
    "an HTML page": " (is the URL of the request right?)",
    "a JSON body": (
        ' (is "stream": true missing in the request, or streamGenerateContent in its URL?)'
    ),
}

# 529 is no registered status: google-genai retries after 503, not after 529
# (`_RETRY_HTTP_STATUS_CODES` of google-genai, read 2026-11-23).
_OVERLOADED = 529

# All vendors use 400; compatible servers also use 413, 422 and 500, which clients misread.
_TOO_LONG = 400


class Fatal(Exception):
    """Raised within a decoder to end the stream with an error; never leaves the decoder."""

    def __init__(self, error: StreamError) -> None:
        super().__init__(error.kind)
        self.error = error


def error_outcome(error: StreamError) -> Failed | Truncated:
    """Return the outcome of a stream that ends with `error`."""
    if error.kind in ("truncated", "transport", "stalled"):
        return Truncated(error)
    return Failed(error)


def malformed(message: str) -> Fatal:
    """Return the error that ends a stream which violates its protocol."""
    return Fatal(StreamError("malformed", message))


def too_large(limit: str, bound: int) -> Fatal:
    """Return the `Fatal` for a stream that exceeds a limit."""
    return Fatal(StreamError("too_large", f"{limit} of {bound} passed", code=limit))


def store_bytes(stored: StoredBytes, size: int) -> None:
    """Count bytes that a decoder stores.

    Raises:
        Fatal: The decoder would store more than `max_accumulated_bytes`.
    """
    if not stored.reserve(size):
        raise too_large("max_accumulated_bytes", stored.bound)


# HTTP status by a part of the vendor's error type or code; the first match wins, so the most
# specific parts come first.
_STATUS_WORDS = (
    # OpenAI answers 429, at which SDKs retry in vain: no retry pays a bill.
    ("insufficient_quota", 402),
    ("billing", 402),
    ("payment", 402),
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("throttl", 429),
    ("quota", 429),
    ("resource_exhausted", 429),
    # Anthropic's own status.
    ("overloaded", 529),
    ("unavailable", 503),
    ("capacity", 503),
    ("insufficient_system_resource", 503),
    ("timeout", 504),
    ("deadline_exceeded", 504),
    ("api_key", 401),
    ("authentication", 401),
    ("unauthorized", 401),
    ("unauthenticated", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("not_found", 404),
    ("conflict", 409),
    ("too_large", 413),
    ("context_length", 400),
    ("content_policy", 400),
    ("content_filter", 400),
    # Groq: the model wrote a call that does not fit the tool.
    ("tool_use_failed", 400),
    ("invalid", 400),
    ("bad_request", 400),
    ("server", 500),
    ("internal", 500),
    ("api_error", 500),
)

# Statuses of what a provider says of a key, its account and what that may use.
_OF_ACCOUNT = (401, 402, 403)
# Google and xAI refuse a key with status 400, like any other bad request.
_REFUSED_KEYS = ("api key not valid", "api key expired", "incorrect api key")
# Parts of the codes of an account without money, which have status 400 or 429: of OpenAI
# (ChatGPTNextWeb/NextChat#3123), Moonshot and Alibaba (tencentmusic/supersonic#1572).
_SPENT_CODES = ("insufficient_quota", "billing", "exceeded_current_quota", "arrearage")
# Anthropic's messages (anthropics/claude-code#66314, #38038), and Moonshot's
# (continuedev/continue#11443).
_SPENT = (
    "credit balance is too low",
    "reached your specified api usage limits",
    "insufficient balance",
)
# Ids of accounts in rate limits: "in organization org-…" (BuilderIO/micro-agent#86), "for your
# organization (…)" (stackblitz/bolt.new#8588), "(org: …, model: …)" (continuedev/continue#12057).
_ACCOUNT_ID = re.compile(
    r"(?<=\borganization )org[-_]\w+"
    r"|(?<=\borganization \()[\w-]{8,}(?=\))"
    r"|(?<=\borg: )[\w-]{8,}"
    r"|\b(?:org|proj|user|ak)[-_][A-Za-z0-9]{16,}"
)
_MASK = "***"
_NO_ACCESS = StreamError(
    "upstream", "the provider refuses the gateway", "provider_refused", 502, retryable=False
)


def upstream_error(
    message: str,
    *,
    code: str | None = None,
    type: str | None = None,
    status: int | None = None,
    extra: dict[str, object] | None = None,
) -> StreamError:
    """Return a provider's error with its HTTP status.

    Args:
        message: Message of the error.
        code: Code of the error.
        type: Type of the error, used as the code if there is none.
        status: HTTP status, if the error has one.
        extra: Other fields of the error.
    """
    if is_context_overflow(message, code, type, status=status):
        # Some servers report 500, or no status in a stream, but a retry fails the same way.
        status = status if status is not None and 400 <= status < 500 else 400
    # Errors within a stream have status 200: the status is then that of the type.
    if status is None or not 400 <= status <= 599:
        words = f"{code or ''} {type or ''}".lower()
        status = next((status for word, status in _STATUS_WORDS if word in words), None)
    # The rule of the official SDKs: 408, 409, 429 and 5xx.
    retryable = None if status is None else status in (408, 409, 429) or status >= 500
    if code and type and code != type:
        extra = {"type": type, **(extra or {})}
    fields = dict(extra) if extra else None
    after = None if fields is None else retry_info_in(fields.get("details"))
    return StreamError("upstream", message, code or type, status, retryable, fields, after)


def error_subject(error: StreamError) -> Literal["context", "model"] | None:
    """Return `context` or `model` for an error that clients recognise by its text; else None.

    `context`: the request is too long for its model.  `model`: status 404, and a model was not
    found (not a file, a stored response or a path).
    """
    if context_overflow(error) is not None:
        return "context"
    param = (error.extra or {}).get("param")
    text = _PATH.sub("", f"{error.code or ''} {param or ''} {error.message}".lower())
    if error.status_hint == 404 and any(word in text for word in _MODEL_WORDS):
        return "model"
    return None


def is_spent(error: StreamError) -> bool:
    """Return whether a provider refuses a request since the account has no money left."""
    words, said = f"{error.code} {(error.extra or {}).get('type')}".lower(), error.message.lower()
    return any(word in words for word in _SPENT_CODES) or any(text in said for text in _SPENT)


def hide_account(error: StreamError) -> StreamError:
    """Return a provider's error without details of the key and the account that were used.

    An error about them is replaced; any other error loses ids of the account in its message, and
    the vendor's further fields.
    """
    if error.kind != "upstream":
        return error
    said = error.message.lower()
    is_of_key = any(text in said for text in _REFUSED_KEYS)
    if error.status_hint in _OF_ACCOUNT or is_of_key or is_spent(error):
        return _NO_ACCESS
    return structs.replace(error, message=_ACCOUNT_ID.sub(_MASK, error.message), extra=None)


def find_error(value: Any) -> StreamError | None:
    """Return the error in a JSON value, or None.

    `{"error": null}` is no error; a value with choices is one only if it has an `error` member.
    """
    if is_array(value):  # Gemini's OpenAI-compatible endpoint
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


def refusal_error(value: dict[str, Any]) -> StreamError | None:
    """Return the error in the body of an error response, or None.

    Only with an error status is a top-level `message` an error: Bedrock, Cerebras, Cohere and
    SiliconFlow have no `error` around it; Cloudflare has a list.
    """
    if is_array(errors := value.get("errors")) and errors and is_object(errors[0]):
        value = errors[0]
    rest = dict(value)
    message = rest.pop("Message", None)
    message = rest.get("message", message)
    if not isinstance(message, str):
        return None
    code = rest.pop("error_code", None)
    code = rest.get("code", code)
    if isinstance(code, int) and not 400 <= code <= 599:  # a vendor's number, no HTTP status
        code = str(code)
    return _from_object({**rest, "message": message, "code": code})


def named_error(data: str, value: Any) -> StreamError:
    """Return the error in an SSE event named `error`, whatever its data."""
    if (error := find_error(value)) is not None:
        return error
    if not is_object(value):
        return upstream_error(clean(data))
    return refusal_error(value) or _from_object(value)


def _from_member(error: Any, owner: dict[str, Any]) -> StreamError:
    if not is_object(error):
        if "statusCode" in owner and isinstance(owner.get("message"), str):  # NestJS, Fastify
            return _from_object({"message": owner["message"], "code": owner["statusCode"]})
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
    if isinstance(status, str):  # Google's status names, such as RESOURCE_EXHAUSTED
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
        _overflow_in(error.get("metadata")) or _text(error.get("message", "")),
        code=_text(code) or None,
        type=type,
        status=status if isinstance(status, int) else None,
        extra=extra,
    )


def _overflow_in(metadata: Any) -> str | None:
    """Return the upstream message in OpenRouter's metadata if it is a context overflow.

    OpenRouter's own message is only "Provider returned error".
    """
    raw = metadata.get("raw") if is_object(metadata) else None
    if not isinstance(raw, str) or not is_context_overflow(raw):
        return None
    reported = find_error(object_in(raw)) if raw.lstrip().startswith("{") else None
    return raw if reported is None else reported.message


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact(value)


class FailedAnswer(EncodeError):
    """A response that the target dialect can write only as an error.

    Attributes:
        error: The error that a stream of the same answer would end with.
    """

    def __init__(self, error: StreamError) -> None:
        super().__init__(error.message, path="blocks")
        self.error = error


def answer_failure(exc: EncodeError) -> StreamError:
    """Return the error to send to the client for a response that cannot be encoded."""
    return exc.error if isinstance(exc, FailedAnswer) else StreamError("malformed", str(exc))


def not_a_stream(body: bytes | bytearray) -> StreamError:
    """Return the error of a body that is neither an event stream nor an error report.

    Args:
        body: The body, or its first bytes.
    """
    kind = body_kind(body)
    message = f"{kind}, expected an event stream{_HINTS.get(kind, '')}"
    return StreamError("malformed", message, code=NOT_A_STREAM)


def body_kind(body: bytes | bytearray) -> str:
    """Return a description of a body by its first bytes."""
    start = body.lstrip(b" \t\r\n\xef\xbb\xbf")
    if not start:
        return "an empty body"
    if start[0] in b"{[":
        return "a JSON body"
    if start[0] in b"<":
        return "an XML body" if start.startswith(b"<?xml") else "an HTML page"
    return "binary data" if b"\0" in start else "plain text"


def response_status(error: StreamError, overloaded_status: int = _OVERLOADED) -> int:
    """Return the HTTP status of an error response that replaces a stream.

    The status of the error if it is 400 to 599; 400 for a request that is too long for its model,
    504 for a timeout, 502 for all other errors.

    Args:
        error: The error.
        overloaded_status: Status of an overloaded server in the client's dialect.
    """
    status = error.status_hint
    if context_overflow(error) is not None:
        return _TOO_LONG
    # A redirect of the provider is not for the client.  Codes beyond 599 are invalid, and HTTP
    # clients refuse the response (RFC 9110, section 15).
    if status is None or not 400 <= status <= 599:
        return 504 if error.kind == "stalled" else 502
    return overloaded_status if status == _OVERLOADED else status


def as_exception(
    error: StreamError,
    *,
    status: int | None = None,
    dialect: str | None = None,
    frames: int | None = None,
    partial: Message | None = None,
) -> StreamnormError:
    """Return the exception for a stream's error.

    Args:
        error: The error.
        status: HTTP status of the response; None if the source is no response.
        dialect: Name of the stream's dialect; None if unknown.
        frames: Number of frames read; None if unknown.
        partial: The message as far as it arrived; None if it was not accumulated.
    """
    match error.kind:
        case "upstream":
            return as_upstream_error(error)
        case "malformed" if error.code == NOT_A_STREAM:
            found = error.message.partition(", expected")[0]
            return NotAStream(error.message, status=status, snippet=found)
        case "malformed":
            return RemoteProtocolError(error.message, dialect=dialect)
        case "too_large":
            return LimitExceeded(error.message, limit=error.code or "", dialect=dialect)
        case _:  # truncated, transport or stalled
            return TruncatedStream(error.message, partial=partial, dialect=dialect, frame=frames)


def stream_error_of(exc: BaseException) -> StreamError | None:
    """Return the error that a stream's exception reports; None for other exceptions.

    The inverse of `as_exception`.
    """
    text = str(exc)
    match exc:
        case UpstreamError():
            return error_event(exc)
        case NotAStream():
            return StreamError("malformed", text, NOT_A_STREAM)
        case LimitExceeded(limit=limit):
            return StreamError("too_large", text, limit)
        case TruncatedStream():
            return StreamError("truncated", text, retryable=True)
        case RemoteProtocolError():
            return StreamError("malformed", text)
        case _:
            return None


def as_upstream_error(error: StreamError) -> UpstreamError:
    """Return the exception for an error that a provider reports."""
    return UpstreamError(
        error.message,
        status=error.status_hint,
        code=error.code,
        retryable=error.retryable,
        retry_after=error.retry_after,
    )


def error_event(exc: UpstreamError) -> StreamError:
    """Return the error that a provider reports; the inverse of `as_upstream_error`."""
    return StreamError(
        "upstream", exc.message, exc.code, exc.status, exc.retryable, retry_after=exc.retry_after
    )
