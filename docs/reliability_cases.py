"""The wrong inputs of RELIABILITY.md: how to make each, the command, and the test that holds it.

Each case begins with ``study.bed/.bim/.fam`` (the small cohort of tests/data), ``cov.txt``, ``weights.txt`` and the
kinship ``k.cXX.npy`` in an empty folder; `prepare` (bash) breaks something. ``python`` there is the one that runs this.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """One wrong input."""

    what: str
    prepare: str
    options: str
    test: str


LMM = "-lmm 1 -bfile study -k k.cXX.npy"
NEW_KINSHIP = "python -c \"import numpy as np; K = np.load('k.cXX.npy'); {}; np.save('new.npy', K)\""
PHENO = "awk '{{$6 = {}}} 1' study.fam > new.fam && mv new.fam study.fam"
TABLE = "awk 'BEGIN {{print \"{}\"}} {{print $2, NR % 7}}' study.fam > table.txt"
BY_ID = "-lmm 1 -bfile study -k k.cXX.npy --covar table.txt"

CASES: dict[str, list[Case]] = {
    "PLINK files": [
        Case("`.bed` cut off", "truncate -s 10000 study.bed", LMM, "test_plink.py::test_broken_bed"),
        Case("`.fam` of another set", "head -100 study.fam > new.fam; mv new.fam study.fam", LMM,
             "test_plink.py::test_broken_bed"),
        Case("not a `.bed`", "echo hello > study.bed", LMM, "test_plink.py::test_broken_bed"),
        Case("sample-major `.bed`", r"printf '\x6c\x1b\x00' | dd of=study.bed conv=notrunc status=none", LMM,
             "test_plink.py::test_broken_bed"),
        Case("a file is missing", "mv study.bim studies.bim", LMM, "test_tables.py::test_no_such_file"),
        Case("several things at once", "sed -i '3s/[ \\t].*//' study.fam; sed -i '5s/\\t[0-9]*\\t/\\tx\\t/' study.bim",
             LMM, "test_plink.py::test_all_three_files_are_checked_together"),
        Case("variant IDs that repeat", "awk 'BEGIN {OFS = \"\\t\"} NR < 4 {$2 = \"rs1\"} 1' study.bim > new.bim; "
             "mv new.bim study.bim", LMM, "test_tables.py::test_bim_repeated_ids"),
    ],
    "Phenotypes": [
        Case("text", PHENO.format('NR == 7 ? "tall" : $6'), LMM, "test_tables.py::test_phenotype_problems_all_told"),
        Case("decimal comma", PHENO.format('NR == 7 ? "1,5" : $6'), LMM, "test_tables.py::test_decimal_comma_is_named"),
        Case("constant", PHENO.format("3"), LMM, "test_samples.py::test_constant_phenotype"),
        Case("all are cases", PHENO.format("2"), LMM, "test_samples.py::test_constant_phenotype"),
        Case("no such column", "true", f"{LMM} -n 9", "test_samples.py::test_everything_together"),
        Case("nobody has one", PHENO.format('"NA"'), LMM, "test_samples.py::test_all_files_are_reported_together"),
        Case("`-9` where it is a number", "awk '{print NR == 3 ? -9 : NR % 11}' study.fam > p.txt", f"{LMM} -p p.txt",
             "test_columns.py::test_minus_nine_and_foreign_missing_are_told"),
        Case("`NaN`, `nan`, `.`", "awk '{print NR == 3 ? \"NaN\" : NR % 11}' study.fam > p.txt", f"{LMM} -p p.txt",
             "test_columns.py::test_minus_nine_and_foreign_missing_are_told"),
        Case("0/1/2 coding", PHENO.format("NR % 3"), LMM,
             "test_samples.py::test_plink_coding_of_missing_gets_a_warning"),
        Case("explained by the covariates", "awk '{print 1, $6 == \"NA\" ? 0 : $6}' study.fam > cov.txt",
             f"{LMM} -c cov.txt", "test_samples.py::test_phenotype_in_the_span_of_the_covariates"),
    ],
    "Covariates and weights": [
        Case("a row too few", "sed -i 1d cov.txt", f"{LMM} -c cov.txt", "test_columns.py::test_number_of_rows"),
        Case("a header", "sed -i '1i intercept age sex bmi' cov.txt", f"{LMM} -c cov.txt",
             "test_columns.py::test_header"),
        Case("text", "awk 'NR == 4 {$2 = \"old\"} 1' cov.txt > c", f"{LMM} -c c",
             "test_columns.py::test_everything_wrong_is_told_at_once"),
        Case("decimal commas", "awk '{print 1, NR \",5\"}' study.fam > c", f"{LMM} -c c",
             "test_columns.py::test_decimal_commas"),
        Case("ragged row", "sed -i '9s/$/ 1/' cov.txt", f"{LMM} -c cov.txt",
             "test_columns.py::test_everything_wrong_is_told_at_once"),
        Case("dependent columns", "awk '{print 1, NR, 2 * NR + 1}' study.fam > c", f"{LMM} -c c",
             "test_covariates.py::test_dependent_columns_are_dropped_and_named"),
        Case("`-cat` on a column of IDs", "awk '{print 1, $2}' study.fam > c", f"{LMM} -c c -cat 2",
             "test_covariates.py::test_one_hot_of_ids_is_refused"),
        Case("more parameters than samples", "awk '{print 1, $2}' study.fam | head -3 > keep.txt; "
             "head -3 study.fam > keep.txt", f"{LMM} -c cov.txt --keep keep.txt",
             "test_samples.py::test_too_few_individuals"),
        Case("weight of 0", "sed -i '2s/.*/0/' weights.txt", f"{LMM} -widv weights.txt",
             "test_samples.py::test_all_files_are_reported_together"),
    ],
    "Tables by ID": [
        Case("no header", "awk '{print $2, NR % 7}' study.fam > table.txt", BY_ID,
             "test_by_id.py::test_header_problems"),
        Case("no such column", TABLE.format("IID height"), f"{BY_ID} --covar-name heigth",
             "test_by_id.py::test_header_problems"),
        Case("an ID twice", TABLE.format("IID x") + "; tail -1 table.txt >> table.txt", BY_ID,
             "test_by_id.py::test_row_problems_all_told"),
        Case("other people", "awk 'BEGIN {print \"IID x\"} {print \"Z\" NR, 1}' study.fam > table.txt", BY_ID,
             "test_by_id.py::test_nobody_matched"),
        Case("some are not in it", TABLE.format("IID x") + "; sed -i '2,4d' table.txt", BY_ID,
             "test_by_id.py::test_table_by_both_ids"),
    ],
    "Kinship and eigen files": [
        Case("wrong size", NEW_KINSHIP.format("K = K[:50, :50]"), "-lmm 1 -bfile study -k new.npy",
             "test_matrix.py::test_wrong_size_by_position"),
        Case("not finite", NEW_KINSHIP.format("K[1, 2] = np.nan"), "-lmm 1 -bfile study -k new.npy",
             "test_matrix.py::test_errors_say_where"),
        Case("not symmetric", NEW_KINSHIP.format("K[1, 2] += 1"), "-lmm 1 -bfile study -k new.npy",
             "test_matrix.py::test_asymmetric"),
        Case("all zero", NEW_KINSHIP.format("K[:] = 0"), "-lmm 1 -bfile study -k new.npy",
             "test_matrix.py::test_matrices_without_information"),
        Case("identity", NEW_KINSHIP.format("K = np.eye(len(K))"), "-lmm 1 -bfile study -k new.npy",
             "test_matrix.py::test_matrices_without_information"),
        Case("indefinite", NEW_KINSHIP.format("K = K - 0.5 * np.eye(len(K))"), "-lmm 1 -bfile study -k new.npy",
             "test_eigen.py::test_low_rank_and_negative_eigenvalues"),
        Case("of other samples", "sed -i 's/\\t/\\tz/' k.cXX.id.txt", LMM,
             "test_matrix.py::test_unknown_samples_are_counted_and_named"),
        Case("side-car of another matrix", NEW_KINSHIP.format("K *= 2") + "; mv new.npy k.cXX.npy", LMM,
             "test_matrix.py::test_a_stale_side_car_is_refused"),
        Case("pickled objects", "python -c \"import numpy as np; np.save('new.npy', np.array([{}], dtype=object), "
             "allow_pickle=True)\"", "-lmm 1 -bfile study -k new.npy", "test_matrix.py::test_npy_is_never_unpickled"),
        Case("text", "echo one two three > k.txt", "-lmm 1 -bfile study -k k.txt",
             "test_matrix.py::test_errors_say_where"),
        Case("eigenvectors that are not", "python -c \"import numpy as np; n = {n}; "
             "np.save('d.npy', np.arange(n) + 1.0); np.save('u.npy', np.ones((n, n)))\"",
             "-lmm 1 -bfile study -d d.npy -u u.npy", "test_matrix.py::test_broken_eigen_files"),
    ],
    "Lists and regions": [
        Case("no variant matched", "echo rs999 > list.txt", f"{LMM} -snps list.txt",
             "test_variants.py::test_everything_that_matches_nothing_is_told"),
        Case("some not matched", "(cut -f 2 study.bim; echo rs999) > list.txt", f"{LMM} -snps list.txt",
             "test_variants.py::test_lists"),
        Case("nobody kept", "echo Z1 Z1 > keep.txt", f"{LMM} --keep keep.txt",
             "test_by_id.py::test_list_that_names_strangers"),
        Case("unknown chromosome", "true", f"{LMM} -region 99:",
             "test_variants.py::test_everything_that_matches_nothing_is_told"),
        Case("not a region", "true", f"{LMM} -region chr2", "test_variants.py::test_not_a_region"),
        Case("nothing left to test", "true", f"{LMM} -maf 0.5 -hwe 1", "test_cli.py::test_input_errors"),
        Case("LOCO with one chromosome", "sed -i 's/^[^\\t]*/1/' study.bim", "-lmm 1 -bfile study -loco",
             "test_pipeline.py::test_loco_needs_two_chromosomes"),
    ],
    "Options": [
        Case("misspelt", "true", f"{LMM} --treads 2", "test_cli.py::test_usage_errors"),
        Case("out of range", "true", f"{LMM} -maf 0.7 -lmin 0", "test_cli.py::test_usage_errors"),
        Case("contradictions, all at once", "true", f"{LMM} -loco -n 1,2 --pheno-name A",
             "test_config.py::test_everything_wrong_is_told_at_once"),
        Case("GEMMA's multivariate model", "true", f"{LMM} -n 1 2", "test_cli.py::test_usage_errors"),
        Case("environment variable", "export JAMMA_BACKEND=gpu", LMM, "test_config.py::test_backend_variable_wins"),
        Case("threads", "export OMP_NUM_THREADS=many", LMM, "test_threads.py::test_bad_value_is_named"),
        Case("a file that is not there", "true", "-lmm 1 -bfile study -k k.cXX.npz",
             "test_tables.py::test_no_such_file"),
    ],
    "Outputs and resources": [
        Case("a file stands where a folder should be", "echo > file", f"{LMM} -outdir file/out",
             "test_cli.py::test_unwritable_folder"),
        Case("no room (here by `ulimit -f`)", "ulimit -f 8", LMM, "test_writers.py::test_a_full_disk"),
        Case("too little memory", "true", f"{LMM} --mem-budget 0.05", "test_memory.py::test_refusal_tells_everything"),
        Case("Ctrl-C", "mkfifo fifo", "-lmm 1 -bfile study -k fifo", "test_cli.py::test_interrupt_leaves_nothing"),
    ],
}  # fmt: skip
