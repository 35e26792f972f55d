"""Build hook that compiles the kernel; where that fails, the package is built without it.

A wheel with the kernel serves all versions of CPython from 3.11 on.  `STREAMNORM_PURE=1` builds one
without it, for every interpreter and machine.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MODULES = "streamnorm/_core/codec"


class KernelBuildHook(BuildHookInterface[Any]):
    """Compiles the kernel into a wheel, or in place for an editable installation."""

    _folder: Path | None = None  # of the compiled files, while a wheel is built

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernel before the files of the wheel are collected."""
        if os.environ.get("STREAMNORM_PURE", "0") not in ("", "0"):
            return
        # Neither PyPy nor a build of Python without its lock loads what has the limited API.
        if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            return
        modules = Path(self.root, _MODULES)
        source = modules / "kernel_source" / "_kernel.c"
        try:
            self._folder = Path(mkdtemp(prefix="streamnorm-"))
            compiled = compile_kernel(source, self._folder)
        except Exception as exc:  # noqa: BLE001 - of any compiler, or of none
            self.app.display_warning(f"the kernel is left out, everything else is there: {exc}")
            return
        if version == "editable":
            # Several environments may be installed from one folder at once.
            shutil.move(compiled, modules / f"{compiled.name}.{os.getpid()}")
            os.replace(modules / f"{compiled.name}.{os.getpid()}", modules / compiled.name)
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["force_include"][str(compiled)] = f"{_MODULES}/{compiled.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the compiled kernel, which the wheel now contains."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def compile_kernel(source: Path, folder: Path) -> Path:
    """Compile the kernel into a folder, and return its file.

    Raises:
        Exception: There is no compiler, or it fails.
    """
    from setuptools import Distribution, Extension

    flags = [] if sys.platform == "win32" else ["-O2", "-g0", "-Wall", "-Wextra"]
    extension = Extension(
        "_kernel",
        [source.name],
        define_macros=[("KERNEL_SOURCE", f'"{sha256(source.read_bytes()).hexdigest()}"')],
        extra_compile_args=[*flags, "-Wno-unused-parameter", "-Wno-cast-function-type"],
        py_limited_api=True,
    )
    command = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
    command.ensure_finalized()
    command.build_lib, command.build_temp = str(folder), str(folder / "objects")
    before = os.getcwd()
    os.chdir(source.parent)  # so that no path of this machine is compiled in
    try:
        command.run()
    finally:
        os.chdir(before)
    (compiled,) = folder.glob("_kernel.*")
    return compiled
