"""Builds libneap for the package, or takes one that is there.

    NEAP_LIBRARY    take this libneap.so, with the folder deps/lib beside it, and build nothing
    NEAP_COMPILER   "zig": compile with the PyPI package ziglang for an old glibc, so that the wheel
                    runs on most systems; or the path of a C compiler
    CC              a C compiler, if NEAP_COMPILER is not set

Without any of them the first of cc, gcc and clang that works is used, and ziglang where there is
none. The library is built without oneDNN and libpng, which only training with the command needs.
HiGHS comes from the PyPI package highsbox and goes into the wheel with libneap.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
HIGHS = "1.15.1"  # as in tools/setup.sh
OLDEST_CMAKE = (3, 22)
ZIG_GLIBC = (2, 28)  # which PyTorch's wheels need, too; older ones have no threads.h
HIGHS_GLIBC = (2, 17)


def sources():
    """The folder with CMakeLists.txt: that of the checkout, or the copy in a source archive."""
    for folder in (HERE.parent, HERE / "libneap"):
        if (folder / "include" / "neap" / "version.h").is_file():
            return folder
    raise SystemExit(
        f"no sources of libneap beside or in {HERE}: build in a checkout of neap, with pip 21.3 or newer"
    )


def version():
    text = (sources() / "include" / "neap" / "version.h").read_text(encoding="utf-8")
    return re.search(r'NEAP_VERSION_STRING "([^"]+)"', text).group(1)


def is_built():
    """Is there a library in the checkout, which an editable package finds by itself?"""
    return (sources() / "build" / "release" / "libneap.so").is_file()


# ---- Tools ----


def compiler():
    """A compiler of the system, or None for zig."""
    chosen = os.environ.get("NEAP_COMPILER") or os.environ.get("CC")
    if chosen:
        return None if chosen == "zig" else chosen
    return next(filter(compiles, filter(None, map(shutil.which, ("cc", "gcc", "clang")))), None)


def compiles(command):
    """Does this compiler have the headers of the C library?"""
    try:
        check = [command, "-std=c17", "-fsyntax-only", "-x", "c", "-"]
        source = b"#include <stdio.h>\n#include <threads.h>\n"
        return subprocess.run(check, input=source, capture_output=True).returncode == 0
    except OSError:
        return False


def has_cmake():
    try:
        text = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    found = re.search(r"version (\d+)\.(\d+)", text.stdout)
    return bool(found) and tuple(map(int, found.groups())) >= OLDEST_CMAKE


def requirements():
    """The packages of PyPI that the build needs here."""
    if os.environ.get("NEAP_LIBRARY"):
        return []
    needed = [f"highsbox=={HIGHS}"]
    if not has_cmake():
        needed.append("cmake>=3.22")
    if not shutil.which("ninja"):
        needed.append("ninja")
    if compiler() is None:
        needed.append("ziglang")
    return needed


def zig_wrapper(folder):
    """A script that is a C compiler for the processor in general and for an old glibc."""
    target = f"{platform.machine()}-linux-gnu.{ZIG_GLIBC[0]}.{ZIG_GLIBC[1]}"
    path = folder / "zigcc"
    path.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target {target} '
        '-fno-sanitize=undefined "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


# ---- Building ----


def put_library(folder):
    """Puts libneap.so, and the libraries that come with it, into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("NEAP_LIBRARY")
    if given:
        take_library(Path(given), folder)
        return
    with tempfile.TemporaryDirectory(prefix="neap-build-") as scratch:
        build_library(Path(scratch), folder)


def take_library(library, folder):
    if not library.is_file():
        raise SystemExit(f"NEAP_LIBRARY is {library}: there is no such file")
    shutil.copy(library, folder / "libneap.so")
    companions = library.parent / "deps" / "lib"
    if companions.is_dir():
        shutil.copytree(companions, folder / "deps" / "lib", dirs_exist_ok=True)


def build_library(scratch, folder):
    import highsbox

    highs = Path(highsbox.highs_dist_dir())
    root, build = sources(), scratch / "build"
    command = compiler() or zig_wrapper(scratch)
    print(f"building libneap {version()} with {command}", flush=True)
    configure = [
        "cmake", "-S", str(root), "-B", str(build), "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O2 -DNDEBUG",
        f"-DHIGHS_ROOT={highs}", "-DNEAP_ONEDNN=OFF", "-DNEAP_PNG=OFF", "-DNEAP_ONNX=OFF", "-DNEAP_WHEEL=ON",
    ]  # fmt: skip
    run(configure, {**os.environ, "CC": command})
    run(["cmake", "--build", str(build), "--target", "neap_shared"], os.environ)
    shutil.copy(build / "libneap.so", folder / "libneap.so")
    shutil.copy(highs / "lib" / "libhighs.so", folder / "libhighs.so")
    shutil.copy(highs / "share/doc/HIGHS/LICENSE.txt", folder / "HiGHS-LICENSE.txt")


def run(command, environment):
    try:
        subprocess.run(command, env=environment, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"building libneap failed: {error}") from None


# ---- What the wheel runs on ----


def platform_tag(folder):
    """manylinux_2_X for the newest glibc that the libraries need; linux for a given library."""
    machine = platform.machine()
    if os.environ.get("NEAP_LIBRARY"):
        return f"linux_{machine}"
    needed = [HIGHS_GLIBC]
    for path in folder.glob("*.so"):
        names = re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())
        needed += [(int(major), int(minor)) for major, minor in names]
    return "manylinux_{}_{}_{}".format(*max(needed), machine)
