"""Attacks of one tenant on another, and on a gateway's keys."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from support.attacks.bench import KEY, PROMPT, TENANTS, Attack, Bench, Setup
from support.faults.upstream import Pause, Step
from support.gateway.upstreams import REQUESTS
from support.http.echo_upstream import EchoedRequest, head_of, new_marker

__all__ = ["ATTACKS"]

_ACCOUNTS = ("openai-organization", "openai-project", "x-goog-user-project")
_SPELLINGS = (KEY, KEY.replace("/", "\\/"), "".join(f"\\u{ord(char):04x}" for char in KEY))
# A store that was written within a second is taken for one that can be.
_PROBED_S = 1.2


async def _accounts(bench: Bench) -> str:
    """Attack by a client that names the account to be billed."""
    headers = {name: f"account-{name}" for name in _ACCOUNTS}
    for client in REQUESTS:
        await bench.ask(client, headers=headers)
    for request in bench.upstream.requests:
        assert b"account-" not in request.head, "an account went out beside the gateway's key"
        assert not any(key.encode() in request.head for key in TENANTS), "a client's key went out"
    return f"{len(bench.upstream.requests)} requests without an account"


async def _wrong_keys(bench: Bench) -> str:
    keys = ["x", TENANTS[0][:-1], TENANTS[0] + "x", TENANTS[0].upper(), ",".join(TENANTS)]
    keys += ["k" * 9000, "\x80" * 20, KEY]
    for key in keys:
        for client in REQUESTS:
            answer = await bench.http.post(
                bench.url + REQUESTS[client].path,
                json=REQUESTS[client].body,
                headers=[(b"authorization", b"Bearer " + key.encode("latin-1"))],
            )
            assert answer.status_code == 401, f"status {answer.status_code} for a wrong key"
    answer = await bench.http.post(
        bench.url + REQUESTS["openai_chat"].path,
        json=REQUESTS["openai_chat"].body,
        headers=[("authorization", f"Bearer {key}") for key in TENANTS],
    )
    assert answer.status_code == 401, f"status {answer.status_code} for two keys"
    assert not bench.upstream.requests, "the upstream was asked"
    return f"{len(keys)} wrong keys"


async def _shown_key(bench: Bench) -> str:
    """Attack by an upstream that quotes the gateway's key: plain, escaped or in pieces."""
    for spelling in _SPELLINGS:
        bench.upstream.plan = _quoting(spelling)
        for client in REQUESTS:
            for stream in (False, True):
                answer = await bench.send(client, stream=stream)
                shown = answer.text + str(answer.headers)
                plain = shown.replace("\\/", "/")
                assert KEY not in plain, "the key is in the answer"
                assert spelling not in shown, "the key is in the answer, escaped"
                assert "xxxxxxxx" in shown, "the key was not quoted at all"
    return f"{len(_SPELLINGS)} spellings, in each byte of a read"


def _quoting(spelling: str) -> Any:
    def plan(request: EchoedRequest) -> list[Step]:
        playback = request.playback
        body = playback.body.replace(b"snow", spelling.encode())
        head = head_of(playback, f"x-request-id: {KEY}\r\ncontent-length: {len(body)}\r\n")
        at = body.index(spelling.encode())
        pieces = [body[: at + 3], body[at + 3 : at + 9], body[at + 9 :]]
        return [head, *[step for piece in pieces for step in (piece, Pause(0.003))]]

    return plan


async def _other_case(bench: Bench) -> str:
    """Attack by a field `Model`, which a server in Go reads as `model`."""
    names = ("Model", "mODEL", "STREAM", "Messages", "Max_Tokens", "Tools")
    for name in names:
        answer = await bench.send(more={name: "other"})
        assert answer.status_code == 400, f"status {answer.status_code} for {name!r}"
    assert not bench.upstream.requests, "the upstream was asked"
    for client in REQUESTS:  # of which all but one are translated
        for name in names:
            await bench.send(client, more={name: "other"})
    for request in bench.upstream.requests:
        assert not any(f'"{name}"'.encode() in request.body for name in names), "it was sent on"
    return f"{len(names)} names, none was sent on"


async def _state(bench: Bench) -> str:
    """Attack by a tenant that knows the id of another tenant's answer."""
    first, second = TENANTS
    marker = new_marker()
    answer = await bench.send("openai_responses", marker, key=first)
    assert answer.json()["store"] is True, "the answer is not stored"
    id = answer.json()["id"]
    item = answer.json()["output"][0]["id"]
    before = len(bench.upstream.requests)
    for method, path in (
        ("GET", f"/v1/responses/{id}"),
        ("GET", f"/v1/responses/{id}/input_items"),
        ("DELETE", f"/v1/responses/{id}"),
        ("POST", f"/v1/responses/{id}/cancel"),
    ):
        found = await bench.ask_for(method, path, key=second)
        assert found.status_code in (400, 404), (
            f"status {found.status_code} for {method} of another"
        )
        assert marker not in found.text, "another tenant reads the answer"
    reference = {"type": "item_reference", "id": item}
    for more in ({"previous_response_id": id}, {"input": [reference]}):
        found = await bench.send("openai_responses", key=second, more=more)
        assert found.status_code in (400, 404), f"status {found.status_code} for {[*more]}"
        assert marker not in found.text, "another tenant reads the answer"
    assert len(bench.upstream.requests) == before, "the upstream was asked"
    for headers in ({"authorization": f"Bearer {first}"}, {"api-key": first}):
        url = f"{bench.url}/v1/responses/{id}"
        own = await bench.http.get(url, headers=headers)
        assert marker in own.text, "its own tenant does not find it"
    return "6 requests of another tenant, none found"


async def _seals(bench: Bench) -> str:
    """Attack by changed or forged seals of compacted conversations."""
    compacted = await bench.send(
        "openai_responses",
        more={
            "input": [
                {"role": "user", "content": f"Hello {PROMPT}"},
                {"type": "compaction_trigger"},
            ],
            "store": False,
        },
    )
    [item] = compacted.json()["output"]
    sealed: str = item["encrypted_content"]
    before = len(bench.upstream.requests)
    step = max(1, len(sealed) // 24)
    forged = [
        sealed[:at] + _other(sealed[at]) + sealed[at + 1 :] for at in range(0, len(sealed), step)
    ]
    forged += [sealed[:-1], sealed + "A", sealed[: len(sealed) // 2], ""]
    for text in forged:
        answer = await _with_compaction(bench, item, text)
        assert answer.status_code == 400, f"status {answer.status_code} for a forged summary"
    assert len(bench.upstream.requests) == before, "the upstream was asked"
    answer = await _with_compaction(bench, item, sealed)
    assert answer.status_code == 200, f"status {answer.status_code} for its own summary"
    return f"{len(forged)} forged summaries are refused"


async def _with_compaction(bench: Bench, item: dict[str, Any], text: str) -> httpx.Response:
    given = [{**item, "encrypted_content": text}, {"role": "user", "content": "On."}]
    return await bench.send("openai_responses", more={"input": given, "store": False})


def _other(char: str) -> str:
    return "A" if char != "A" else "B"


async def _look_inside(bench: Bench) -> str:
    """Check that the store holds no key by which its reader could act as a tenant."""
    await _state(bench)
    with bench.valkey_client() as client:
        data = b"".join(repr((key, client.dump(key))).encode() for key in client.scan_iter())
    assert data, "nothing is stored"
    assert not any(key.encode() in data for key in (*TENANTS, KEY)), "the store has a key"
    return "no key of a client is in the store"


async def _only_read(bench: Bench) -> str:
    """Attack by a store server that becomes a replica, then runs out of memory."""
    for change, end in (
        (("REPLICAOF", "127.0.0.1", "9"), ("REPLICAOF", "NO", "ONE")),
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
    ):
        await bench.ask("openai_responses")
        await asyncio.sleep(_PROBED_S)
        before = len(bench.upstream.requests)
        with bench.valkey_client() as client:
            client.execute_command(*change)
            answers = [
                await bench.send("openai_responses", stream=stream) for stream in (False, True)
            ]
            client.execute_command(*end)
        statuses = {answer.status_code for answer in answers}
        assert statuses == {503}, f"statuses {statuses}, expected 503"
        assert len(bench.upstream.requests) == before, "the upstream was asked"
        await asyncio.sleep(_PROBED_S)
    await bench.ask("openai_responses")
    return "the upstream was not asked, and is again"


_VALKEY = Setup('state = "env:ATTACK_STATE_URL"\n', valkey=True)
_SQLITE = Setup('state = "sqlite:{directory}/state.db"\n')
ATTACKS = (
    Attack("accounts of clients beside the key", _accounts),
    Attack("wrong keys", _wrong_keys),
    Attack("the upstream quotes the key", _shown_key),
    Attack("names of fields in another case", _other_case),
    Attack("SQLite: another tenant's answers", _state, _SQLITE),
    Attack("Valkey: another tenant's answers", _look_inside, _VALKEY),
    Attack("Valkey: a replica, no memory", _only_read, _VALKEY),
    Attack("forged summaries", _seals),
)
