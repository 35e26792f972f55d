"""A provider's response as a source that skips the generators of its package."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator

from streamnorm.transports.family import HTTPResponse

__all__ = ["AsyncResponseBody", "ResponseBody"]


class _ResponseBase:
    """Status and headers of a response.

    `aiter_bytes` and `iter_bytes` of a response nest two generators above that of its stream,
    which at each read cost as much as decoding an event.  They are skipped if they change
    nothing: the body is not content-encoded, and the inner transport has not read it.  A stream
    that is no generator, such as a body of the caller, is read through them: it may not bear
    a read after its end.

    Args:
        response: The response; it is closed with the source.
    """

    def __init__(self, response: HTTPResponse) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self._response = response
        self._is_plain = not (response.is_closed or response.headers.get("content-encoding", ""))


class ResponseBody(_ResponseBase):
    """A response of a synchronous client as a source."""

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        if self._is_plain and isinstance(body := iter(self._response.stream), Generator):
            return body
        return self._response.iter_bytes()

    def close(self) -> None:
        """Close the response."""
        self._response.close()


class AsyncResponseBody(_ResponseBase):
    """A response of an asynchronous client as a source."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the decoded body."""
        if self._is_plain and isinstance(body := aiter(self._response.stream), AsyncGenerator):
            return body
        return self._response.aiter_bytes()

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()
