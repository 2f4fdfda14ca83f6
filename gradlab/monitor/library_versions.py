"""Supported versions of the libraries that gradlab integrates with."""

from __future__ import annotations

from importlib import metadata

from packaging.version import Version

from gradlab.errors import GradlabError

# package -> oldest supported version, which `python tests/manual/versions.py` tests
OLDEST = {
    "sentence-transformers": "3.3.0",
    "transformers": "4.46.3",
    "accelerate": "1.0.0",
    "torch": "2.4.0",
}


class UnsupportedVersionError(GradlabError, ImportError):
    """A library is missing or too old."""


def require(*packages: str) -> None:
    """Check that packages of :data:`OLDEST` are installed and recent enough.

    Raises:
        UnsupportedVersionError: for the first that is not; the message says what to install.
    """
    for package in packages:
        oldest = OLDEST[package]
        hint = f'pip install "{package}>={oldest}"'
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise UnsupportedVersionError(
                f"this needs {package}, which is not installed; {hint}"
            ) from None
        # A pre-release counts as the release.
        if Version(Version(version).base_version) < Version(oldest):
            raise UnsupportedVersionError(
                f"this supports {package} from {oldest} on, and {version} is installed; {hint}"
            )
