"""The command line as a whole: its help, its exit statuses and its imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamnorm.cli import main

TEXT = Path(__file__).parents[2] / "recordings" / "openai_chat" / "openai" / "text.sse"


def test_help_lists_the_exit_statuses_and_version_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argument in ("--version", "--help"):
        with pytest.raises(SystemExit) as stop:
            main([argument])
        assert stop.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("streamnorm 0.")
    assert "3  truncated" in out
    for command in (
        "transcode",
        "decode",
        "inspect",
        "record",
        "replay",
        "import",
        "export",
        "scan",
    ):
        assert f"\n    {command}" in out


def test_start_up_loads_no_http_library() -> None:
    code = (
        "import sys; from streamnorm.cli import main; "
        "main(['decode', sys.argv[1]]); "
        "assert not {'httpx', 'anyio', 'asyncio', 'httpx_sse', 'uvicorn'} & set(sys.modules); "
        "assert not {'streamnorm.asgi', 'streamnorm.recording.recorder'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, TEXT], check=True, stdout=subprocess.DEVNULL)
