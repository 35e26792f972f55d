"""The exception tree as its docstring draws it, and what each exception carries."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from streamnorm import Loss, Message
from streamnorm._core import errors


def drawn() -> dict[str, str]:
    """Return the parent of each exception in the drawing."""
    assert errors.__doc__ is not None
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in errors.__doc__.splitlines():
        node = re.match(r" {4}((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)", line)
        if node is None:
            continue
        depth = len(node[1]) // 4 + ("── " in line)
        path[depth:] = [node[2]]
        if depth:
            parents[node[2]] = path[depth - 1]
    return parents


TREE = drawn()


def test_documented_tree_shows_every_exception() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {*TREE, "StreamnormError"} == {
        name for name in raised if issubclass(getattr(errors, name), Exception)
    }


@pytest.mark.parametrize(("name", "parent"), TREE.items())
def test_exception_has_the_documented_base(name: str, parent: str) -> None:
    assert getattr(errors, name).__bases__[0] is getattr(errors, parent)


def test_base_is_a_plain_exception() -> None:
    assert errors.StreamnormError.__bases__ == (Exception,)


def test_unknown_dialect_is_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        raise errors.UnknownDialect("no dialect 'x'")


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (
            errors.RemoteProtocolError("m", dialect="anthropic", frame=3),
            {"dialect": "anthropic", "frame": 3},
        ),
        (errors.RemoteProtocolError("m"), {"dialect": None, "frame": None}),
        (errors.UnrecordedRequest("m"), {"diff": "", "nearest": None}),
        (errors.UnrecordedRequest("m", diff="-a", nearest="n"), {"diff": "-a", "nearest": "n"}),
        (
            errors.LimitExceeded("m", limit="max_blocks", dialect="d", frame=1),
            {"limit": "max_blocks", "dialect": "d", "frame": 1},
        ),
        (
            errors.TruncatedStream("m", partial=Message(id="1"), dialect="d", frame=0),
            {"partial": Message(id="1"), "dialect": "d", "frame": 0},
        ),
        (
            errors.UpstreamError("m", status=429, code="c", retryable=True),
            {"message": "m", "status": 429, "code": "c", "retryable": True},
        ),
        (errors.NotAStream("m", status=200, snippet="html"), {"status": 200, "snippet": "html"}),
        (errors.ArgumentsError("m", position=4), {"position": 4}),
        (errors.LossyEncoding("m", losses=[Loss("f", "w")]), {"losses": (Loss("f", "w"),)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exception_has_its_message_and_attributes(
    error: Exception, attributes: dict[str, object]
) -> None:
    assert str(error) == "m"
    assert {name: getattr(error, name) for name in attributes} == attributes


def test_errors_of_bodies_say_where() -> None:
    assert str(errors.DecodeError("m", path="$.a")) == "$.a: m"
    assert str(errors.DecodeError("m")) == "$: m"
    assert errors.DecodeError("m").path == "$"
    error = errors.EncodeError("m", path="messages[3]")
    assert str(error) == "messages[3]: m"
    assert error.path == "messages[3]"
    assert str(errors.EncodeError("m", path="")) == "m"


def test_words_of_a_provider_do_not_reach_a_terminal_as_commands() -> None:
    words = "caf\u00e9 \x1b[2J\r\n\u202e"
    error = errors.UpstreamError(words)
    assert error.message == words
    assert str(error) == "caf\u00e9 \\x1b[2J\\r\\n\\u202e"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("unknown", 404),
        ("expired", 410),
        ("trimmed", 410),
        ("bad_cursor", 400),
        ("other_bytes", 409),
        ("conflict", 409),
        ("no_dialect", 400),
    ],
)
def test_error_of_a_log_has_the_status_of_its_code(code: errors.LogErrorCode, status: int) -> None:
    error = errors.LogError("no stream", code=code)
    assert (str(error), error.code, error.status) == ("no stream", code, status)


def test_error_can_be_pickled_and_copied() -> None:
    error = errors.LimitExceeded("m", limit="max_blocks", dialect="anthropic", frame=3)
    pickled = pickle.loads(pickle.dumps(error))  # noqa: S301 - of this test
    for copied in (pickled, copy.copy(error), copy.deepcopy(error)):
        assert type(copied) is errors.LimitExceeded
        assert str(copied) == "m"
        assert vars(copied) == {"limit": "max_blocks", "dialect": "anthropic", "frame": 3}
