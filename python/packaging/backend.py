"""The build backend: setuptools, with what building libneap needs on this machine.

It works in python/, also for the pyproject.toml of the checkout's root.
"""

import os
from pathlib import Path

import library
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F401,F403

os.chdir(Path(__file__).resolve().parent.parent)


def get_requires_for_build_wheel(config_settings=None):
    return build_meta.get_requires_for_build_wheel(config_settings) + library.requirements()


def get_requires_for_build_editable(config_settings=None):
    return build_meta.get_requires_for_build_editable(config_settings) + (
        [] if library.is_built() else library.requirements()
    )
