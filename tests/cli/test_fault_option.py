"""The values of `--fault`."""

from __future__ import annotations

import argparse

import pytest

from streamnorm.cli.recordings import read_fault
from streamnorm.recording import faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("bom", faults.bom()),
        (" crlf() ", faults.crlf()),
        ("cut(event=-1)", faults.cut(event=-1)),
        ("stall(byte=9, s=2.5)", faults.stall(byte=9, s=2.5)),
        ("http(529, times=None)", faults.http(529, times=None)),
        ("content_type('text/html')", faults.content_type("text/html")),
        ("garbage(event=0, data=b'\\xff')", faults.garbage(event=0, data=b"\xff")),
    ],
)
def test_argument_is_read_as_a_call_of_the_fault(text: str, fault: faults.Fault) -> None:
    assert read_fault(text) == fault


@pytest.mark.parametrize("fault", [faults.cut(byte=3), faults.drop_terminal(), faults.http(404)])
def test_str_of_a_fault_is_its_argument(fault: faults.Fault) -> None:
    assert read_fault(str(fault)) == fault


@pytest.mark.parametrize("name", ["every", "Fault", "cuts", "__import__"])
def test_other_names_are_refused_with_the_names_of_all_faults(name: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected one of bom, content_type, crlf"):
        read_fault(f"{name}()")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http()", "http(status, times=...)"),
        ("http('x')", "http(status, times=...)"),
        ("cut(3)", "cut(byte=..., event=...)"),
        ("stall(at=3)", "stall(byte=..., event=..., s=...)"),
        ("bom(1)", "bom()"),
    ],
)
def test_wrong_arguments_are_refused_with_those_of_the_fault(text: str, expected: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        read_fault(text)
    assert str(refused.value) == f"{text!r}, expected {expected}"
