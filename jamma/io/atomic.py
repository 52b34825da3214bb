"""Files that appear under their final name whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from jamma.core.errors import OutputError


def _output_error(path: Path, error: OSError) -> OutputError:
    """What could not be written and why, as the error that ends the run."""
    return OutputError(f"{path}: cannot be written: {error.strerror or error}")


class _Target(io.FileIO):
    """A raw file whose failures to write are `OutputError`, so that they are not taken for errors of reading."""

    final: Path

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            raise _output_error(self.final, error) from error


class CommitOrAbort:
    """A context manager that commits, or aborts where its block ends by an exception."""

    def commit(self) -> None:
        """Make the output complete and give it its final name."""
        raise NotImplementedError

    def abort(self) -> None:
        """Leave nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()


class AtomicFile(CommitOrAbort):
    """A file that is written beside its final name and renamed when it is complete.

    The temporary name is ``NAME.PID-RANDOM.part`` in the same folder, which is made if it is not there. `commit`
    flushes, syncs to the disk and renames; `abort` (and any exception inside the ``with`` block, an interrupt too)
    removes the temporary file. After a crash or SIGKILL at any moment the final name holds the former content or
    the whole new one. A symbolic link is followed; a device or a pipe, such as ``/dev/stdout``, is written directly.

    Parameters
    ----------
    path : path-like
        Final name.

    Raises
    ------
    OutputError
        The folder or the file cannot be made, or the name is a folder; from `write` and `commit`: the disk is full
        or any other failure.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(os.path.realpath(path))
        self._part: Path | None = None
        try:
            mode = self._mode()
            if mode and stat.S_ISDIR(mode):
                raise OutputError(f"{path}: is a folder, expected the name of a file to write")
            if mode and not stat.S_ISREG(mode):
                target = _Target(self.path, "w")
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                part = self.path.with_name(f"{self.path.name[:200]}.{os.getpid()}-{secrets.token_hex(4)}.part")
                target = _Target(part, "x")
                self._part = part
        except FileExistsError as error:
            raise OutputError(f"{path}: cannot be written: {error.filename} is not a folder") from error
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise _output_error(self.path, error) from error
        target.final = self.path
        self.file = io.BufferedWriter(target, 1 << 20)

    def _mode(self) -> int:
        """File type and permissions of the final name, 0 where it does not exist."""
        try:
            return os.stat(self.path).st_mode
        except FileNotFoundError:
            return 0

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self.file.write(data)

    def commit(self) -> None:
        """Make the file complete and give it its final name."""
        try:
            self.file.flush()
            if self._part is not None:
                os.fsync(self.file.fileno())
            self.file.close()
            if self._part is not None:
                os.replace(self._part, self.path)
                self._part = None
                _sync_folder(self.path.parent)
        except BaseException as error:
            self.abort()
            if isinstance(error, OSError) and not isinstance(error, OutputError):
                raise _output_error(self.path, error) from error
            raise

    def abort(self) -> None:
        """Forget what was written; the final name stays as it was."""
        part, self._part = self._part, None
        if part is not None:
            with contextlib.suppress(OSError):
                os.unlink(part)
        with contextlib.suppress(OSError):
            self.file.raw.close()


def _sync_folder(folder: Path) -> None:
    """Sync the folder's entry to the disk where the system can do that."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def atomic_output(path: str | os.PathLike[str], binary: bool = True) -> Iterator[IO[Any]]:
    r"""Open a file that gets its final name only when the block ends without an exception.

    Parameters
    ----------
    path : path-like
        Final name; its folder is made.
    binary : bool
        Bytes, or else text in UTF-8 with ``\n`` line ends (bytes of names that are not UTF-8 are put back as read).

    Raises
    ------
    OutputError
        See `AtomicFile`.
    """
    with AtomicFile(path) as target:
        if binary:
            yield target.file
        else:
            text = io.TextIOWrapper(target.file, encoding="utf-8", errors="surrogateescape", newline="\n")
            yield text
            text.flush()
            text.detach()


def write_all(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]) -> Path:
    """Write the pieces as one file, atomically; returns its path."""
    with AtomicFile(path) as target:
        for piece in pieces:
            target.write(piece)
    return Path(path)
