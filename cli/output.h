/*
 * output.h - output for people: errors, colours, wrapped text, tables.
 *
 * Colours appear only on a terminal, and never if NO_COLOR is set or TERM is "dumb" or missing.
 * Text and tables that are not on a terminal are 80 columns wide.
 */
#ifndef NEAP_CLI_OUTPUT_H
#define NEAP_CLI_OUTPUT_H

#include <neap/status.h>
#include <neap/text.h>
#include <stdbool.h>
#include <stdint.h>

/* The exit status; the table in help.c says what each means. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_BAD_INPUT = 2,
    CLI_INFEASIBLE = 3,
    CLI_STOPPED = 4,
    CLI_EXIT_CODES
};

/* ---- Errors ---- */

/* Writes one line "neap: ..." on stderr and returns `code`. It is cleaned by neap_string_clean. */
int cli_fail(int code, const char *format, ...) NEAP_PRINTF(2, 3);
int cli_fail_memory(void);
/* Writes the error line of a failed library call and returns the exit code. */
int cli_fail_diag(const neap_diag *diag);
/* The same where an unwritable file is the output, not the input. */
int cli_fail_writing(const neap_diag *diag);

/* ---- The terminal ---- */

bool cli_colors(void);
/* Whether drawing characters can be used: yes unless the locale names another encoding. */
bool cli_unicode(void);
/* Columns of a stream's terminal; 0 if it is not a terminal. */
int cli_terminal_width(int stream);
/* Width of running text on stdout: that of the terminal, within 60 to 100; 80 without one. */
int cli_width(void);
/* Largest width of a table on stdout: that of the terminal; 80 without one. */
int cli_table_width(void);

typedef enum cli_style {
    CLI_PLAIN = 0,
    CLI_BOLD,
    CLI_DIM,
    CLI_GOOD, /* green */
    CLI_BAD,  /* red */
    CLI_STYLE_COUNT
} cli_style;

/* Text in a style, where there are colours. */
void cli_styled(neap_text *out, cli_style style, const char *format, ...) NEAP_PRINTF(3, 4);
/* Characters of a UTF-8 text. */
size_t cli_text_width(const char *text);
/*
 * Adds text whose first line begins at column `column` and whose next ones are indented by
 * `indent`, broken at spaces before `width`. '\n' begins a new line.
 */
void cli_wrap(neap_text *out, const char *text, size_t column, size_t indent, size_t width);

/* ---- Tables ---- */

typedef struct cli_column {
    const char *title; /* of no column: a table without a head */
    bool right;        /* right-aligned, for numbers */
    bool optional;     /* left out if the table is too wide */
} cli_column;

/* Cells are added row by row. A left-aligned last column is wrapped. */
typedef struct cli_table {
    uint32_t n_columns;
    const cli_column *columns;
    uint32_t n_cells;
    uint32_t indent;
    size_t *widths;
    bool *dropped;
    neap_text cells; /* one after another: a style as a letter, the text, a NUL */
} cli_table;

void cli_table_init(cli_table *table, const cli_column *columns, uint32_t n_columns,
                    uint32_t indent);
void cli_cell(cli_table *table, cli_style style, const char *format, ...) NEAP_PRINTF(3, 4);
/* Adds the table to the output and releases it. */
void cli_table_finish(cli_table *table, neap_text *out);

/* A table of facts: one line with a name, a value and a note for each. */
void cli_facts_init(cli_table *table);
void cli_fact(cli_table *table, const char *name, cli_style style, const char *value,
              const char *note, ...) NEAP_PRINTF(5, 6);

/* ---- Numbers for people ---- */

/* One such text; functions that take a pointer to it return its characters. */
typedef struct cli_text {
    char chars[64];
} cli_text;

const char *cli_format(cli_text *text, const char *format, ...) NEAP_PRINTF(2, 3);
const char *cli_bytes(cli_text *text, int64_t bytes);
/* A size and a larger one; exact to the byte if they would otherwise look the same. */
void cli_bytes_pair(cli_text *small, int64_t small_bytes, cli_text *large, int64_t large_bytes);
/* At least this many bytes, in the form that --budget reads: "3.42GiB". */
const char *cli_bytes_above(cli_text *text, int64_t bytes);
const char *cli_seconds(cli_text *text, double seconds);
/* 0.125 is "+12.50%". */
const char *cli_percent(cli_text *text, double share);

#endif
