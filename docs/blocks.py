"""Parts of pages that scripts write: text between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent


def block_pattern(name: str) -> re.Pattern[str]:
    """Matches a block; its groups are the two markers and the text between them."""
    return re.compile(rf"(<!-- {re.escape(name)}: begin -->\n)(.*?)(<!-- {re.escape(name)}: end -->)", re.DOTALL)


def read_block(page: Path, name: str) -> str:
    """The text of a block."""
    match = block_pattern(name).search(page.read_text())
    if match is None:
        raise SystemExit(f"{page}: no block {name}")
    return match[2]


def write_block(page: Path, name: str, text: str) -> None:
    """Replace the text of a block."""
    read_block(page, name)
    content = block_pattern(name).sub(lambda m: f"{m[1]}\n{text.strip()}\n\n{m[3]}", page.read_text())
    page.write_text(content)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
