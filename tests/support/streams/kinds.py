"""Kinds of streams, opened by functions with one signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamnorm
from streamnorm import Outcome, Stream
from support.http.byte_source import AsyncBytes

__all__ = ["Open", "each_kind", "open_events", "open_tap", "open_to_chat", "open_transcode"]


def open_events(source: AsyncBytes, outcomes: list[Outcome]) -> Stream[Any]:
    return streamnorm.events(source, on_end=outcomes.append)


def open_transcode(source: AsyncBytes, outcomes: list[Outcome]) -> Stream[Any]:
    return streamnorm.transcode(source, to="anthropic", on_end=outcomes.append)


def open_to_chat(source: AsyncBytes, outcomes: list[Outcome]) -> Stream[Any]:
    return streamnorm.transcode(source, to="openai_chat", on_end=outcomes.append)


def open_tap(source: AsyncBytes, outcomes: list[Outcome]) -> Stream[Any]:
    return streamnorm.tap(source, lambda _: None, on_end=outcomes.append)


Open = Callable[[AsyncBytes, list[Outcome]], Stream[Any]]

each_kind = pytest.mark.parametrize("kind", [open_events, open_transcode, open_tap])
