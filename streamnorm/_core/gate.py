"""The gate, which decides by status, content type and first bytes whether a body is a stream.

    2xx, any other or no content type        open: the bytes are passed on
    2xx, JSON or HTML                        open if the first bytes are SSE or another body
                                             format of a stream; else collect
    204, and any status but 2xx              collect

A collected body is bounded; it becomes the provider's error or a `NOT_A_STREAM`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import structs

from streamnorm._core.codec import FormatSniffer
from streamnorm._core.events import StreamError
from streamnorm._core.failures import (
    body_kind,
    find_error,
    named_error,
    refusal_error,
    upstream_error,
)
from streamnorm._core.json import object_in
from streamnorm._core.limits import Limits
from streamnorm.sse import SSEDecoder

_BLANK = b" \t\r\n\xef\xbb\xbf"  # white space and the byte order mark
_FIRST_LINES = (b"data:", b"event:", b"id:", b"retry:", b":")
# The other 3xx name no URL to ask instead (RFC 9110, section 15.4).
_REDIRECTS = (301, 302, 303, 307, 308)
_REDIRECT = "redirect"  # the code, which a log shows without the message
_REDIRECT_HINT = " (a redirect, which is not followed: is the URL of the request right?)"

Verdict: TypeAlias = Literal["open", "sniff", "collect"]


def judge(status: int | None, content_type: str | None) -> Verdict:
    """Return how to read a response's body: as a stream, as a whole, or by its first bytes.

    Args:
        status: HTTP status; None if the source is no response.
        content_type: Value of `content-type`; parameters and case are ignored.
    """
    # 204 has no body, and ends an event stream (WHATWG HTML, section 9.2).
    if status == 204 or not _is_success(status):
        return "collect"
    essence = (content_type or "").partition(";")[0].strip().lower()
    # Gemini streams a JSON array, and some gateways send SSE under these types: the first bytes
    # decide.
    if essence in ("application/json", "text/json", "text/html", "application/xhtml+xml"):
        return "sniff"
    return "sniff" if essence.endswith("+json") else "open"


class Gate:
    """Hold the first bytes of a body until it is known to be a stream.

    Args:
        status: HTTP status; None if the source is no response.
        content_type: Value of `content-type`.
        judge_body: Returns the error of a body that is no stream (see `Decoder.judge_body`).
        sniffer: Returns a sniffer for a body that starts like another body format (see
            `Decoder.sniffer`); None if there is no other format.
        limits: `max_error_body_bytes` bounds the collected body.
        error_type: Type of the error, if a header of the response states it.

    Attributes:
        open: Whether bytes are passed on.
        error: The error of a body that is no stream; None until it is judged.
    """

    def __init__(
        self,
        status: int | None,
        content_type: str | None,
        *,
        judge_body: Callable[[bytearray], StreamError],
        sniffer: Callable[[bytes], FormatSniffer | None] | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        error_type: str | None = None,
    ) -> None:
        verdict = judge(status, content_type)
        self.open = verdict == "open"
        self.error: StreamError | None = None
        self._sniffing = verdict == "sniff"
        self._status = status
        self._error_type = error_type
        self._judge_body = judge_body
        self._make_sniffer = sniffer
        self._sniffer: FormatSniffer | None = None  # if the body starts like another format
        self._max_bytes = limits.max_error_body_bytes
        self._held = bytearray()
        self._has_error = False  # whether the body reports a provider's error
        self._start = b""  # the held bytes from the first that is not blank

    @property
    def refusal(self) -> bytes | None:
        """The complete body if it reports a provider's error; else None."""
        return bytes(self._held) if self._has_error and len(self._held) <= self._max_bytes else None

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to pass on: none while the gate is closed, then held and new bytes."""
        if self.open:
            return data
        self._held += data
        if self._sniffing:
            self._sniff(data)
            if self.open:
                return bytes(self._held)
        if self._sniffer is None and len(self._held) > self._max_bytes:
            self.error = self._verdict()
        return b""

    def close(self) -> None:
        """Judge the collected body at its end."""
        if self._sniffing and (self._sniffer is not None or not self._held):
            self.open = True  # the decoder reports empty and cut bodies
        if not self.open:
            self.error = self._verdict()

    def abort(self, unreadable: str = "") -> None:
        """Judge the collected body after the connection was lost.

        Args:
            unreadable: Description of a body that cannot be decoded, if that was the failure.
        """
        # An error status is an error even without its body; half a 2xx body is a broken transfer.
        if _is_success(self._status):
            self.open = True
        else:
            self.error = self._verdict(unreadable)

    def _sniff(self, data: bytes) -> None:
        if self._sniffer is None:
            self._start += data if self._start else data.lstrip(_BLANK)
            if self._start.startswith(_FIRST_LINES):
                self.open = True
            if self.open or any(line.startswith(self._start) for line in _FIRST_LINES):
                return
            data = self._start
            if self._make_sniffer is not None:
                self._sniffer = self._make_sniffer(data)
        is_stream = False if self._sniffer is None else self._sniffer.feed(data)
        self.open = is_stream is True
        if is_stream is False:
            self._sniffing, self._sniffer = False, None

    def _verdict(self, unreadable: str = "") -> StreamError:
        body = self._held[: self._max_bytes].lstrip(_BLANK)
        reported = self._judge_body(body)
        # Under an error status any object with a message is an error (Bedrock, Cerebras, Cohere).
        if reported.kind != "upstream" and not _is_success(self._status):
            refusal = refusal_error(object_in(str(body, "utf-8", "replace")))
            reported = reported if refusal is None else refusal
        self._has_error = reported.kind == "upstream"
        if _is_success(self._status):
            return reported
        if not self._has_error:
            reported = self._streamed_error(body) or reported
        found, code = unreadable or body_kind(body), self._error_type
        if self._status in _REDIRECTS:
            found, code = found + _REDIRECT_HINT, code or _REDIRECT
        plain = upstream_error(f"HTTP {self._status} with {found}", status=self._status)
        if reported.kind != "upstream":
            return structs.replace(plain, code=code, status_hint=self._status)
        return structs.replace(
            reported,
            code=reported.code or self._error_type,
            message=reported.message or plain.message,
            status_hint=self._status,
            # A retry makes sense only if neither the body nor the status rules it out.
            retryable=False if reported.retryable is False else plain.retryable,
        )

    def _streamed_error(self, body: bytearray) -> StreamError | None:
        """Return the error in the server-sent events of an error response, or None.

        Proxies that have promised a stream keep its content type under an error status.
        """
        # Its blank line may be missing, as that of a stream's last event.
        for frame in SSEDecoder().feed(bytes(body) + b"\n\n"):
            value = object_in(frame.data)
            if frame.event == "error":
                return named_error(frame.data, value or None)
            # The Responses API reports the error within the failed response.
            error = find_error(value) or find_error(value.get("response")) or refusal_error(value)
            if error is not None:
                return error
        return None


def _is_success(status: int | None) -> bool:
    """Return whether a status is 2xx or unknown."""
    return status is None or 200 <= status <= 299
