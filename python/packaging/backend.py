"""The build backend: setuptools, with what building libneap needs on this machine."""

import library
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F401,F403


def get_requires_for_build_wheel(config_settings=None):
    return build_meta.get_requires_for_build_wheel(config_settings) + library.requirements()


def get_requires_for_build_editable(config_settings=None):
    return build_meta.get_requires_for_build_editable(config_settings) + (
        [] if library.is_built() else library.requirements()
    )
