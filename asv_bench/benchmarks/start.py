"""Start-up: what every command and every import pays."""

from __future__ import annotations

import subprocess
import sys

VERSION = "import sys; sys.argv = ['jamma', '--version']; from jamma.cli import main; main()"


class Start:
    """A fresh interpreter each time; `import numpy` is the yardstick."""

    params = (["import numpy", "import jamma", VERSION],)
    param_names = ("code",)
    number = 1

    def time_start(self, code: str) -> None:
        """Run the code and end."""
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
