"""One worker at a time, over processes and machines; the lock of one that dies is free at once."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from gradlab.errors import GradlabError

SECONDS = 600  # far longer than any holder needs


@contextlib.contextmanager
def exclusive(url: str, name: str) -> Iterator[None]:
    """Hold the lock ``name`` of a database for the duration of the block.

    Optuna itself lets two workers claim one trial where the database is SQLite, which has no row locks, and two
    workers enqueue the same point anywhere.

    Args:
        url: SQLAlchemy's, of SQLite, PostgreSQL or MySQL.
        name: of what is locked.

    Raises:
        GradlabError: for another database, or if the lock cannot be had.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise GradlabError(
            "that is no database URL; right are sqlite:///study.db or postgresql+psycopg://user:password@host/name"
        ) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise GradlabError("a sweep's SQLite database must be a file, such as sqlite:///study.db")
        with _sqlite(f"{parsed.database}.lock"):
            yield
    elif backend in ("postgresql", "mysql", "mariadb"):
        with _server(url, backend, name):
            yield
    else:
        raise GradlabError(f"sweeps run on SQLite, PostgreSQL or MySQL, not on {backend}")


@contextlib.contextmanager
def _sqlite(path: str) -> Iterator[None]:
    # A file of its own: locking the study's file would keep its other connections out.
    try:
        connection = sqlite3.connect(path, timeout=SECONDS, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        raise GradlabError(f"cannot lock {path!r}: {error}") from error
    with contextlib.closing(connection):
        yield


@contextlib.contextmanager
def _server(url: str, backend: str, name: str) -> Iterator[None]:
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    digest = hashlib.sha256(f"gradlab sweep {name}".encode()).digest()
    # A lock of the session, which ends with the connection, however that ends.
    take, free, values = {
        "postgresql": (
            "SELECT pg_advisory_lock(:key)",
            "SELECT pg_advisory_unlock(:key)",
            {"key": int.from_bytes(digest[:8], "big", signed=True)},
        )
    }.get(
        backend,
        (
            f"SELECT GET_LOCK(:key, {SECONDS})",
            "SELECT RELEASE_LOCK(:key)",
            {"key": digest.hex()[:32]},
        ),
    )
    try:
        connection: Any = create_engine(url, poolclass=NullPool).connect()
    except (ImportError, SQLAlchemyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise GradlabError(f"the sweep's database cannot be reached: {reason}") from error
    with connection:
        got = connection.execute(text(take), values).scalar()
        if backend != "postgresql" and got != 1:
            raise GradlabError("the lock of the sweep's database cannot be had; is a worker stuck?")
        try:
            yield
        finally:
            connection.execute(text(free), values)
