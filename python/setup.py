"""Builds the wheel: the package and, inside it, libneap. pyproject.toml has the rest."""

import shutil
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).resolve().parent / "packaging"))
import library  # noqa: E402

ARCHIVED = ("CMakeLists.txt", "LICENSE", "cmake", "include", "src")  # what libneap is built from


class BuildWithLibrary(build_py):
    """Copies the modules, then builds libneap beside them."""

    def run(self):
        super().run()
        if not self.editable_mode:
            library.put_library(Path(self.build_lib) / "neap" / "_lib")
        elif not library.is_built():
            library.put_library(library.HERE / "neap" / "_lib")


class PlatformWheel(bdist_wheel):
    """One wheel for every Python 3 of a platform: ctypes does not depend on the interpreter."""

    def get_tag(self):
        folder = Path(self.bdist_dir) / "neap" / "_lib"
        if not folder.is_dir():  # metadata only, or an editable package
            return "py3", "none", super().get_tag()[2]
        return "py3", "none", library.platform_tag(folder)


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


class SourceArchive(sdist):
    """Adds the sources of libneap, which lie outside of this folder."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in ARCHIVED:
            source, target = library.sources() / name, Path(base_dir) / "libneap" / name
            target.parent.mkdir(exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


with tempfile.TemporaryDirectory(prefix="neap-setup-") as scratch:
    setup(
        version=library.version(),
        distclass=BinaryDistribution,
        cmdclass={
            "build_py": BuildWithLibrary,
            "bdist_wheel": PlatformWheel,
            "sdist": SourceArchive,
        },
        options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
    )
