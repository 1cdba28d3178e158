"""How the package finds libneap, and that it depends on nothing else."""

import shutil
from pathlib import Path

import neap
from core_support import run_python

SAY = "import neap; print(neap._library.path)"


def test_neap_library_comes_first(tmp_path):
    copy = tmp_path / "mine.so"
    folder = Path(neap._library.path).resolve().parent
    shutil.copy(neap._library.path, copy)
    for name in ("deps", "libhighs.so"):  # where it looks for HiGHS
        if (folder / name).exists():
            (tmp_path / name).symlink_to(folder / name)
    assert run_python(SAY, NEAP_LIBRARY=str(copy)).stdout.strip() == str(copy)


def test_a_wrong_library(tmp_path):
    said = run_python("import neap", NEAP_LIBRARY=str(tmp_path / "none.so"))
    assert "LibraryError: NEAP_LIBRARY names" in said.stderr and said.returncode == 1
    said = run_python("import neap", NEAP_LIBRARY="libc.so.6")
    assert "LibraryError: libc.so.6 is not the libneap of this package" in said.stderr


def test_no_library(tmp_path):
    """A package without a library says what to do."""
    shutil.copytree(
        Path(neap.__file__).parent, tmp_path / "neap", ignore=lambda *_: ["_lib", "torch"]
    )
    said = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ctypes.util\n"
        "ctypes.util.find_library = lambda name: None\n"
        "import neap",
        NEAP_LIBRARY=None,
    )
    assert "LibraryError: cannot load libneap" in said.stderr
    assert "NEAP_LIBRARY" in said.stderr and "pip" in said.stderr


def test_the_core_imports_no_other_package():
    said = run_python(
        "import sys, neap; print(sorted({'torch', 'numpy', 'networkx'} & set(sys.modules)))"
    )
    assert said.stdout.strip() == "[]", said.stderr


def test_everything_public_is_documented():
    for name in neap.__all__:
        item = getattr(neap, name)
        assert item.__doc__, name
        for member, value in vars(item).items() if isinstance(item, type) else ():
            if callable(value) and not member.startswith("_"):
                assert value.__doc__, f"{name}.{member}"
