"""Recorded bodies of Converse, and botocore as judge."""

from __future__ import annotations

import base64
import json
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import botocore.session
from botocore.validate import ParamValidator

__all__ = ["CorpusBody", "corpus_bodies", "request_problems", "response_problems"]

_BLOBS = frozenset({"bytes", "redactedContent"})
_MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
# The corpus has only the beginning and the end of long files, with this sign between.
_LEFT_OUT = "\u2026"


class CorpusBody(NamedTuple):
    """A recorded request with its response.

    Attributes:
        number: Position in the corpus.
        operation: Operation of the API, such as `converse`.
        path: Path of the URL.
        status: HTTP status of the response.
        request: Body of the request; {} if it was not recorded.
        response: Body of the response; {} if it was not recorded.
    """

    number: int
    operation: str
    path: str
    status: int
    request: dict[str, Any]
    response: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.number}-{self.operation}"


@cache
def corpus_bodies() -> tuple[CorpusBody, ...]:
    """Return the recorded bodies of Converse and of its token counts; none without the corpus."""
    folder = os.environ.get("STREAMNORM_CORPUS")
    file = Path(folder or ".") / "bedrock" / "BODIES.jsonl"
    if folder is None or not file.is_file():
        return ()
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return tuple(
        CorpusBody(
            number,
            row["operation"],
            row["url"],
            row["status"],
            _restore_files(row["request"] or {}),
            row["response"] or {},
        )
        for number, row in enumerate(rows)
        if row["operation"] in ("converse", "converse-stream", "count-tokens")
    )


def _restore_files(value: Any, name: str = "") -> Any:
    """Return a body with made-up Base64 in place of truncated files."""
    if isinstance(value, dict):
        return {key: _restore_files(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_restore_files(item) for item in value]
    return "AAAA" if name in _BLOBS and _LEFT_OUT in str(value) else value


def request_problems(body: dict[str, Any], operation: str = "Converse") -> str:
    """Return what botocore refuses in a request; "" for nothing."""
    shape = _service().operation_model(operation).input_shape
    return _problems({"modelId": _MODEL, **_with_blobs(body)}, shape)


def response_problems(body: dict[str, Any], operation: str = "Converse") -> str:
    """Return what botocore refuses in a response; "" for nothing.

    Amazon's own answers have `serverToolUsage`, which the model does not know, and traces without
    fields that it requires.
    """
    usage = {name: it for name, it in body["usage"].items() if name != "serverToolUsage"}
    body = {**body, "usage": usage, "trace": {}}
    return _problems(_with_blobs(body), _service().operation_model(operation).output_shape)


def _problems(value: Any, shape: Any) -> str:
    report = ParamValidator().validate(value, shape)
    return str(report.generate_report()) if report.has_errors() else ""


@cache
def _service() -> Any:
    return botocore.session.Session().get_service_model("bedrock-runtime")


def _with_blobs(value: Any, name: str = "") -> Any:
    """Return a body as boto3 represents it, with bytes instead of Base64."""
    if isinstance(value, dict):
        return {key: _with_blobs(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_blobs(item) for item in value]
    return base64.b64decode(value, validate=True) if name in _BLOBS else value
