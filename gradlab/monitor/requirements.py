"""The versions of other libraries that the integrations support, and a plain answer where they are absent."""

from __future__ import annotations

from importlib import metadata

from packaging.version import Version

from gradlab.errors import GradlabError

# package -> oldest supported version; tests/manual/extras.py oldest runs the integrations with just these.
OLDEST = {"sentence-transformers": "3.3.0", "transformers": "4.46.3", "accelerate": "1.0.0", "torch": "2.4.0"}


class UnsupportedVersionError(GradlabError, ImportError):
    """A library is missing or too old."""


def require(*packages: str) -> None:
    """Check that packages, named in :data:`OLDEST`, are installed and recent enough.

    Raises:
        UnsupportedVersionError: the first that is not; the message says what to install.
    """
    for package in packages:
        oldest = OLDEST[package]
        hint = f'pip install "{package}>={oldest}"'
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise UnsupportedVersionError(f"this needs {package}, which is not installed; {hint}") from None
        if Version(Version(version).base_version) < Version(oldest):  # a build before a release counts as it
            raise UnsupportedVersionError(
                f"this supports {package} from {oldest} on, and {version} is installed; {hint}"
            )
