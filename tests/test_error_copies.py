"""Copies of errors, which process pools and tests of users make of every exception."""

from __future__ import annotations

import copy
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import Parameter, isfunction, signature
from typing import Any

import pytest

import streamnorm
from streamnorm import Loss, Message, StreamError, StreamnormError

# A value for every parameter of an exception in the package; a new parameter needs one.
VALUES: dict[str, Any] = {
    "code": "unknown",
    "dialect": "anthropic",
    "diff": "-a",
    "details": {"retry": 1},
    "error": StreamError("malformed", "m", "computer_call", 400),
    "frame": 3,
    "headers": {"allow": "POST"},
    "limit": "max_blocks",
    "losses": (Loss("cache_control", "messages[0]"),),
    "message": "caf\u00e9 \x1b[2J",
    "nearest": "weather",
    "param": "previous_response_id",
    "partial": Message(id="msg_1"),
    "path": "messages[3]",
    "position": 4,
    "retry_after": 2.5,
    "retryable": True,
    "snippet": "an HTML page",
    "status": 429,
    "text": "no such key",
}


def import_all() -> None:
    """Import all modules of the package, so that each of its exceptions exists."""
    for module in pkgutil.walk_packages(streamnorm.__path__, "streamnorm."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def subclasses(kind: type[StreamnormError]) -> Iterator[type[StreamnormError]]:
    """Yield an exception of the package and those derived from it."""
    if kind.__module__.startswith("streamnorm."):
        yield kind
    for each in kind.__subclasses__():
        yield from subclasses(each)


def example(kind: type[StreamnormError]) -> StreamnormError:
    """Return an exception with a value for each parameter of its constructor."""
    if not isfunction(kind.__init__):  # the constructor of a built-in exception
        return kind("text")
    parameters = signature(kind).parameters.values()
    positional = [VALUES[each.name] for each in parameters if each.kind != Parameter.KEYWORD_ONLY]
    keywords = {
        each.name: VALUES[each.name] for each in parameters if each.kind == Parameter.KEYWORD_ONLY
    }
    return kind(*positional, **keywords)


import_all()
KINDS = sorted(set(subclasses(StreamnormError)), key=lambda kind: kind.__qualname__)


def pickled(error: StreamnormError) -> StreamnormError:
    copied: StreamnormError = pickle.loads(pickle.dumps(error))  # noqa: S301 - of this test
    return copied


@pytest.mark.parametrize("duplicate", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_copy_has_the_text_and_the_attributes(
    kind: type[StreamnormError], duplicate: Callable[[StreamnormError], StreamnormError]
) -> None:
    error = example(kind)
    copied = duplicate(error)
    assert type(copied) is kind
    assert copied is not error
    assert (str(copied), copied.args) == (str(error), error.args)
    assert vars(copied) == vars(error)


def test_attributes_of_a_copy_are_its_own() -> None:
    error = streamnorm.LimitExceeded("m", limit="max_blocks")
    copied = copy.copy(error)
    copied.limit = "max_event_bytes"
    assert error.limit == "max_blocks"


def test_exceptions_of_all_layers_are_compared() -> None:
    names = {kind.__name__ for kind in KINDS}
    assert {"LimitExceeded", "FailedAnswer", "RequestRefused", "RefusedCall"} <= names
    assert "ConfigError" in names
