#include "output.h"

#include "memory.h"

#include <inttypes.h>
#include <math.h>
#include <neap/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- Errors ---- */

int cli_fail(int code, const char *format, ...)
{
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0)
        line[0] = '\0';
    neap_string_clean(line);
    fprintf(stderr, "neap: %s%s\n", line, length >= (int)sizeof line ? "..." : "");
    return code;
}

int cli_fail_memory(void)
{
    return cli_fail(CLI_FAILED, "out of memory");
}

int cli_fail_diag(const neap_diag *diag)
{
    switch (diag->status) {
    case NEAP_INVALID:
    case NEAP_UNSUPPORTED:
    case NEAP_IO:
        return cli_fail(CLI_BAD_INPUT, "%s", diag->message);
    case NEAP_NO_MEMORY: /* with the size, where that is what an arena needs */
        return cli_fail(CLI_FAILED, "%s", diag->message);
    default:
        return cli_fail(CLI_FAILED, "internal error: %s; please report it", diag->message);
    }
}

int cli_fail_writing(const neap_diag *diag)
{
    if (diag->status == NEAP_IO)
        return cli_fail(CLI_FAILED, "%s", diag->message);
    return cli_fail_diag(diag);
}

/* ---- The terminal ---- */

bool cli_colors(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && terminal && *terminal &&
           strcmp(terminal, "dumb") != 0;
}

bool cli_unicode(void)
{
    static const char *const NAMES[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const char *locale = getenv(NAMES[i]);
        if (!locale || !*locale)
            continue;
        const char *charset = strchr(locale, '.');
        return charset &&
               (strncasecmp(charset, ".utf-8", 6) == 0 || strncasecmp(charset, ".utf8", 5) == 0);
    }
    return true;
}

int cli_terminal_width(int stream)
{
    struct winsize size;
    if (!isatty(stream))
        return 0;
    return ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int cli_width(void)
{
    int width = cli_terminal_width(STDOUT_FILENO);
    return width == 0 ? 80 : width < 60 ? 60 : width > 100 ? 100 : width;
}

int cli_table_width(void)
{
    int width = cli_terminal_width(STDOUT_FILENO);
    return width == 0 ? 80 : width < 60 ? 60 : width;
}

static const char *const STYLE_BEGIN[CLI_STYLE_COUNT] = {
    [CLI_PLAIN] = "",        [CLI_BOLD] = "\033[1m", [CLI_DIM] = "\033[2m",
    [CLI_GOOD] = "\033[32m", [CLI_BAD] = "\033[31m",
};

static void begin_style(neap_text *out, cli_style style)
{
    if (style != CLI_PLAIN && cli_colors())
        neap_text_puts(out, STYLE_BEGIN[style]);
}

static void end_style(neap_text *out, cli_style style)
{
    if (style != CLI_PLAIN && cli_colors())
        neap_text_puts(out, "\033[0m");
}

/* Adds formatted text: names in it may come from a hostile file. */
NEAP_PRINTF(2, 0)
static void add_clean(neap_text *out, const char *format, va_list arguments)
{
    size_t start = out->length;
    neap_text_vprintf(out, format, arguments);
    if (out->status == NEAP_OK)
        out->length = start + neap_string_clean(out->text + start);
}

void cli_styled(neap_text *out, cli_style style, const char *format, ...)
{
    va_list arguments;
    begin_style(out, style);
    va_start(arguments, format);
    add_clean(out, format, arguments);
    va_end(arguments);
    end_style(out, style);
}

size_t cli_text_width(const char *text)
{
    return neap_string_characters(text, strlen(text));
}

void cli_wrap(neap_text *out, const char *text, size_t column, size_t indent, size_t width)
{
    bool first = true; /* of its line */
    while (*text) {
        size_t length = strcspn(text, " \n");
        size_t word = neap_string_characters(text, length);
        if (!first && column + 1 + word > width) {
            neap_text_puts(out, "\n");
            neap_text_repeat(out, ' ', indent);
            column = indent;
            first = true;
        }
        if (!first) {
            neap_text_puts(out, " ");
            column++;
        }
        neap_text_append(out, text, length);
        column += word;
        first = false;
        text += length;
        if (*text == ' ')
            text++;
        for (; *text == '\n'; text++) {
            neap_text_puts(out, "\n");
            if (text[1] && text[1] != '\n')
                neap_text_repeat(out, ' ', indent);
            column = indent;
            first = true;
        }
    }
}

/* ---- Tables ---- */

void cli_table_init(cli_table *table, const cli_column *columns, uint32_t n_columns,
                    uint32_t indent)
{
    *table = (cli_table){.n_columns = n_columns, .columns = columns, .indent = indent};
    table->widths = cli_memory_new(n_columns, sizeof *table->widths);
    table->dropped = cli_memory_new(n_columns, sizeof *table->dropped);
    if (!table->widths || !table->dropped) {
        table->cells.status = NEAP_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < n_columns; i++)
        if (columns[i].title)
            table->widths[i] = cli_text_width(columns[i].title);
}

NEAP_PRINTF(3, 0)
static void put_cell(cli_table *table, cli_style style, const char *format, va_list arguments)
{
    if (table->cells.status != NEAP_OK)
        return;
    char letter = (char)('a' + (int)style);
    neap_text_append(&table->cells, &letter, 1);
    size_t start = table->cells.length;
    add_clean(&table->cells, format, arguments);
    if (table->cells.status != NEAP_OK)
        return;
    size_t width = cli_text_width(table->cells.text + start);
    size_t *widest = &table->widths[table->n_cells % table->n_columns];
    if (width > *widest)
        *widest = width;
    neap_text_append(&table->cells, "", 1);
    table->n_cells++;
}

void cli_cell(cli_table *table, cli_style style, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_cell(table, style, format, arguments);
    va_end(arguments);
}

static void add_cell(const cli_table *table, uint32_t column, cli_style style, const char *text,
                     size_t start, neap_text *out)
{
    size_t padding = table->widths[column] - cli_text_width(text);
    bool last = column + 1 == table->n_columns;
    bool right = table->columns[column].right;
    if (right)
        neap_text_repeat(out, ' ', padding);
    if (*text == '\0')
        style = CLI_PLAIN;
    begin_style(out, style);
    if (last && !right)
        cli_wrap(out, text, start, start, (size_t)cli_table_width());
    else
        neap_text_puts(out, text);
    end_style(out, style);
    if (!right && !last)
        neap_text_repeat(out, ' ', padding);
}

/* ---- Columns that fit ---- */

/* Least room for a last column that is wrapped. */
enum { LEAST_WRAPPED = 36 };

/* How wide the lines are; a last column that is wrapped counts as what it needs at least. */
static size_t table_width(const cli_table *table)
{
    size_t width = table->indent;
    for (uint32_t i = 0; i < table->n_columns; i++) {
        size_t column = table->widths[i];
        bool wrapped = i + 1 == table->n_columns && !table->columns[i].right;
        if (!table->dropped[i])
            width += (wrapped && column > LEAST_WRAPPED ? LEAST_WRAPPED : column) + 2;
    }
    return width - 2;
}

/* Leaves out optional columns, the last first, until the rest fits. */
static void drop_columns(cli_table *table)
{
    for (uint32_t i = table->n_columns; i-- > 0;)
        if (table_width(table) > (size_t)cli_table_width() && table->columns[i].optional)
            table->dropped[i] = true;
}

/* Removes the padding at the end of a line. */
static void trim_line(neap_text *out)
{
    while (out->length > 0 && out->text[out->length - 1] == ' ')
        out->text[--out->length] = '\0';
}

/* One line: `cells` are the texts with their styles, or NULL for the head. Returns the next line's.
 */
static const char *add_line(const cli_table *table, const char *cells, neap_text *out)
{
    size_t start = table->indent;
    neap_text_repeat(out, ' ', table->indent);
    for (uint32_t i = 0; i < table->n_columns; i++) {
        cli_style style = cells ? (cli_style)(cells[0] - 'a') : CLI_BOLD;
        const char *text = cells ? cells + 1 : table->columns[i].title;
        if (!table->dropped[i]) {
            add_cell(table, i, style, text, start, out);
            neap_text_puts(out, i + 1 < table->n_columns ? "  " : "");
            start += table->widths[i] + 2;
        }
        if (cells)
            cells += strlen(cells) + 1;
    }
    trim_line(out);
    neap_text_puts(out, "\n");
    return cells;
}

void cli_table_finish(cli_table *table, neap_text *out)
{
    if (table->cells.status != NEAP_OK) {
        out->status = NEAP_NO_MEMORY;
    } else {
        drop_columns(table);
        if (table->columns[0].title)
            add_line(table, NULL, out);
        const char *cells = neap_text_get(&table->cells);
        for (uint32_t i = 0; i < table->n_cells / table->n_columns; i++)
            cells = add_line(table, cells, out);
    }
    cli_memory_release(table->widths, table->n_columns, sizeof *table->widths);
    cli_memory_release(table->dropped, table->n_columns, sizeof *table->dropped);
    neap_text_clear(&table->cells);
}

void cli_facts_init(cli_table *table)
{
    static const cli_column COLUMNS[] = {
        {NULL, false, false}, {NULL, false, false}, {NULL, false, false}};
    cli_table_init(table, COLUMNS, 3, 2);
}

void cli_fact(cli_table *table, const char *name, cli_style style, const char *value,
              const char *note, ...)
{
    cli_cell(table, CLI_DIM, "%s", name);
    cli_cell(table, style, "%s", value);
    va_list arguments;
    va_start(arguments, note);
    put_cell(table, CLI_DIM, note, arguments);
    va_end(arguments);
}

/* ---- Numbers for people ---- */

const char *cli_format(cli_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text->chars, sizeof text->chars, format, arguments);
    va_end(arguments);
    return text->chars;
}

const char *cli_bytes(cli_text *text, int64_t bytes)
{
    return neap_bytes_format(bytes, text->chars, sizeof text->chars);
}

void cli_bytes_pair(cli_text *small, int64_t small_bytes, cli_text *large, int64_t large_bytes)
{
    cli_bytes(small, small_bytes);
    cli_bytes(large, large_bytes);
    if (small_bytes != large_bytes && strcmp(small->chars, large->chars) == 0) {
        cli_format(small, "%" PRId64 " B", small_bytes);
        cli_format(large, "%" PRId64 " B", large_bytes);
    }
}

const char *cli_bytes_above(cli_text *text, int64_t bytes)
{
    static const char *const UNITS[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double size = (double)bytes;
    while (size >= 1024 && unit + 1 < sizeof UNITS / sizeof UNITS[0]) {
        size /= 1024;
        unit++;
    }
    if (unit == 0)
        return cli_format(text, "%" PRId64, bytes);
    return cli_format(text, "%.2f%s", ceil(size * 100) / 100, UNITS[unit]);
}

const char *cli_seconds(cli_text *text, double seconds)
{
    return neap_seconds_format(seconds, text->chars, sizeof text->chars);
}

const char *cli_percent(cli_text *text, double share)
{
    return cli_format(text, "%+.2f%%", share * 100);
}
