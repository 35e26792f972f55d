"""Requests of real clients, where a folder of captured ones is named.

Each is a JSON file with `method`, `path`, `headers` and `body`, named `CLIENT__TURN.json`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from streamnorm.recording.format import RecordedRequest
from streamnorm.recording.matching import normalise, same_operation, same_request

pytestmark = pytest.mark.outside


def captured() -> list[Any]:
    folder = os.environ.get("STREAMNORM_REQUESTS")
    if folder is None:
        skip = pytest.mark.skip(reason="STREAMNORM_REQUESTS names no folder of captured requests")
        return [pytest.param(Path(), marks=skip, id="none")]
    return [pytest.param(path, id=path.stem) for path in sorted(Path(folder).glob("*.json"))]


def read(path: Path) -> RecordedRequest:
    told = json.loads(path.read_text())
    url = "http://127.0.0.1:8123" + told["path"]
    body = UNSET if told["body"] is None else told["body"]
    return RecordedRequest(told["method"], url, told["headers"], body)


_FRESH = (
    (re.compile(r"2026-11-21"), "2027-03-04"),
    (re.compile(r"Saturday, November 21, 2026"), "Thursday, March 4, 2027"),
    (re.compile(r"<cwd>[^<]*"), "<cwd>/srv/elsewhere"),
    (re.compile(r"Chunk ID: \w+"), "Chunk ID: 00beef"),
    (re.compile(r'"chunk_id":"\w+"'), '"chunk_id":"00beef"'),
    (re.compile(r"cc_version=[^;]*"), "cc_version=9.9.9"),
)


def varied(value: Any, key: str = "") -> Any:
    """Send it again as the same client would: new ids, another day, members in another order."""
    if isinstance(value, dict):
        return {k: varied(v, k) for k, v in reversed(value.items())}
    if isinstance(value, list):
        return [varied(item, key) for item in value]
    if not isinstance(value, str):
        return value
    if key in {"call_id", "tool_call_id", "tool_use_id", "prompt_cache_key", "user_id"}:
        return "fresh_" + value[::-1]
    if key == "id" and re.match("call_|toolu_|msg_|fc_|fco_|rs_|ctc|at_", value):
        return "fresh_" + value[::-1]
    if key in {"turn_id", "session_id", "thread_id", "root_turn_id"}:
        return "fresh"
    for pattern, fresh in _FRESH:
        value = pattern.sub(fresh, value)
    return value


@pytest.mark.parametrize("path", captured())
def test_captured_request_matches_when_it_is_repeated(path: Path) -> None:
    request = read(path)
    body = UNSET if request.body is UNSET else varied(request.body)
    again = RecordedRequest(request.method, "https://else.example/p" + request.url[21:], {}, body)
    assert same_operation(normalise(again), normalise(request), None)
    assert same_request(normalise(again), normalise(request))
    assert request.body is UNSET or json.dumps(body) != json.dumps(request.body)


@pytest.mark.parametrize("path", captured())
def test_captured_turns_do_not_match_each_other(path: Path) -> None:
    one = normalise(read(path))
    stem = path.stem.rpartition("__")[0]
    others = [other for other in path.parent.glob(f"{stem}__*.json") if other != path]
    for other in map(normalise, map(read, others)):
        assert not (same_operation(one, other, None) and same_request(one, other))
