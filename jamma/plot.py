"""Manhattan and QQ plots of association results (needs matplotlib, ``pip install 'jamma[plot]'``).

Only the columns that a plot needs are read; a point is drawn once per cell of a grid finer than the markers, so that
ten million variants make a small figure which looks the same as all of them.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import UsageError
from jamma.io.atomic import atomic_output
from jamma.plot_points import (
    MANY,
    SMALLEST,
    Points,
    choose_column,
    genome_positions,
    lambda_gc,
    lead_variants,
    qq_points,
    read_points,
    thin,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

F64 = NDArray[np.float64]

ENDINGS = (".png", ".svg", ".pdf")
MAX_LABELS = 12
USUAL_THRESHOLD = 5e-8  # 0.05 over about a million independent common variants of a human genome
BLUE, LIGHT, RED, GREY = "#24457a", "#86a5cf", "#c8353f", "#8a8a8a"


@dataclass(frozen=True)
class PlotSummary:
    """What a plot shows.

    Attributes
    ----------
    path : Path
        The picture.
    column : str
        The p-value.
    n_variants, n_without : int
        Variants drawn, and those without a p-value.
    n_zero : int
        Those whose p-value is printed as 0, drawn at the smallest double's.
    n_unplaced : int
        Those without a position, drawn between their neighbours in the file.
    lambda_gc : float
        Median chi-square over its expectation.
    threshold : float
        The significance line.
    n_significant : int
        Variants below it.
    top : tuple of (str, str, int, float)
        Name, chromosome, position (as drawn) and -log10 p of the lowest p-value on each chromosome that has one
        beyond the line, lowest first.
    """

    path: Path
    column: str
    n_variants: int
    n_without: int
    n_zero: int
    n_unplaced: int
    lambda_gc: float
    threshold: float
    n_significant: int
    top: tuple[tuple[str, str, int, float], ...]

    def __str__(self) -> str:
        """The picture and its numbers, for the terminal."""
        lines = [
            f"wrote {self.path}",
            f"{self.n_variants:,} variants by {self.column}, lambda_GC {self.lambda_gc:.3f}, "
            f"{self.n_significant:,} beyond {self.threshold:.1e}",
        ]
        lines += [f"  {name} on {chrom} at {ps}: -log10 p = {y:.2f}" for name, chrom, ps, y in self.top]
        if self.n_without:
            lines.append(f"{self.n_without:,} without a p-value are not drawn")
        if self.n_zero:
            lines.append(
                f"{self.n_zero:,} with p = 0 are drawn at {-math.log10(SMALLEST):.0f}: --cols neg_log10_p has them"
            )
        if self.n_unplaced:
            lines.append(f"{self.n_unplaced:,} without a position are drawn between their neighbours in the file")
        return "\n".join(lines)


def _draw_manhattan(axes: Axes, points: Points, threshold: float, column: str) -> None:
    """Variants along the genome, chromosomes in two colours, those beyond the threshold in a third."""
    x, starts = genome_positions(points)
    line = -math.log10(threshold)
    top = max(float(points.y.max()), line) * 1.1 + 0.2
    shown = thin(x, points.y, top)
    significant = points.y[shown] > line
    odd = points.code[shown] % 2 == 1
    size = 3.2 if len(shown) < MANY else 2.2
    for chosen, colour in ((~significant & ~odd, BLUE), (~significant & odd, LIGHT), (significant, RED)):
        some = shown[chosen]
        axes.plot(x[some], points.y[some], linestyle="none", marker="o", markersize=size, markeredgewidth=0,
                  color=colour, rasterized=len(shown) > MANY)  # fmt: skip
    axes.axhline(line, color=GREY, linewidth=0.8, linestyle=(0, (5, 3)))
    axes.text(1.0, line, f"{threshold:.1e}", transform=axes.get_yaxis_transform(), ha="right", va="bottom",
              color=GREY, fontsize=8)  # fmt: skip
    span = starts[-1]
    axes.set_xlim(-0.01 * span, 1.0 * span)
    axes.set_ylim(0, top)
    _label_chromosomes(axes, points, starts)
    _label_leads(axes, points, x, line, span, top)
    axes.set_xlabel("Chromosome")
    name = "p" if column == "neg_log10_p" else column.replace("_", r"\_")
    axes.set_ylabel(rf"$-\log_{{10}}\;\mathrm{{{name}}}$")


def _label_chromosomes(axes: Axes, points: Points, starts: F64) -> None:
    """Names under the middle of the chromosomes, as many as there is room for."""
    present = np.unique(points.code)
    ticks, labels, free = [], [], -np.inf
    for c in present.tolist():
        name = points.chromosomes[c]
        name = name[3:] if name[:3].lower() == "chr" and len(name) > 3 else name
        middle = (starts[c] + starts[c + 1]) / 2
        half = starts[-1] * (0.0055 * len(name[:12]) + 0.003)
        if middle - half >= free:
            ticks.append(middle)
            labels.append(name[:12])
            free = middle + half
    axes.set_xticks(ticks, labels, fontsize=8)
    axes.tick_params(axis="x", length=0)


def _label_leads(axes: Axes, points: Points, x: F64, line: float, span: float, top: float) -> None:
    """The names of the lead variants of chromosomes beyond the threshold, where they do not collide."""
    placed: list[tuple[float, float]] = []
    for i in lead_variants(points, line)[:MAX_LABELS]:
        name = points.names.get(i, "")[:20]
        at, y = float(x[i]), float(points.y[i])
        if not name or any(abs(at - a) < 0.085 * span and abs(y - b) < 0.05 * top for a, b in placed):
            continue
        placed.append((at, y))
        side = "left" if at < 0.06 * span else "right" if at > 0.94 * span else "center"
        axes.annotate(name, (at, y), xytext=(0, 4), textcoords="offset points", ha=side, fontsize=7.5)


def _draw_qq(axes: Axes, points: Points, lambda_: float) -> None:
    """Observed against expected p-values with the pointwise 95% band of independent tests."""
    expected, observed, low, high = qq_points(points.y)
    top = float(expected[0]) * 1.05
    axes.fill_between(expected, low, high, color="#d9dde3", linewidth=0, label="95% under the null")
    axes.plot([0, top], [0, top], color=GREY, linewidth=0.8)
    axes.plot(expected, observed, linestyle="none", marker="o", markersize=2.6, markeredgewidth=0, color=BLUE)
    axes.set_xlim(0, top)
    axes.set_ylim(0, max(float(observed[0]), float(high.max()), top) * 1.05)
    axes.set_xlabel(r"Expected $-\log_{10}\;\mathrm{p}$")
    axes.set_ylabel(r"Observed $-\log_{10}\;\mathrm{p}$")
    axes.text(0.05, 0.95, rf"$\lambda_\mathrm{{GC}}$ = {lambda_:.3f}" + f"\n{len(points.y):,} variants",
              transform=axes.transAxes, va="top", fontsize=9)  # fmt: skip
    axes.legend(loc="lower right", fontsize=8, frameon=False)


def _figure(points: Points, column: str, threshold: float, lambda_: float, title: str) -> Any:
    """Both panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.6), layout="constrained")
    wide, square = figure.subplots(1, 2, width_ratios=(3, 1))
    _draw_manhattan(wide, points, threshold, column)
    _draw_qq(square, points, lambda_)
    for axes in (wide, square):
        axes.spines[["top", "right"]].set_visible(False)
    notes = []
    if points.n_zero:
        notes.append(f"{points.n_zero:,} with p = 0 drawn at {-math.log10(SMALLEST):.0f}")
    if points.n_unplaced:
        notes.append(f"{points.n_unplaced:,} without a position drawn between their neighbours in the file")
    wide.set_title(title.replace("$", r"\$"), loc="left", fontsize=10)
    wide.set_title("; ".join(notes), loc="right", fontsize=8, color=GREY)
    return figure


def plot_association(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    threshold: float | None = None,
    title: str | None = None,
    dpi: int = 150,
    n_threads: int = 1,
) -> PlotSummary:
    """Draw the Manhattan and QQ plots of an association result.

    Parameters
    ----------
    path : path-like
        .assoc.txt of jamma or GEMMA, the same gzipped, GWAS-SSF or Parquet.
    out : path-like, optional
        Picture; .png, .svg or .pdf. By default the result's name with .png.
    column : str, optional
        The p-value; by default the first of p_wald, p_lrt, p_score, p_value. The column neg_log10_p, where there is
        one, is used in place of the first.
    threshold : float, optional
        Significance line; by default 0.05 over the number of variants, but not below 5e-8.
    title : str, optional
        By default the file's name.
    dpi : int
        Dots per inch of a PNG, and of the points inside SVG and PDF where there are many.
    n_threads : int
        Threads that read.

    Returns
    -------
    PlotSummary

    Raises
    ------
    UsageError
        matplotlib is not installed; unknown column or ending.
    InputError
        The result cannot be read.
    OutputError
        The picture cannot be written.
    """
    path = Path(path)
    target = Path(out) if out is not None else default_picture(path)
    ending = target.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{target}: expected a name that ends in {', '.join(ENDINGS)}")
    if threshold is not None and not 0 < threshold < 1:
        raise UsageError(f"threshold {threshold:g}: expected a number between 0 and 1")
    try:
        import matplotlib
    except ImportError as error:
        raise UsageError("plots need matplotlib: pip install 'jamma[plot]'") from error
    name, is_log = choose_column(path, column)
    points = read_points(path, name, is_log, n_threads)
    line = threshold or max(0.05 / len(points.y), USUAL_THRESHOLD)
    lambda_ = lambda_gc(points.y)
    figure = _figure(points, name, line, lambda_, title if title is not None else path.name)
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}[ending]
    with matplotlib.rc_context({"svg.hashsalt": "jamma"}), atomic_output(target) as file:
        figure.savefig(file, format=ending[1:], dpi=dpi, metadata=undated)
    leads = lead_variants(points, -math.log10(line))
    top = tuple(
        (points.names.get(i, ""), points.chromosomes[points.code[i]], int(points.ps[i]), float(points.y[i]))
        for i in leads
    )
    n_significant = int((points.y > -math.log10(line)).sum())
    return PlotSummary(
        path=target, column=name, n_variants=len(points.y), n_without=points.n_without, n_zero=points.n_zero,
        n_unplaced=points.n_unplaced, lambda_gc=lambda_, threshold=line, n_significant=n_significant, top=top,
    )  # fmt: skip


def default_picture(path: Path) -> Path:
    """``NAME.assoc.png`` for ``NAME.assoc.txt``."""
    name = path.name.removesuffix(".gz")
    return path.with_name(name.rsplit(".", 1)[0] + ".png" if "." in name else name + ".png")
