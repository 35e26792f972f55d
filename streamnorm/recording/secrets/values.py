"""Redaction of structs, such as the report of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import msgspec

from streamnorm._core.json import is_object
from streamnorm.recording.secrets import Secrets

T = TypeVar("T")


def redact_struct(value: T) -> T:
    """Return a struct with the secrets in its texts redacted."""
    fields = _map_strings(msgspec.to_builtins(value), Secrets().scrub_text)
    return msgspec.convert(fields, type(value))


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if is_object(value):
        return {change(name): _map_strings(item, change) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)  # of a value whose type is not known
        return [_map_strings(item, change) for item in items]
    return value
