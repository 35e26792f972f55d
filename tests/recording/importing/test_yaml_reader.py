"""The bounded reader of YAML."""

from __future__ import annotations

import sys

import pytest

from streamnorm.recording.importing.entries import (
    PlainScalar,
    Unreadable,
    UnsupportedValue,
    read_yaml,
    resolve_scalars,
)


def read(text: str) -> object:
    return read_yaml(text.encode(), max_depth=8)


def value(text: str) -> object:
    return resolve_scalars(read(text))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("12", 12),
        ("-3", -3),
        ("1.50", 1.5),
        ("1.0e+22", 1e22),
        ("-2.5e-7", -2.5e-7),
        # PyYAML writes each of these without quotes only where it is a text, or we know better.
        ("1e5", "1e5"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("yes", "yes"),
        ("0x1F", "0x1F"),
        ("=", "="),
        ("٣", "٣"),
        ('"12"', "12"),
        ("'true'", "true"),
        ("''", ""),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int '12'", 12),
        ("!!null ''", None),
        ("!!python/unicode 'a'", "a"),
        ("[1, a, {b: 2.0}]", [1, "a", {"b": 2.0}]),
        ("!!python/tuple [1]", [1]),
    ],
)
def test_yaml_value_equals_the_json_value(text: str, meant: object) -> None:
    found = value(text)
    assert (type(found), found) == (type(meant), meant)


def test_plain_scalars_differ_from_quoted_ones() -> None:
    assert isinstance(read("12"), PlainScalar)
    assert not isinstance(read("'12'"), PlainScalar)
    assert [type(key) for key in read_yaml(b"a: 1", max_depth=8)] == [str]


def test_block_scalar_keeps_its_lines() -> None:
    assert read("a: |+\n  data: 1\n\n  data: 2\n\nb: |-\n  x\n") == {
        "a": "data: 1\n\ndata: 2\n\n",
        "b": "x",
    }


def test_binary_is_bytes() -> None:
    assert read("!!binary |\n  /wBh\n  Yg==\n") == b"\xff\x00ab"


@pytest.mark.parametrize("text", ["!!binary '%'", "!!binary 'YQ'", "!!binary 'é'"])
def test_binary_that_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="no base64"):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.getcwd []",
        "!!python/name:os.getcwd ''",
        "!!python/object:io.BytesIO {state: 1}",
        "!mine 1",
        "!!set {a}",
        "!!timestamp 2026-01-01",
    ],
)
def test_unknown_tag_is_not_constructed(text: str) -> None:
    assert read(f"- {text}") == [UnsupportedValue()]
    with pytest.raises(Unreadable, match="JSON has not"):
        value(f"- {text}")


def test_bytes_are_refused_in_a_json_value() -> None:
    with pytest.raises(Unreadable, match="JSON has not"):
        value("[!!binary YQ==]")


def test_alias_equals_its_anchor() -> None:
    assert read("a: &x [1]\nb: *x\nc: &y s\nd: *y") == {"a": ["1"], "b": ["1"], "c": "s", "d": "s"}


@pytest.mark.parametrize("text", ["*x", "&x [*x]", "a: *x\nb: &x 1"])
def test_alias_within_its_own_anchor_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="alias of nothing"):
        read(text)


def test_exponential_aliases_are_refused_early() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    with pytest.raises(Unreadable, match="aliases repeat more than 1048576 characters"):
        read_yaml("\n".join(lines).encode(), max_depth=100)


def test_aliases_may_repeat_a_mebibyte_and_no_more() -> None:
    # Each alias stands for one value of 1,023 characters.
    text = f"- &x {'y' * 1023}\n"
    assert len(read_yaml((text + "- *x\n" * 1024).encode(), max_depth=8)) == 1025
    with pytest.raises(Unreadable, match="aliases repeat"):
        read_yaml((text + "- *x\n" * 1025).encode(), max_depth=8)


@pytest.mark.parametrize("bracket", ["[", "{a: ", "- ", "? "])
def test_nesting_is_bounded(bracket: str) -> None:
    with pytest.raises(Unreadable, match="nested deeper than 8"):
        read(bracket * 100_000)


def test_nesting_up_to_the_bound_is_read() -> None:
    assert read("[" * 8 + "]" * 8) == [[[[[[[[]]]]]]]]
    with pytest.raises(Unreadable, match="nested deeper than 8"):
        read("[" * 9 + "]" * 9)


def test_nesting_is_bounded_through_aliases() -> None:
    assert read("- &x [[[[a]]]]\n- [[[*x]]]")
    with pytest.raises(Unreadable, match="nested deeper than 8"):
        read("- &x [[[[a]]]]\n- [[[[*x]]]]")


@pytest.mark.parametrize(
    "text", ["a: b: secret", "'secret", "{secret: ", "\tsecret: 1", "%secret\n---"]
)
def test_text_that_is_no_yaml_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(Unreadable, match=r"no YAML in line \d+, column \d+") as refused:
        read(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("data", [b"a: \xff\xfe", b"a: \x00", b"\xff\xfea"])
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="no YAML"):
        read_yaml(data, max_depth=8)


@pytest.mark.parametrize("text", ["[1]: a", "? {}\n: a", "null: a", "!!binary YQ==: a"])
def test_key_that_is_no_text_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="a key that is no text"):
        read(text)


def test_second_document_is_refused() -> None:
    with pytest.raises(Unreadable, match="several YAML documents"):
        read("a: 1\n---\nb: 2\n")


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_empty_file_is_none(text: str) -> None:
    assert read(text) is None


def test_long_number_stays_text() -> None:
    assert value("9" * 1000) == int("9" * 1000)
    assert value("9" * 100_000) == "9" * 100_000


def test_pure_python_parser_gives_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: |+\n  data: 1\n\nb: &x [1, 'é', !!binary YQ==]\nc: {d: *x}\n"
    with_c = read(text)
    monkeypatch.delattr("yaml.CSafeLoader")
    assert read(text) == with_c
    # Only this parser lets surrogates pass, which stand for no character.
    assert read(r'"\ud83d\ude00 \ud83d"') == "😀 \ufffd"


def test_without_pyyaml_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ModuleNotFoundError, match=r"the extra `import`: pip install pyyaml"):
        read("a: 1")
