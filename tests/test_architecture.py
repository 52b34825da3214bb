"""The house rules that a machine can check: direction of imports, sizes, stubs.

They read the source tree; a reason for an exception stands in the docstring (or opening comment) as ``Length: why``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "jamma"
MODULES = sorted(PACKAGE.rglob("*.py"))
CYTHON = sorted(PACKAGE.rglob("*.pyx"))
C_SOURCES = sorted([*PACKAGE.rglob("*.c"), *PACKAGE.rglob("*.h")])
TOOLS = sorted([*ROOT.glob("examples/*.py"), *ROOT.glob("asv_bench/**/*.py"), *ROOT.glob(".spin/*.py")])
TOOLS = [path for path in TOOLS if not {"env", "html", ".asv"} & set(path.parts)]

MAX_FUNCTION, MAX_FILE = 60, 400
#: Debts; the list may only become shorter.
TO_BE_SPLIT: set[str] = set()
REASON = re.compile(r"\bLength: \w")

#: Imports go down only. What is not named here is in the middle: plan, samples, variants, kinship, lmm, io; and _plain,
#: which has the names of the modules of _core and _blas at run time but is made of lmm's NumPy forms.
LEVELS = {
    "__main__": 7, "cli": 6,
    "__init__": 5, "pipeline": 5, "report": 5, "stages": 5, "loco": 5, "eigen_store": 5,
    "jlinalg": 2, "_blas": 1, "_core": 1, "core": 0, "_version": 0, "__version__": 0,
}  # fmt: skip
MIDDLE = 3
#: Open to all, like core: the request's and the result's types.
OPEN = {"core", "config", "_version"}


def top(module: str) -> str:
    """The part of jamma that a module belongs to: ``jamma.io.plink`` to ``io``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def level(part: str) -> int:
    return LEVELS.get(part, MIDDLE)


def name_of(path: Path) -> str:
    """``jamma/io/plink.py`` to ``jamma.io.plink``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module of jamma) of each import, those for type checkers only left out."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.unparse(test.test)
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            names = [f"{module}.{a.name}" for a in node.names] if module == "jamma" else [module]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "jamma")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_down(path):
    here = top(name_of(path))
    for line, module in imports_of(path):
        part = top(module)
        if part in OPEN and here != "core":
            continue
        allowed = part in ("core", "_version") if here == "core" else level(part) <= level(here)
        assert allowed, f"{path.relative_to(ROOT)}:{line}: {here} imports {module}, which is above it"


@pytest.mark.parametrize("path", CYTHON, ids=name_of)
def test_extensions_import_nothing_above_them(path):
    for module in re.findall(r"^\s*(?:from|import|cimport)\s+(jamma[\w.]*)", path.read_text(), re.MULTILINE):
        assert top(module) in ("_core", "_blas", "core"), f"{path.relative_to(ROOT)}: imports {module}"


def test_modules_of_one_level_form_no_circle():
    graph = {name_of(path): {module for _, module in imports_of(path)} for path in MODULES}
    known = set(graph)
    graph = {m: {t if t in known else t.rpartition(".")[0] for t in found} - {m} for m, found in graph.items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for other in graph.get(module, ()):
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def python_functions(path: Path) -> Iterator[tuple[str, int, str]]:
    """(name, lines of code without docstring, comments and blanks, docstring) of each function."""
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        doc = ast.get_docstring(node, clean=False) or ""
        skip: set[int] = set()
        if doc:
            skip = set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        code = [
            n for n in range(node.lineno, (node.end_lineno or 0) + 1)
            if n not in skip and lines[n - 1].strip() and not lines[n - 1].lstrip().startswith("#")
        ]  # fmt: skip
        yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", len(code), doc


def cython_functions(path: Path) -> Iterator[tuple[str, int, str]]:
    """The same of a .pyx, by indentation."""
    lines = path.read_text().splitlines()
    start = re.compile(r"^(\s*)(?:cp?def|def)\s+(?!extern|class|struct|enum).*\(")
    for number, line in enumerate(lines):
        if not (match := start.match(line)):
            continue
        depth, body = len(match[1]), []
        for following in lines[number + 1 :]:
            bare = following.strip()
            if bare and len(following) - len(following.lstrip()) <= depth and not bare.startswith(")"):
                break
            body.append(following)
        text = "\n".join(body)
        doc = next(iter(re.findall(r'"""(.*?)"""', text, re.DOTALL)), "")
        code = re.sub(r'"""(.*?)"""', "", text, count=1, flags=re.DOTALL).splitlines()
        code = [k for k in code if k.strip() and not k.lstrip().startswith("#")]
        yield f"{path.relative_to(ROOT)}:{number + 1} {line.strip()[:50]}", len(code) + 1, doc


def c_functions(path: Path) -> Iterator[tuple[str, int, str]]:
    """The same of C: from a brace that ends, or is, a line at the margin to the closing one at the margin."""
    lines = path.read_text().splitlines()
    begin = None
    for number, line in enumerate(lines):
        is_start = line == "{" or (line[:1] not in ("", " ", "\t", "#", "/", "*", "}") and line.endswith(") {"))
        if is_start:
            begin = number
        elif line.startswith("}") and begin is not None:
            above = []
            for k in range(begin - 1, -1, -1):  # the comment above the signature
                if not lines[k].strip() or lines[k].startswith("}"):
                    break
                above.append(lines[k])
            body = [k for k in lines[begin : number + 1] if k.strip() and not k.lstrip().startswith(("//", "/*", "*"))]
            yield f"{path.relative_to(ROOT)}:{begin + 1}", len(body), "\n".join(reversed(above))
            begin = None


def all_functions() -> Iterator[tuple[str, int, str]]:
    for path in [*MODULES, *TOOLS]:
        yield from python_functions(path)
    for path in CYTHON:
        yield from cython_functions(path)
    for path in C_SOURCES:
        yield from c_functions(path)


def test_no_function_is_long_without_a_reason():
    functions = list(all_functions())
    assert len(functions) > 100  # the scanners see something
    long = [f"{where}: {n} lines" for where, n, doc in functions if n > MAX_FUNCTION and not REASON.search(doc)]
    assert not long, f"over {MAX_FUNCTION} lines, without 'Length: reason' in the docstring:\n" + "\n".join(long)


def test_no_file_is_long_without_a_reason():
    def opening(path: Path) -> str:
        return path.read_text()[:2500]

    files = [*MODULES, *CYTHON, *C_SOURCES, *TOOLS]
    sizes = {path: len(path.read_text().splitlines()) for path in files}
    long = {
        str(path.relative_to(ROOT)) for path, n in sizes.items() if n > MAX_FILE and not REASON.search(opening(path))
    }
    assert long <= TO_BE_SPLIT, f"over {MAX_FILE} lines, without 'Length: reason' at the top: {long - TO_BE_SPLIT}"


def test_no_source_of_an_extension_is_installed():
    """meson.build names what install_subdir leaves out: each source once, and nothing that is not there."""
    text = (ROOT / "meson.build").read_text()
    named = re.findall(r"'([\w./]+)'", text.split("exclude_files: [")[1].split("]")[0])
    sources = {".pyx", ".pxi", ".c", ".h", ".in", ".build"}
    here = [str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*") if p.suffix in sources and "simd" not in p.parts]
    assert sorted(named) == sorted(here)


@pytest.mark.parametrize("path", CYTHON, ids=name_of)
def test_each_extension_has_a_stub(path):
    if path.name.startswith("_testing"):
        return
    stub = path.with_suffix(".pyi")
    assert stub.exists(), f"{stub.relative_to(ROOT)} is missing"
    stated = {n.name for n in ast.parse(stub.read_text()).body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    defined = set(
        re.findall(r"^(?:def|cpdef\s+[\w ]*?|class|cdef class)\s+(\w+)\s*[(:]", path.read_text(), re.MULTILINE)
    )
    missing = {name for name in defined if not name.startswith("_")} - stated
    assert not missing, f"{stub.relative_to(ROOT)}: not declared: {', '.join(sorted(missing))}"


@pytest.mark.parametrize("path", [*MODULES, *TOOLS], ids=lambda p: str(p.relative_to(ROOT)))
def test_each_module_says_what_it_is_for(path):
    if path.read_text().strip():
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path.relative_to(ROOT)}: no docstring"


def test_core_needs_no_numpy():
    modules = [name_of(path) for path in MODULES if "core" in path.parts]
    code = f"import {', '.join(modules)}, sys; assert 'numpy' not in sys.modules and 'tqdm' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_scanners_find_what_they_look_for(tmp_path, monkeypatch):
    """The rules above would be worth nothing if the scanners saw no long function or no import."""
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    body = "\n".join(["    x = 1"] * 70) + "\n"
    (tmp_path / "a.py").write_text(f'def f():\n    """Doc.\n\n    Length: a table."""\n{body}')
    (tmp_path / "a.pyx").write_text(f"cdef int f(\n    int k,\n) noexcept nogil:\n{body}\ndef g():\n    pass\n")
    (tmp_path / "a.c").write_text(
        f"/* Length: why */\nstatic int f(int k)\n{{\n{body}\n}}\n\nint g(void) {{\n{body}\n}}\n"
    )
    ((_, n, doc),) = python_functions(tmp_path / "a.py")
    assert (n, bool(REASON.search(doc))) == (71, True)
    assert [n for _, n, _ in cython_functions(tmp_path / "a.pyx")] == [73, 2]
    (_, first, above), (_, second, _) = c_functions(tmp_path / "a.c")
    assert (first, second, bool(REASON.search(above))) == (72, 72, True)
    package = tmp_path / "jamma"
    package.mkdir()
    (package / "low.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import jamma.cli\n"
        "def f():\n    import numpy\n    from jamma import io\n"
    )
    assert list(imports_of(package / "low.py")) == [(6, "jamma.io")]
