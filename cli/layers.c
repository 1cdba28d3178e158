#include "layers.h"

void cli_layers_rank(const neap_layers *layers, const int64_t *amounts, cli_top_layers *top)
{
    *top = (cli_top_layers){0};
    for (uint32_t l = 0; l < neap_layers_count(layers); l++) {
        uint32_t place = top->count;
        while (place > 0 && top->items[place - 1].amount < amounts[l])
            place--;
        if (amounts[l] <= 0 || place == CLI_TOP_LAYERS)
            continue;
        if (top->count < CLI_TOP_LAYERS)
            top->count++;
        for (uint32_t i = top->count - 1; i > place; i--)
            top->items[i] = top->items[i - 1];
        top->items[place].layer = l;
        top->items[place].amount = amounts[l];
    }
}
