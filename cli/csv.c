#include "csv.h"

#include "files.h"
#include "output.h"

#include <math.h>
#include <string.h>

static void begin_cell(cli_csv *csv)
{
    if (csv->inside)
        neap_text_putc(&csv->text, ',');
    csv->inside = true;
}

void cli_csv_begin(cli_csv *csv, const char *columns)
{
    *csv = (cli_csv){0};
    neap_text_puts(&csv->text, columns);
    neap_text_putc(&csv->text, '\n');
}

void cli_csv_string(cli_csv *csv, const char *text)
{
    begin_cell(csv);
    if (!text)
        return;
    neap_text clean = {0};
    neap_text_puts(&clean, text);
    if (clean.status != NEAP_OK)
        csv->text.status = clean.status;
    else if (clean.length > 0)
        neap_string_clean(clean.text);
    neap_text_putc(&csv->text, '"');
    if (clean.length > 0 && strchr("=+-@", *clean.text))
        neap_text_putc(&csv->text, '\''); /* else spreadsheets take it for a formula */
    for (const char *c = neap_text_get(&clean); *c; c++) {
        if (*c == '"')
            neap_text_putc(&csv->text, '"');
        neap_text_putc(&csv->text, *c);
    }
    neap_text_putc(&csv->text, '"');
    neap_text_clear(&clean);
}

void cli_csv_word(cli_csv *csv, const char *word)
{
    begin_cell(csv);
    neap_text_puts(&csv->text, word ? word : "");
}

void cli_csv_integer(cli_csv *csv, int64_t number)
{
    begin_cell(csv);
    neap_text_i64(&csv->text, number);
}

void cli_csv_size(cli_csv *csv, int64_t bytes)
{
    if (bytes < 0)
        cli_csv_none(csv, 1);
    else
        cli_csv_integer(csv, bytes);
}

void cli_csv_real(cli_csv *csv, double number)
{
    begin_cell(csv);
    if (isfinite(number))
        neap_text_double(&csv->text, number);
}

void cli_csv_bool(cli_csv *csv, bool truth)
{
    cli_csv_integer(csv, truth);
}

void cli_csv_none(cli_csv *csv, int cells)
{
    while (cells-- > 0)
        begin_cell(csv);
}

void cli_csv_end_row(cli_csv *csv)
{
    neap_text_putc(&csv->text, '\n');
    csv->inside = false;
}

int cli_csv_deliver(cli_csv *csv, const char *path, neap_text *out)
{
    int code = csv->text.status != NEAP_OK
                   ? cli_fail_memory()
                   : cli_file_deliver(path, csv->text.text, csv->text.length, out);
    neap_text_clear(&csv->text);
    return code;
}
