"""The exceptions that streamnorm raises, and suggestions for unknown names.

    StreamnormError
    ├── ProtocolError
    │   ├── LocalProtocolError     you broke the event grammar, or used a closed object
    │   └── RemoteProtocolError    the peer did; .frame, .dialect
    │       ├── LimitExceeded      .limit
    │       └── TruncatedStream    the stream ended before the message did; .partial
    ├── UpstreamError              the server said so; .status, .code, .message, .retryable
    ├── NotAStream                 status or content says this is no event stream; .status, .snippet
    ├── DecodeError                a body is not of its dialect; .path
    ├── EncodeError                a request or message has no legal form; .path
    ├── ArgumentsError             tool arguments are not what their kind demands; .position
    ├── LossyEncoding              strict encoding would drop something; .losses
    ├── UnknownDialect             no dialect of that name (also a LookupError)
    ├── ProfileError               a file of profiles cannot be read
    ├── CredentialsError           a request to AWS cannot be signed
    ├── StateError                 a request needs state that is not stored; .status, .code, .param
    ├── StoreError                 a store of responses or streams failed
    ├── LogError                   a log has no such stream, or not from there on; .code, .status
    ├── RecordingError             a recording cannot be read or written
    └── UnrecordedRequest          no recording answers a request; .diff, .nearest

The last seven are public in the module of their topic: `profiles`, `aws`, `state`, `log` and
`recording`.

Others stand beside what raises them: `streamnorm.gateway.ConfigError`, and those that no caller of
the library sees: `RequestRefused` of an exchange, `RefusedCall` of `run_tools`, and `PlaybackReset`
and `PlaybackTimeout` of the replay engine.

Texts carry sizes, names and types, never a payload, a header or a key.  The two
exceptions are `UpstreamError.message`, which is what the provider said, and
`UnrecordedRequest`, which shows a test's author what the test asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamnorm._core.losses import Loss
    from streamnorm._core.messages import Message


LogErrorCode: TypeAlias = Literal[
    "unknown", "expired", "trimmed", "bad_cursor", "other_bytes", "conflict", "no_dialect"
]
"""Why a log gives no stream."""

_LOG_STATUSES: dict[LogErrorCode, int] = {
    "unknown": 404,
    "expired": 410,
    "trimmed": 410,
    "bad_cursor": 400,
    "other_bytes": 409,
    "conflict": 409,
    "no_dialect": 400,
}


class StreamnormError(Exception):
    """Base of all errors of this library.

    Errors can be copied and pickled, and have the same text and attributes then.
    """

    def __reduce__(self) -> tuple[object, ...]:
        # `BaseException` calls the class with the text alone, which lacks the keywords.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    kind: type[StreamnormError], args: tuple[object, ...], attributes: dict[str, object]
) -> StreamnormError:
    """Return an error with the arguments and the attributes of another one."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ProtocolError(StreamnormError):
    """A protocol was broken, by the caller or by the peer."""


class LocalProtocolError(ProtocolError):
    """The caller broke the event grammar, or used an object after its end."""


class RemoteProtocolError(ProtocolError):
    """The peer sent data that its dialect does not allow.

    Attributes:
        dialect: Name of the dialect that was being read, if known.
        frame: Number of the frame at which it happened, from 0, if known.
    """

    def __init__(
        self, message: str, *, dialect: str | None = None, frame: int | None = None
    ) -> None:
        super().__init__(message)
        self.dialect = dialect
        self.frame = frame


class LimitExceeded(RemoteProtocolError):
    """The peer exceeded a bound of `Limits`.

    Attributes:
        limit: Name of the field of `Limits`.
    """

    def __init__(
        self, message: str, *, limit: str, dialect: str | None = None, frame: int | None = None
    ) -> None:
        super().__init__(message, dialect=dialect, frame=frame)
        self.limit = limit


class TruncatedStream(RemoteProtocolError):
    """The stream ended before its message did.

    Attributes:
        partial: The message as far as it had arrived; None if it was not accumulated.
    """

    def __init__(
        self,
        message: str,
        *,
        partial: Message | None = None,
        dialect: str | None = None,
        frame: int | None = None,
    ) -> None:
        super().__init__(message, dialect=dialect, frame=frame)
        self.partial = partial


class UpstreamError(StreamnormError):
    """The provider reported an error, as an HTTP status or within the stream.

    Attributes:
        message: The provider's message, unchanged; `str` escapes control characters, which a
            terminal would execute.
        status: HTTP status, or the one that the error's type stands for.
        code: The provider's code or type, as spelt on the wire.
        retryable: Whether the same request may succeed later; None if unknown.
        retry_after: Seconds after which the provider accepts the request again; None if it names
            no time.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(_printable(message))
        self.message = message
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after


def _printable(text: str) -> str:
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])


class NotAStream(StreamnormError):
    """The response is not an event stream.

    Attributes:
        status: HTTP status, if there was one.
        snippet: Kind of the body, such as `an HTML page`; never its text.
    """

    def __init__(self, message: str, *, status: int | None = None, snippet: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.snippet = snippet


class DecodeError(StreamnormError):
    """A body does not conform to its dialect.

    Attributes:
        path: JSON path of the invalid part, such as `$.messages[3].content`.
    """

    def __init__(self, message: str, *, path: str = "$") -> None:
        super().__init__(message)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.args[0]}"


class EncodeError(StreamnormError):
    """A request or a message has no legal form in a dialect.

    Attributes:
        path: Path of that part of the `Request` or `Message`, such as `messages[3].blocks[0]`;
            empty if it is the whole.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.args[0]}" if self.path else str(self.args[0])


class ArgumentsError(StreamnormError):
    """Tool arguments are not valid for their kind of call.

    Attributes:
        position: Index of the character at which the arguments stop being valid.
    """

    def __init__(self, message: str, *, position: int) -> None:
        super().__init__(message)
        self.position = position


class LossyEncoding(StreamnormError):
    """Strict encoding would lose something.

    Attributes:
        losses: The losses.
    """

    def __init__(self, message: str, *, losses: Sequence[Loss]) -> None:
        super().__init__(message)
        self.losses = tuple(losses)


class ProfileError(StreamnormError):
    """A file of profiles cannot be read, or has an invalid key or value.

    The text names the file and the key.
    """


class StateError(StreamnormError):
    """A request refers to a response or item that is not stored, or has an invalid reference.

    The text is for the client, in the vendor's words; it contains the id of the request.

    Attributes:
        status: HTTP status of the error response.
        code: The vendor's code; None where the vendor has none.
        param: Parameter of the request with the reference; None if the URL has it.
    """

    def __init__(
        self, message: str, *, status: int, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


class StoreError(StreamnormError):
    """A store of responses or streams cannot be reached or used, or its content is damaged.

    The text describes the failure.  It contains neither the store's URL or path nor its content.
    """


class LogError(StreamnormError):
    """A log lacks the requested stream, or cannot resume it at the requested cursor.

    Attributes:
        code: `unknown`: no stream has this id; `expired`: one had; `trimmed`: it is stored no
            longer, or not from its start; `bad_cursor`: the cursor is none of this stream;
            `other_bytes`: it is one of other bytes, and the whole stream can be read anew;
            `conflict`: the id is that of the answer to another request; `no_dialect`: the stream
            was asked for in no dialect.
        status: HTTP status of an answer that reports it.
    """

    def __init__(self, message: str, *, code: LogErrorCode) -> None:
        super().__init__(message)
        self.code = code
        self.status = _LOG_STATUSES[code]


class RecordingError(StreamnormError):
    """A recording cannot be read, or contradicts itself."""


class UnrecordedRequest(StreamnormError):
    """No recording answers a request.

    The text says how the request differs from the nearest recording of its endpoint, secrets
    left out, and how to record it.

    Attributes:
        diff: Unified diff to the nearest recording, or "".
        nearest: Name of the nearest recording, or None.
    """

    def __init__(self, message: str, *, diff: str = "", nearest: str | None = None) -> None:
        super().__init__(message)
        self.diff = diff
        self.nearest = nearest


class CredentialsError(StreamnormError):
    """AWS credentials or region are missing, or credentials cannot be refreshed."""


class UnknownDialect(StreamnormError, LookupError):
    """No dialect has this name, or the dialect lacks the operation."""


# The time to compare two names is the product of their lengths.
_MAX_CHARS = 64


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return an error text's suffix that suggests a similar known name; "" if none is similar.

    Args:
        name: The unknown name.
        known: The known names.
    """
    if len(name) > _MAX_CHARS:
        return ""
    from difflib import get_close_matches  # its import takes longer than the rest of a start-up

    found = get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
