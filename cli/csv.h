/*
 * csv.h - writes tables as CSV (RFC 4180, with lines ended by '\n'): a line of column names, then
 * one line per row.
 *
 * Texts are in quotes, and quotes inside are doubled; names from files are cleaned by
 * neap_string_clean, so that a row is always one line, and a text that a spreadsheet would take for
 * a formula (from = + - @ on) has an apostrophe before it. Words of neap itself (methods, kinds,
 * statuses) are not quoted. Numbers are exact: they read back as the same number. What is not known
 * is empty.
 */
#ifndef NEAP_CLI_CSV_H
#define NEAP_CLI_CSV_H

#include <neap/text.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cli_csv {
    neap_text text;
    bool inside; /* a row: a comma comes before the next cell */
} cli_csv;

/* Begins with the names of the columns, separated by commas. */
void cli_csv_begin(cli_csv *csv, const char *columns);

void cli_csv_string(cli_csv *csv, const char *text); /* NULL is empty */
void cli_csv_word(cli_csv *csv, const char *word);   /* likewise */
void cli_csv_integer(cli_csv *csv, int64_t number);
void cli_csv_size(cli_csv *csv, int64_t bytes); /* negative is empty */
void cli_csv_real(cli_csv *csv, double number); /* what is not finite is empty */
void cli_csv_bool(cli_csv *csv, bool truth);    /* 1 or 0 */
void cli_csv_none(cli_csv *csv, int cells);     /* so many empty cells */
void cli_csv_end_row(cli_csv *csv);

/*
 * Writes it to a file, or appends it to the output if the path is "-", and releases it. Returns an
 * exit code, after a line on stderr if it is not CLI_OK.
 */
int cli_csv_deliver(cli_csv *csv, const char *path, neap_text *out);

#endif
