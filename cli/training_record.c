#include "training_record.h"

#include "memory.h"
#include "output.h"

static void thin_out(cli_training_record *record)
{
    for (size_t i = 0; 2 * i < record->count; i++) {
        record->steps[i] = record->steps[2 * i];
        record->losses[i] = record->losses[2 * i];
        record->seconds[i] = record->seconds[2 * i];
    }
    record->count = (record->count + 1) / 2;
    record->stride *= 2;
}

int cli_training_record_add(cli_training_record *record, int64_t step, double loss, double seconds)
{
    if (!record->steps) {
        record->stride = 1;
        record->steps = cli_memory_new(CLI_MOST_RECORDED, sizeof *record->steps);
        record->losses = cli_memory_new(CLI_MOST_RECORDED, sizeof *record->losses);
        record->seconds = cli_memory_new(CLI_MOST_RECORDED, sizeof *record->seconds);
        if (!record->steps || !record->losses || !record->seconds)
            return cli_fail_memory();
    }
    if (record->count == CLI_MOST_RECORDED)
        thin_out(record);
    if (record->seen++ % record->stride != 0)
        return CLI_OK;
    record->steps[record->count] = step;
    record->losses[record->count] = loss;
    record->seconds[record->count++] = seconds;
    return CLI_OK;
}

void cli_training_record_clear(cli_training_record *record)
{
    cli_memory_release(record->steps, CLI_MOST_RECORDED, sizeof *record->steps);
    cli_memory_release(record->losses, CLI_MOST_RECORDED, sizeof *record->losses);
    cli_memory_release(record->seconds, CLI_MOST_RECORDED, sizeof *record->seconds);
    *record = (cli_training_record){0};
}
