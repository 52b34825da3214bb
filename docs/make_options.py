"""Write the table of options in user_guide.md and that of `gwas`'s arguments in api.md from the program's own lists.

usage: python docs/make_options.py
"""

from __future__ import annotations

from dataclasses import MISSING, fields

from blocks import DOCS, table, write_block

from jamma.cli import OPTIONS
from jamma.config import RunRequest

#: Arguments without an option of the same meaning, and aliases that `gwas` offers.
MORE_ARGUMENTS = {
    "phenotype_column": "One column; the same as `phenotype_columns` with one number.",
    "save_kinship": "Write the kinship that is computed; the same as `kinship_mode=1`.",
    "show_progress": "Show progress; the command line always does.",
}


def value_of(settings: dict) -> str:
    """What stands behind a flag; empty for a switch."""
    if settings.get("is_flag"):
        return ""
    kind = settings.get("type")
    by_kind = {int: "N", float: "NUMBER", None: "TEXT"}
    return (
        settings.get("metavar")
        or by_kind.get(kind)
        or "|".join(getattr(kind, "choices", ()))
        or ({"file": "FILE", "directory": "DIR"}.get(kind.name, kind.name))
    )


def options_table() -> str:
    """Flag with its value, default, name in `jamma.gwas`, help."""
    rows = []
    for (flag, name), settings in OPTIONS:
        default = settings.get("default")
        shown = "" if default in (None, True, ()) else f"`{default[0] if isinstance(default, tuple) else default}`"
        rows.append([f"`{f'{flag} {value_of(settings)}'.strip()}`", shown, f"`{name}`", settings["help"]])
    return table(["Option", "Default", "In `gwas()`", ""], rows)


def arguments_table() -> str:
    """Every argument of `gwas`: its default, the option it stands for, what it means."""
    by_name = {name: (flag, settings["help"]) for (flag, name), settings in OPTIONS}
    rows = []
    for field in fields(RunRequest):
        if field.name == "command":
            continue
        flag, text = by_name.get(field.name, ("", MORE_ARGUMENTS.get(field.name, "")))
        default = "" if field.default is MISSING else f"`{field.default!r}`"
        rows.append([f"`{field.name}`", default, f"`{flag}`" if flag else "", text])
    rows += [
        [f"`{name}`", "", "", text]
        for name, text in MORE_ARGUMENTS.items()
        if name not in RunRequest.__dataclass_fields__
    ]
    return table(["Argument", "Default", "Option", ""], rows)


if __name__ == "__main__":
    write_block(DOCS / "user_guide.md", "options", options_table())
    write_block(DOCS / "api.md", "arguments", arguments_table())
