"""The example backend with a fake provider; it needs no key and no network."""

from __future__ import annotations

import json
from typing import Any

import httpx
import server

from streamnorm import Reasoning, Text, decode_request
from streamnorm.testing import FakeProvider, FakeRequest, faults, tool_call


def play(request: FakeRequest) -> list[Any]:
    """Return the fake model's answer: a choice, the weather of the city, or a sentence."""
    *_, last = decode_request(json.dumps(request.body), server.PROVIDER).messages
    if not last.tool_results:
        thought = Reasoning(("The user names no city, so I let them choose.",), "c2ln", "anthropic")
        return [thought, "Of which city?", tool_call("choose", options=["Oslo", "Rome"])]
    [found] = [part.text for part in last.tool_results[-1].content if isinstance(part, Text)]
    if found in ("Oslo", "Rome"):
        return [tool_call("get_weather", city=found)]
    return [f"It is {found}. Take what you need with you.", faults.stall(event=6, s=1)]


server.upstream = FakeProvider(play).client(httpx.AsyncClient)
app = server.app
