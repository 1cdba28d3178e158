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

neap_axis neap_axis_around(double least, double most, int wanted)
{
    neap_axis a = {.step = neap_round_up((most - least) / wanted)};
    double first = floor(least / a.step.step + 1e-9), last = ceil(most / a.step.step - 1e-9);
    a.first = a.first_tick = first * a.step.step;
    a.last = last * a.step.step;
    a.n_steps = (int)(last - first);
    return a;
}

neap_axis neap_axis_within(double least, double most, int wanted)
{
    neap_axis a = {.first = least, .last = most, .step = neap_round_up((most - least) / wanted)};
    double first = ceil(least / a.step.step - 1e-9), last = floor(most / a.step.step + 1e-9);
    a.first_tick = first * a.step.step;
    a.n_steps = (int)(last - first);
    return a;
}

double neap_axis_tick(const neap_axis *axis, int tick)
{
    return axis->first_tick + axis->step.step * tick;
}

neap_byte_unit neap_byte_unit_for(double most)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    neap_byte_unit unit = {names[0], 1};
    for (size_t i = 1; i < sizeof names / sizeof *names && most >= 2 * 1024 * unit.bytes; i++)
        unit = (neap_byte_unit){names[i], unit.bytes * 1024};
    return unit;
}

neap_time_unit neap_time_unit_for(double most)
{
    static const neap_time_unit units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    size_t u = 0;
    while (u < 3 && most < units[u].seconds)
        u++;
    return units[u];
}
