"""Sessions of administrators, in memory and shared by workers, and the bound on wrong keys."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from support.gateway.dashboards import ADMIN_KEY, ENVIRON, OPTIONS

from streamnorm.gateway import dashboard_login
from streamnorm.gateway.dashboard_login import SESSION_S, Sessions, WrongKeys


@pytest.fixture(params=["memory", "directory"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "directory" else None


@pytest.fixture
def sessions(directory: Path | None) -> Sessions:
    return Sessions(OPTIONS, ENVIRON, directory)


def test_key_opens_a_session_of_its_own_each_time(sessions: Sessions) -> None:
    ids = [sessions.open(ADMIN_KEY) for _ in range(3)]
    assert len({*ids}) == 3
    for id in ids:
        assert id is not None
        assert len(id) >= 43  # 256 bits
        assert sessions.is_open(id)


def test_wrong_key_opens_none(sessions: Sessions) -> None:
    for key in ("", "x", ADMIN_KEY.upper(), "x" * 513, "\udcff"):
        assert sessions.open(key) is None


def test_space_around_a_pasted_key_is_none_of_it(sessions: Sessions) -> None:
    assert sessions.open(f" {ADMIN_KEY}\n") is not None
    assert sessions.open(" ") is None


def test_unknown_or_hostile_id_is_no_session(sessions: Sessions) -> None:
    assert sessions.open(ADMIN_KEY)
    for id in ("", "x", "x" * 5000, "../../etc/passwd", "*", "\0", "\udcff"):
        assert not sessions.is_open(id)
        sessions.close(id)


def test_session_ends_when_it_is_closed(sessions: Sessions) -> None:
    closed, other = sessions.open(ADMIN_KEY), sessions.open(ADMIN_KEY)
    assert closed
    assert other
    sessions.close(closed)
    assert not sessions.is_open(closed)
    assert sessions.is_open(other)


def test_session_ends_after_twelve_hours(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SESSION_S == 12 * 60 * 60
    now = time.time()
    id = sessions.open(ADMIN_KEY)
    assert id
    monkeypatch.setattr(dashboard_login.time, "time", lambda: now + SESSION_S - 5)
    assert sessions.is_open(id)
    monkeypatch.setattr(dashboard_login.time, "time", lambda: now + SESSION_S + 5)
    assert not sessions.is_open(id)


def test_oldest_session_ends_for_a_new_one(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    ids = []
    for number in range(66):
        monkeypatch.setattr(dashboard_login.time, "time", lambda at=now + number: at)
        ids.append(sessions.open(ADMIN_KEY) or "")
    assert [sessions.is_open(id) for id in ids] == [False] * 2 + [True] * 64


def test_all_workers_know_a_session(tmp_path: Path) -> None:
    one, two = Sessions(OPTIONS, ENVIRON, tmp_path), Sessions(OPTIONS, ENVIRON, tmp_path)
    id = one.open(ADMIN_KEY)
    assert id
    assert two.is_open(id)
    two.close(id)
    assert not one.is_open(id)


def test_session_ends_with_a_change_of_the_admin_keys(tmp_path: Path) -> None:
    id = Sessions(OPTIONS, ENVIRON, tmp_path).open(ADMIN_KEY)
    assert id
    assert Sessions(OPTIONS, ENVIRON, tmp_path).is_open(id)  # after a restart
    changed = Sessions(OPTIONS, {"ADMIN_KEYS": "changed-key-0123456789"}, tmp_path)
    assert not changed.is_open(id)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no user ids")
def test_file_of_another_user_is_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(OPTIONS, ENVIRON, tmp_path)
    id = sessions.open(ADMIN_KEY)
    assert id
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert not sessions.is_open(id)
    for _ in range(65):
        sessions.open(ADMIN_KEY)
    assert len([*tmp_path.iterdir()]) == 66  # nor is it removed for a new one


def test_file_of_a_session_holds_neither_key_nor_id(tmp_path: Path) -> None:
    id = Sessions(OPTIONS, ENVIRON, tmp_path).open(ADMIN_KEY)
    assert id
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b""
    assert id not in file.name
    assert os.name == "nt" or stat.S_IMODE(file.stat().st_mode) == 0o600


def test_address_waits_after_ten_wrong_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = WrongKeys()
    assert [wrong.add("192.0.2.1") for _ in range(10)] == [False] * 9 + [True]
    assert 0 < wrong.seconds_to_wait("192.0.2.1") <= 60
    assert wrong.seconds_to_wait("192.0.2.2") == 0
    later = time.monotonic() + 61
    monkeypatch.setattr(dashboard_login.time, "monotonic", lambda: later)
    assert wrong.seconds_to_wait("192.0.2.1") == 0
    assert not wrong.add("192.0.2.1")
    assert wrong.seconds_to_wait("192.0.2.1") == 0


def test_addresses_of_one_network_of_ipv6_are_one() -> None:
    wrong = WrongKeys()
    for number in range(10):
        wrong.add(f"2001:db8::{number + 1}")
    assert wrong.seconds_to_wait("2001:db8::ffff") > 0
    assert wrong.seconds_to_wait("2001:db8:0:1::1") == 0
    assert wrong.seconds_to_wait("::ffff:192.0.2.1") == 0
    assert wrong.seconds_to_wait("no address") == 0


def test_addresses_are_bounded() -> None:
    wrong = WrongKeys()
    for number in range(3000):
        wrong.add(f"10.0.{number >> 8}.{number & 255}")
    assert len(wrong._counts) == 1000
