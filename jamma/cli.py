"""The command line: GEMMA's flags to a `RunRequest`; prints, and turns errors into exit codes; computes nothing.

Imports are inside the functions that need them: `jamma --help` and `--version` must not wait for NumPy.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from jamma._version import __version__
from jamma.config import BACKENDS, OUT_FORMATS

EXIT_INPUT, EXIT_USAGE, EXIT_MEMORY, EXIT_INTERRUPT = 1, 2, 3, 130

_PATH = click.Path(dir_okay=False)


class NumberList(click.ParamType):
    """Whole numbers separated by spaces or commas."""

    name = "INT[,INT...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Text to a tuple of int."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(t) for t in re.split(r"[\s,]+", value.strip()))
        except ValueError:
            self.fail(f"{value!r}: expected whole numbers such as 1 or 1,2,3", param, ctx)


class NameList(click.ParamType):
    """Names separated by commas."""

    name = "NAME[,NAME...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Text to a tuple of str."""
        return value if isinstance(value, tuple) else tuple(t for t in value.split(",") if t)


NUMBERS, NAMES = NumberList(), NameList()

# (declarations, keyword arguments of click.option); the destination is the field of RunRequest.
OPTIONS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("-bfile", "bfile"), dict(metavar="PREFIX", help="PLINK files PREFIX.bed, .bim, .fam.")),
    (("-gk", "kinship_mode"), dict(type=int, is_flag=False, flag_value=1, metavar="[1|2]",
     help="Compute a kinship: 1 centred (default), 2 standardised.")),
    (("-lmm", "lmm_mode"), dict(type=int, is_flag=False, flag_value=1, metavar="[1|2|3|4]",
     help="Test each variant: 1 Wald (default), 2 likelihood ratio, 3 score, 4 all.")),
    (("-k", "kinship_file"), dict(type=_PATH, help="Kinship: .npy or GEMMA's text, also .gz.")),
    (("-km", "kinship_format"), dict(type=int, default=1, metavar="1|2",
     help="Format of -k: 1 matrix (default), 2 list of 'id1 id2 value'.")),
    (("-d", "eigenvalue_file"), dict(type=_PATH, help="Eigenvalues, with -u instead of -k.")),
    (("-u", "eigenvector_file"), dict(type=_PATH, help="Eigenvectors, with -d.")),
    (("-eigen", "write_eigen"), dict(is_flag=True, help="Write the eigendecomposition.")),
    (("-loco", "loco"), dict(is_flag=True, help="Leave the tested variant's chromosome out of the kinship.")),
    (("--eigen-dir", "eigen_dir"), dict(type=click.Path(file_okay=False),
     help="Keep and reuse LOCO's decompositions here (written with -eigen).")),
    (("--resume", "resume"), dict(is_flag=True, help="Continue an interrupted LOCO run after its last chromosome.")),
    (("-n", "phenotype_columns"), dict(type=NUMBERS, default=(1,),
     help="Phenotype column(s), counted from 1; several as '1 2 3' or 1,2,3, each tested by itself.")),
    (("-p", "phenotype_file"), dict(type=_PATH, help="Phenotypes, one row a sample in .fam order.")),
    (("-c", "covariate_file"), dict(type=_PATH, help="Covariates, one row a sample in .fam order.")),
    (("-cat", "categorical_columns"), dict(type=NUMBERS, default=(), help="Covariate columns that are categories.")),
    (("-widv", "weight_file"), dict(type=_PATH, help="A weight for each sample, used as GEMMA does.")),
    (("--residual-weights", "residual_weight_file"), dict(type=_PATH,
     help="A relative residual variance for each sample (Var e_i proportional to it).")),
    (("--pheno", "pheno_table"), dict(type=_PATH, help="Phenotypes by ID: a table with a header and FID IID or IID.")),
    (("--pheno-name", "pheno_names"), dict(type=NAMES, default=(), help="Columns of --pheno.")),
    (("--covar", "covar_table"), dict(type=_PATH, help="Covariates by ID: a table with a header.")),
    (("--covar-name", "covar_names"), dict(type=NAMES, default=(), help="Columns of --covar.")),
    (("--keep", "keep_file"), dict(type=_PATH, help="Samples to keep (FID IID or IID).")),
    (("--remove", "remove_file"), dict(type=_PATH, help="Samples to remove.")),
    (("--extract", "extract_file"), dict(type=_PATH, help="Variants to keep, for kinship and test.")),
    (("--exclude", "exclude_file"), dict(type=_PATH, help="Variants to leave out, of kinship and test.")),
    (("-snps", "snps_file"), dict(type=_PATH, help="Variants to test.")),
    (("-ksnps", "ksnps_file"), dict(type=_PATH, help="Variants that enter the kinship.")),
    (("-region", "region"), dict(
     help="Variants to test: CHR:START-END (base pairs). A plain number, as in GEMMA: intervals of the search.")),
    (("-maf", "maf"), dict(type=float, default=0.01, show_default=True, help="Smallest minor allele frequency.")),
    (("-miss", "miss"), dict(type=float, default=0.05, show_default=True, help="Largest fraction of missing calls.")),
    (("-hwe", "hwe"), dict(type=float, default=0.0, help="Smallest Hardy-Weinberg p-value (chi-square).")),
    (("--hwe-exact", "hwe_exact"), dict(type=float, default=0.0, help="The same by the exact test, as GEMMA.")),
    (("-r2", "r2"), dict(type=float, default=0.9999, show_default=True,
     help="Drop variants that the covariates explain to more than this.")),
    (("-notsnp", "notsnp"), dict(is_flag=True, help="No frequency and no Hardy-Weinberg filter.")),
    (("-lmin", "l_min"), dict(type=float, default=1e-5, show_default=True, help="Smallest lambda.")),
    (("-lmax", "l_max"), dict(type=float, default=1e5, show_default=True, help="Largest lambda.")),
    (("-o", "output_prefix"), dict(default="result", show_default=True, metavar="NAME", help="Name of the outputs.")),
    (("-outdir", "output_dir"), dict(type=click.Path(file_okay=False), default="output", show_default=True,
     help="Folder of the outputs; made if need be.")),
    (("--legacy-text", "legacy_text"), dict(is_flag=True, help="Write kinship and eigen files as GEMMA's text.")),
    (("--out-format", "out_format"), dict(type=click.Choice(OUT_FORMATS),
     default="gemma", show_default=True, help="Format of the results.")),
    (("--cols", "extra_columns"), dict(type=NAMES, default=(), help="More columns: n, n_obs, neg_log10_p, stat.")),
    (("--dropped", "dropped_file"), dict(type=_PATH, help="List each variant that was not tested, with its reason.")),
    (("--plot", "plot"), dict(is_flag=True, help="Draw a Manhattan and a QQ plot beside the results.")),
    (("--backend", "backend"), dict(type=click.Choice(BACKENDS), default="auto",
     show_default=True, help="Genotypes in memory, or streamed from the file.")),
    (("--threads", "n_threads"), dict(type=int, metavar="N", help="Threads; default: all that the process may use.")),
    (("--chunk-size", "chunk_size"), dict(type=int, metavar="N", help="Variants read at a time; default: by memory.")),
    (("--mem-budget", "mem_budget"), dict(type=float, metavar="GB", help="Memory to stay within.")),
    (("--no-check-memory", "check_memory"), dict(is_flag=True, flag_value=False, default=True,
     help="Do not check the memory first.")),
    (("--no-telemetry", "telemetry"), dict(is_flag=True, flag_value=False, default=True,
     help="Do not note this run's timings in ~/.jamma/benchmarks.jsonl.")),
]  # fmt: skip


def _command() -> click.Command:
    """The command with all its options."""
    command = click.Command(
        "jamma",
        callback=_run,
        context_settings={"help_option_names": ["-h", "--help", "-help"], "max_content_width": 110},
        help="Mixed-model genome-wide association on PLINK files, with GEMMA's flags, files and numbers.\n\n"
        "'jamma plot NAME.assoc.txt' draws the results; 'jamma config' says which BLAS is used.",
    )
    for names, settings in OPTIONS:
        command.params.append(click.Option(list(names), **settings))
    command.params.append(click.Option(["-v", "--verbose", "verbose"], count=True, help="Say more."))
    command.params.append(
        click.Option(
            ["--version", "-version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version.",
        )  # fmt: skip
    )
    return command


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"jamma {__version__}")
        ctx.exit()


def join_number_lists(arguments: Sequence[str]) -> list[str]:
    """Join ``-cat 2 3`` into ``-cat 2,3``; refuse ``-n 1 2 3``, which means another model in GEMMA."""
    joined: list[str] = []
    i = 0
    while i < len(arguments):
        flag = arguments[i]
        joined.append(flag)
        i += 1
        if flag not in ("-n", "-cat"):
            continue
        values = []
        while i < len(arguments) and re.fullmatch(r"[\d,\s]+", arguments[i]):
            values.append(arguments[i])
            i += 1
        if flag == "-n" and len(values) > 1:
            raise click.UsageError(
                f"-n {' '.join(values)}: in GEMMA this is the multivariate model of all columns together, which jamma "
                f'does not fit. To test each phenotype by itself, write -n "{" ".join(values)}" or '
                f"-n {','.join(values)}."
            )
        if values:
            joined.append(",".join(values))
    return joined


def check_names(arguments: Sequence[str], command: click.Command) -> None:
    """Refuse an option that does not exist, naming the nearest one that does.

    click reads ``-maff`` as a bundle of one-letter options, and would complain of ``-m``.
    """
    known = {name for parameter in command.params for name in parameter.opts} | {"-h", "-help", "--help"}
    for token in arguments:
        name = token.partition("=")[0] if token.startswith("--") else token
        if not re.match(r"--?[A-Za-z]", name) or name in known or re.fullmatch(r"-v+", name):
            continue
        import difflib

        bare = {k.lstrip("-"): k for k in sorted(known)}
        near = difflib.get_close_matches(name.lstrip("-"), bare, 1)
        hint = f" Did you mean {bare[near[0]]}?" if near else " 'jamma --help' lists all."
        raise click.UsageError(f"{name}: there is no such option.{hint}")


def _run(verbose: int, **options: Any) -> None:
    """Build the request, run it, say where the results are."""
    from jamma.config import RunRequest

    if options["bfile"] is None:
        raise click.UsageError("-bfile PREFIX is needed: the PLINK files PREFIX.bed, PREFIX.bim and PREFIX.fam.")
    options["command"] = "jamma " + " ".join(sys.argv[1:])
    request = RunRequest(show_progress=True, **options)
    _log_to_terminal(verbose)
    from jamma.pipeline import run

    result = run(request)
    for line in result.summary:
        click.echo(line)


def _log_to_terminal(verbose: int) -> None:
    """Show the library's messages: warnings always, progress notes with -v, details with -vv."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("jamma")
    logger.addHandler(handler)
    logger.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])


def _plot_command() -> click.Command:
    """``jamma plot``."""

    def draw(assoc: str, out: str | None, column: str | None) -> None:
        from jamma.core.threads import kernel_threads
        from jamma.plot import plot_association

        click.echo(plot_association(assoc, out, column=column, n_threads=kernel_threads()))

    return click.Command(
        "jamma plot",
        callback=draw,
        help="Draw a Manhattan and a QQ plot of an .assoc.txt.",
        params=[
            click.Argument(["assoc"], type=click.Path(exists=True, dir_okay=False)),
            click.Option(["-o", "--out", "out"], type=_PATH, help="Picture: .png, .svg or .pdf."),
            click.Option(["--column", "column"], help="p-value to draw; default: the first of the file."),
        ],
    )


def _config_command() -> click.Command:
    """``jamma config``."""

    def show() -> None:
        from jamma import show_config

        show_config()

    return click.Command("jamma config", callback=show, help="Say which BLAS, kernels and threads are used.")


def _stop_on_sigterm(number: int, frame: Any) -> NoReturn:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code.

    0 success; 1 wrong input or output; 2 wrong usage; 3 not enough memory; 130 interrupted, 143 terminated.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _stop_on_sigterm)
    subcommands = {"plot": _plot_command, "config": _config_command}
    try:
        if arguments and arguments[0] in subcommands:
            subcommands[arguments[0]]().main(arguments[1:], standalone_mode=False, prog_name=f"jamma {arguments[0]}")
        else:
            command = _command()
            check_names(arguments, command)
            command.main(join_number_lists(arguments) or ["--help"], standalone_mode=False, prog_name="jamma")
        sys.stdout.flush()
    except BaseException as error:
        sys.exit(_exit_code(error))
    sys.exit(0)


def _exit_code(error: BaseException) -> int:
    """Print an error as its user should see it; return the exit code it stands for."""
    from jamma.core.errors import JammaError

    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else EXIT_INPUT
    if isinstance(error, BrokenPipeError):
        # Nothing reads standard output any more; Python must not try to flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INPUT
    if isinstance(error, (KeyboardInterrupt, click.exceptions.Abort)):
        click.echo("jamma: interrupted; no partial output was left", err=True)
        return EXIT_INTERRUPT
    if isinstance(error, click.ClickException):
        error.show()
        return EXIT_USAGE
    if isinstance(error, JammaError):
        click.echo(f"jamma: error: {error}", err=True)
        return error.exit_code
    if isinstance(error, MemoryError):
        click.echo(
            f"jamma: error: memory could not be allocated ({error}); use fewer samples, a larger machine, or "
            "--mem-budget to let jamma check first",
            err=True,
        )
        return EXIT_MEMORY
    raise error
