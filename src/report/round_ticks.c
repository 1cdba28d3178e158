#include "report/round_ticks.h"

#include <math.h>
#include <stddef.h>

neap_round neap_round_up(double least)
{
    static const struct {
        double factor;
        int decimals;
    } rounds[] = {{1, 0}, {2, 0}, {2.5, 1}, {5, 0}, {10, -1}};
    int exponent = (int)floor(log10(least));
    double power = pow(10, exponent);
    size_t i = 0;
    while (i < 4 && rounds[i].factor * power < least * (1 - 1e-9))
        i++;
    int decimals = rounds[i].decimals - exponent;
    return (neap_round){rounds[i].factor * power, decimals > 0 ? decimals : 0};
}

neap_byte_unit neap_byte_unit_for(double most)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    neap_byte_unit unit = {names[0], 1};
    for (size_t i = 1; i < sizeof names / sizeof *names && most >= 2 * 1024 * unit.bytes; i++)
        unit = (neap_byte_unit){names[i], unit.bytes * 1024};
    return unit;
}
