"""Profiles in layers, and files of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from support.bodies.projection_targets import EVERYTHING

from streamnorm._core.errors import EncodeError
from streamnorm.profiles import ProfileError, Profiles, shipped_profiles

CHAT = structs.replace(EVERYTHING, dialect="openai_chat", max_tools=None)
ANTHROPIC = structs.replace(EVERYTHING, dialect="anthropic")


def profile(max_tools: int, where: str) -> str:
    return f'[[profile]]\ndialect = "openai_chat"\nset.max_tools = {max_tools}\n{where}\n'


MODEL, SERVER, VERSION = 'model = "m"', 'server = "s"', 'version = "v"'


def load(tmp_path: Path, *texts: str) -> Profiles:
    paths = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return Profiles.load(*paths)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("", VERSION),
        ("", MODEL),
        (VERSION, MODEL),
        (VERSION, f"{MODEL}\n{VERSION}"),
        (MODEL, f"{MODEL}\n{VERSION}"),
        (f"{MODEL}\n{VERSION}", SERVER),
        (MODEL, SERVER),
        (SERVER, f"{SERVER}\n{VERSION}"),
        (SERVER, f"{SERVER}\n{MODEL}"),
    ],
)
def test_server_wins_over_model_and_model_over_version(
    tmp_path: Path, earlier: str, later: str
) -> None:
    """Whatever the order in the file."""
    for text in (
        profile(1, earlier) + profile(2, later),
        profile(2, later) + profile(1, earlier),
    ):
        profiles = load(tmp_path, text)
        target = profiles.resolve(CHAT, server="s", model="m", version=version_of(text))
        assert target.max_tools == 2


def version_of(text: str) -> str | None:
    return "v" if "version" in text else None


def test_later_of_one_layer_wins(tmp_path: Path) -> None:
    profiles = load(tmp_path, profile(1, MODEL) + profile(2, 'model = "*"'))
    assert profiles.resolve(CHAT, model="m").max_tools == 2


def test_file_wins_over_files_before_it_and_over_what_is_shipped(tmp_path: Path) -> None:
    profiles = load(tmp_path, profile(1, SERVER), profile(2, MODEL))
    assert profiles.resolve(CHAT, server="s", model="m").max_tools == 2
    assert not shipped_profiles().resolve(ANTHROPIC, model="claude-opus-5").prefill
    own = '[[profile]]\ndialect = "anthropic"\nset.prefill = true'
    assert load(tmp_path, own).resolve(ANTHROPIC, model="claude-opus-5").prefill


def test_profiles_are_for_their_dialect_alone(tmp_path: Path) -> None:
    profiles = load(tmp_path, profile(1, ""))
    assert profiles.resolve(ANTHROPIC).max_tools is None
    assert profiles.resolve(CHAT).max_tools == 1


def test_profiles_say_what_they_know(tmp_path: Path) -> None:
    profiles = load(tmp_path, profile(1, SERVER))
    assert profiles.servers == shipped_profiles().servers | {"s"}
    assert profiles.knows("s", "openai_chat")
    assert not profiles.knows("s", "anthropic")
    assert not profiles.knows("another", "openai_chat")
    assert not profiles.knows(None, "openai_chat")


def test_unknown_server_is_the_vendor(tmp_path: Path) -> None:
    """As it is where streams are decoded."""
    profiles = load(tmp_path, profile(1, SERVER))
    assert profiles.resolve(CHAT, server="another") == profiles.resolve(CHAT)


def test_default_version_is_that_of_the_vendor_alone(tmp_path: Path) -> None:
    text = profile(1, f"{VERSION}\ndefault = true") + '[[profile]]\ndialect = "openai_chat"\n'
    profiles = load(tmp_path, f'{text}{SERVER}\n[[profile]]\ndialect = "anthropic"\nserver = "t"')
    assert profiles.resolve(CHAT).max_tools == 1
    assert profiles.resolve(CHAT, server="another").max_tools == 1
    assert profiles.resolve(CHAT, server="t").max_tools == 1, "known for another dialect"
    assert profiles.resolve(CHAT, server="s").max_tools is None
    assert profiles.resolve(CHAT, server="s", version="v").max_tools == 1


def test_unknown_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncodeError) as caught:
        shipped_profiles().resolve(ANTHROPIC, version="2026-12-10")
    assert str(caught.value) == "version: not known, expected one of 2023-06-01, 2026-10-21"
    with pytest.raises(EncodeError, match="version: not known, expected one of none"):
        shipped_profiles().resolve(CHAT, version="v1")
    assert load(tmp_path, profile(1, VERSION)).resolve(CHAT, version="v").max_tools == 1


# Files


def test_shipped_profiles_are_read_once() -> None:
    assert shipped_profiles() is shipped_profiles()
    assert Profiles.load().servers == shipped_profiles().servers


def test_own_files_change_nothing_for_others(tmp_path: Path) -> None:
    before = shipped_profiles().resolve(CHAT)
    assert load(tmp_path, profile(1, "")).resolve(CHAT) != before
    assert shipped_profiles().resolve(CHAT) == before


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    with pytest.raises(ProfileError) as caught:
        Profiles.load(missing)
    assert str(caught.value) == f"{missing}: No such file or directory"


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"x = '\xff'")
    with pytest.raises(ProfileError, match="byte 5 is not UTF-8, expected TOML"):
        Profiles.load(path)


@pytest.mark.parametrize(("excess", "is_read"), [(-1, True), (0, True), (1, False)])
def test_file_is_bounded(tmp_path: Path, excess: int, is_read: bool) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"#" * (1024 * 1024 + excess))
    if is_read:
        assert Profiles.load(path).servers == shipped_profiles().servers
    else:
        with pytest.raises(ProfileError, match="more than 1048576 bytes"):
            Profiles.load(path)


def test_file_of_profiles_is_named_in_errors(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, profile(1, "set.x = 1"))
    assert str(caught.value).startswith(f"{tmp_path / '0.toml'}: profile[0].set.x: no such")


def test_profile_of_the_vendor_holds_for_nameless_servers_alone(tmp_path: Path) -> None:
    vendor = 'server = "vendor"'
    profiles = load(tmp_path, profile(3, vendor) + profile(5, SERVER))
    for server, tools in [(None, 3), ("unknown", 3), ("vendor", 3), ("s", 5)]:
        assert profiles.resolve(CHAT, server=server, model="m").max_tools == tools
    assert "vendor" not in profiles.servers
    assert profiles.knows("s", "openai_chat")
    assert not profiles.knows("vendor", "openai_chat")


def test_what_a_server_ignores_holds_for_translated_requests_alone(tmp_path: Path) -> None:
    profiles = load(tmp_path, profile(1, SERVER) + profile(2, f"{SERVER}\ntranslated = true"))
    assert profiles.resolve(CHAT, server="s").max_tools == 2
    assert profiles.resolve(CHAT, server="s", same_dialect=True).max_tools == 1


def test_models_refuse_elsewhere_what_they_refuse_at_their_vendor_if_it_hosts_them(
    tmp_path: Path,
) -> None:
    models = profile(1, MODEL)
    other = load(tmp_path, models + profile(2, 'server = "s"\nmodel = "n"'))
    assert not other.runs_vendor_models("s", "openai_chat")
    assert other.resolve(CHAT, server="s", model="m").max_tools == 1
    assert other.resolve(CHAT, server="s", model="m", same_dialect=True).max_tools is None
    assert other.resolve(CHAT, server="s", model="n", same_dialect=True).max_tools == 2
    host = load(tmp_path, models + profile(2, 'server = "s"\nmodel = "n"\nhosts_vendor = true'))
    assert host.runs_vendor_models("s", "openai_chat")
    assert not host.runs_vendor_models("s", "anthropic")
    assert host.resolve(CHAT, server="s", model="m", same_dialect=True).max_tools == 1


def test_requests_of_the_dialect_have_all_that_their_server_does_not_refuse() -> None:
    narrow = structs.replace(CHAT, max_stops=4, max_id_chars=40, min_answer_tokens=16)
    target = narrow.for_same_dialect(frozenset({"seed"}), same_models=False)
    assert (target.only_refusals, target.fields, target.dialect) == (True, {"seed"}, "openai_chat")
    assert (target.max_stops, target.max_id_chars, target.min_answer_tokens) == (None, None, None)
    same = narrow.for_same_dialect(frozenset({"seed"}), same_models=True)
    assert same == structs.replace(narrow, only_refusals=True)


def test_what_was_resolved_is_remembered_for_the_same_capabilities_alone(tmp_path: Path) -> None:
    profiles = load(tmp_path, profile(5, MODEL))
    first = profiles.resolve(CHAT, model="m")
    assert first.max_tools == 5
    assert profiles.resolve(CHAT, model="m") is first
    for base, model, own in [(CHAT, "n", False), (ANTHROPIC, "m", False), (CHAT, "m", True)]:
        found = profiles.resolve(base, model=model, same_dialect=own)
        assert found is not first
        assert found.dialect == base.dialect
    for number in range(1000):  # names of models come from anybody
        assert profiles.resolve(CHAT, model=f"n{number}").max_tools is None
    again = profiles.resolve(CHAT, model="m")
    assert again == first
    assert again is not first
    long = "m" * 10_000
    assert profiles.resolve(ANTHROPIC, model=long) == profiles.resolve(ANTHROPIC, model=long)
