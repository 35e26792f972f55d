"""The log: one line a request, by standard `logging`.

    client=anthropic operation=stream model=qwen3 upstream=local status=200 outcome=truncated
    error=transport reason=reset attempts=1 first_event_s=0.12 duration_s=4.031 output_tokens=210

(in one line), from the logger `streamnorm.gateway`: at INFO, or WARNING for an answer that
failed or was truncated.  The record's attribute `streamnorm` holds the same as a dictionary,
which `JSONFormatter` writes.  No text of an error is logged: it may quote the request.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

from streamnorm.gateway.records import CallRecord

__all__ = ["JSONFormatter", "RequestLog"]

_LOG = logging.getLogger("streamnorm.gateway")

# Codes are the upstream's to choose.  One that is no plain word may hold anything.
_CODE = re.compile(r"[A-Za-z_.]{1,64}|[0-9]{1,6}", re.ASCII)
_UNQUOTED = re.compile(r"[\w.:/@+,*-]+", re.ASCII)


class RequestLog:
    """An observer that logs each request when it ends."""

    def begin(self, call: CallRecord) -> None:
        """Do nothing: the line is written at the end."""

    def end(self, call: CallRecord) -> None:
        """Log the request."""
        level = logging.WARNING if call.ending in ("failed", "truncated") else logging.INFO
        if _LOG.isEnabledFor(level):
            fields = _fields(call)
            losses = ",".join(f"{name}:{count}" for name, count in call.losses.items())
            shown = fields | {"losses": losses} if losses else fields
            line = " ".join(f"{name}={_text(value)}" for name, value in shown.items())
            _LOG.log(level, "%s", line, extra={"streamnorm": fields})


class JSONFormatter(logging.Formatter):
    """Formats records as lines of JSON: a request's with its fields, others with a message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without a line feed at its end."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
        }
        request: dict[str, object] | None = getattr(record, "streamnorm", None)
        if request is None:
            fields["message"] = record.getMessage()
            if record.exc_info and record.exc_info[0]:
                fields["exception"] = record.exc_info[0].__name__
        else:
            fields |= request
        return json.dumps(fields)


def _fields(call: CallRecord) -> dict[str, object]:
    """Return what is logged of a request; what is not known is left out."""
    error, usage = call.error, call.usage
    fields: dict[str, object | None] = {
        "client": call.client,
        "operation": call.operation,
        "model": call.model_name,
        "upstream": call.upstream,
        "status": call.status,
        "outcome": call.ending,
        "error": None if error is None or call.ending == "refused" else error.kind,
        "reason": call.reason,
        "code": None if error is None or not _CODE.fullmatch(error.code or "") else error.code,
        "path": call.path or None,
        "attempts": call.attempts,
        "first_event_s": None if call.first_event_s is None else round(call.first_event_s, 3),
        "duration_s": round(call.seconds, 3),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "losses": dict(call.losses) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: object) -> str:
    """Return a value as it stands in a line: one word, or a string of JSON."""
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text)
