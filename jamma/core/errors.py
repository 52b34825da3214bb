"""The errors that end a run, with their exit codes, and the meaning of the kernels' status codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_PROBLEMS_SHOWN = 20


class JammaError(Exception):
    """Base of every error that jamma raises on purpose; the command line prints it without a traceback."""

    exit_code = 1


class InputError(JammaError, ValueError):
    """Something in the input is wrong.

    Parameters
    ----------
    problems : str or sequence of str
        One line for each thing that is wrong, as ``file:row:column: what was read, what was expected, what to
        do``. All of them are kept in `problems`; the message shows the first 20.
    """

    def __init__(self, problems: str | Sequence[str]):
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        shown = list(self.problems[:MAX_PROBLEMS_SHOWN])
        if len(self.problems) > MAX_PROBLEMS_SHOWN:
            shown.append(f"... and {len(self.problems) - MAX_PROBLEMS_SHOWN} more")
        super().__init__("\n".join(shown))


class UsageError(JammaError):
    """The options contradict each other or are out of range."""

    exit_code = 2


class InsufficientMemoryError(JammaError, MemoryError):
    """The run would not fit, or an allocation failed."""

    exit_code = 3


class OutputError(JammaError, OSError):
    """A result could not be written; nothing with its final name is left behind half done."""


class NumericalError(JammaError, ArithmeticError):
    """A computation did not give a finite answer, or LAPACK reported that it failed."""


class Problems:
    """Collects what is wrong with several inputs, so that all of it is told at once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Add one problem."""
        self.lines.append(line)

    def extend(self, lines: Iterable[str]) -> None:
        """Add several problems."""
        self.lines.extend(lines)

    def raise_if_any(self) -> None:
        """Raise `InputError` with everything added so far, if anything was."""
        if self.lines:
            raise InputError(self.lines)


# Status codes that nogil kernels return; 0 is success.
STATUS_OK = 0
STATUS_NO_MEMORY = -1
STATUS_BAD_SIZE = -2
STATUS_BAD_VALUE = -3
STATUS_NOT_AVAILABLE = -4
STATUS_NO_CONVERGENCE = -5


def check_status(status: int, where: str) -> None:
    """Raise the exception that a kernel's status code stands for; do nothing on 0.

    Parameters
    ----------
    status : int
        What the kernel returned.
    where : str
        What was being computed, for the message.
    """
    if status == STATUS_OK:
        return
    if status == STATUS_NO_MEMORY:
        raise InsufficientMemoryError(f"{where}: memory could not be allocated")
    if status == STATUS_BAD_SIZE:
        raise ValueError(f"{where}: array sizes do not agree")
    if status == STATUS_BAD_VALUE:
        raise ValueError(f"{where}: a value is outside its range")
    if status == STATUS_NOT_AVAILABLE:
        raise RuntimeError(f"{where}: not available in this build or on this CPU")
    if status == STATUS_NO_CONVERGENCE:
        raise NumericalError(f"{where}: no convergence")
    raise RuntimeError(f"{where}: unknown status {status}")
