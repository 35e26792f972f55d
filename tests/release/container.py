"""The container image of a release: its file is linted, and built where that is possible."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["base_image", "choose_builder", "prepare_context"]

_BUILDERS = ("docker", "podman", "buildah")


def base_image(dockerfile: str) -> str:
    """Return the image that a container file begins with."""
    (image,) = re.findall(r"^ARG PYTHON=(\S+)$", dockerfile, re.MULTILINE)
    return str(image)


def choose_builder(base: str) -> str | None:
    """Return a builder that has the base image or can pull it; None if there is none here."""
    for builder in filter(shutil.which, _BUILDERS):
        for command in (["inspect", "--type", "image", base], ["pull", base]):
            if not subprocess.run([builder, *command], capture_output=True).returncode:
                return builder
    return None


def prepare_context(root: Path, wheel: Path, folder: Path) -> Path:
    """Copy what an image is built from into a folder: its file and one wheel."""
    (folder / "dist").mkdir(parents=True)
    shutil.copyfile(wheel, folder / "dist" / wheel.name)
    for name in ("Dockerfile", ".dockerignore"):
        shutil.copyfile(root / name, folder / name)
    return folder
