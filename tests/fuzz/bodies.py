"""Fuzz whole bodies: find a damaged body that is neither refused nor readable.

    python tests/fuzz/bodies.py [--minutes 20] [--seed N] [--dialect D]

Bodies of generated requests and messages, and of the captured requests of real agents where
STREAMNORM_REQUESTS names them, are damaged, spliced, and replaced by values that look like them.
Each is refused by a `DecodeError`, or is equal in its own dialect and readable in every other
one; the find is printed with the seed that makes it again.  What pages send is only read: chats
that were written for a page are damaged, and refused or readable in every dialect.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.bodies.checks import BODIES, PAGES, check_body, check_page, check_response
from support.bodies.mutations import damaged_body, json_value
from support.bodies.request_corpus import captured_requests
from support.bodies.request_strategies import conversation, make_request
from support.draws import Draws
from support.streams.event_strategies import make_message

from streamnorm import EncodeError, InputMessage, encode_message, encode_request
from streamnorm.frontend import encode_messages

_DRAWS = 600
_SHOWN = 60

Check = Callable[[dict[str, Any], str], None]


def find(dialect: str, seed: int) -> tuple[str, str] | None:
    """Test one damaged body; return its origin and problem, or None."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    d = Draws(rng.randbytes(_DRAWS))
    kind = "page" if dialect in PAGES else d.pick([*_KINDS])
    body, check = (_page if kind == "page" else _KINDS[kind])(d, dialect)
    if body is None:
        return None
    try:
        check(body, dialect)
    except Exception as exc:  # noqa: BLE001 - any is a find
        frame = traceback.extract_tb(exc.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return kind, f"{type(exc).__name__} at {where}: {str(exc)[:80]}"
    return None


def _request(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    request = make_request(d, conversation(d, hostile=d.flag()))
    try:
        body = encode_request(request, dialect, repair="fill", arguments="raw").body
    except EncodeError:
        return None, check_body
    return damaged_body(d, body), check_body


def _agent(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    bodies = [request.body for request in captured_requests(dialect)]
    return damaged_body(d, d.pick(bodies), bodies) if bodies else None, check_body


def _lookalike(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    body, _ = _request(d, dialect)
    return {name: json_value(d) for name in body or ()}, check_body


def _response(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    try:
        body = encode_message(make_message(d), dialect).body
    except EncodeError:
        return None, check_response
    return damaged_body(d, body), check_response


def _page(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    history = make_request(d, conversation(d, hostile=d.flag())).messages
    names = {"id": "c", "threadId": "t", "runId": "r", "tools": [{"name": "f", "parameters": {}}]}
    return damaged_body(d, {**names, **_chat(history, dialect)}), check_page


def _chat(history: Sequence[InputMessage], dialect: str) -> dict[str, Any]:
    return {"messages": encode_messages(history, dialect).messages}


_KINDS: dict[str, Callable[[Draws, str], tuple[dict[str, Any] | None, Check]]] = {
    "request": _request,
    "request of an agent": _agent,
    "lookalike": _lookalike,
    "response": _response,
}


def seeds(start: int, minutes: float) -> Iterator[int]:
    end = time.process_time() + minutes * 60
    seed = start
    while time.process_time() < end:
        yield seed
        seed += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="of CPU (default 20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dialect", choices=[*BODIES, *PAGES])
    options = parser.parse_args()
    dialects = [options.dialect] if options.dialect else [*BODIES, *PAGES]
    finds: Counter[tuple[str, str]] = Counter()
    tried = 0
    for seed in seeds(options.seed, options.minutes):
        for dialect in dialects:
            tried += 1
            wrong = find(dialect, seed)
            if wrong is not None:
                kind, what = wrong
                finds[dialect, kind] += 1
                if finds.total() <= _SHOWN:
                    print(f"seed {seed}: {dialect} {kind}: {what}", flush=True)
    print(f"{tried} bodies, {finds.total()} finds: {dict(finds)}")
    return finds.total() > 0


if __name__ == "__main__":
    raise SystemExit(main())
