/*
 * The fuzz targets over their corpora, without a fuzzer: every input as it is, every truncation of
 * the short ones, and random damage. tests/fuzz/corpus/<target>.pack holds hand-made inputs by name
 * and, as found-*, what libFuzzer found worth keeping; tools/fuzz_corpus.py has the format.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"
#include "run_command.h"
#include "settings.h"

/* The targets' own assertions name the input first: see run_input. */
static void fail_input(const char *file, int line, const char *condition);
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_input(__FILE__, __LINE__, #condition);                                            \
    } while (0)

#define LLVMFuzzerTestOneInput fuzz_graph
#include "fuzz_graph.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_plan
#include "fuzz_plan.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_devices
#include "fuzz_devices.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_picture
#include "fuzz_picture.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_profile
#include "fuzz_profile.c"
#undef LLVMFuzzerTestOneInput

#define LLVMFuzzerTestOneInput fuzz_onnx
#include "fuzz_onnx.c"
#undef LLVMFuzzerTestOneInput

typedef int target(const uint8_t *data, size_t size);

/* ---- Running one input ---- */

static struct {
    const char *name;
    const char *how; /* it was damaged */
    const uint8_t *data;
    size_t size;
} input;

static void fail_input(const char *file, int line, const char *condition)
{
    print_error("%s, %s: %zu bytes\n", input.name, input.how, input.size);
    for (size_t i = 0; i < input.size; i++) {
        uint8_t c = input.data[i];
        if (c >= 0x20 && c < 0x7f)
            print_error("%c", c);
        else
            print_error("\\x%02x", c);
    }
    fail_msg("\n%s:%d: %s", file, line, condition);
}

/* In a block of its own that ends where the input does. */
static void run_input(target *run, const char *name, const char *how, const uint8_t *data,
                      size_t size)
{
    uint8_t *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    memcpy(copy, data, size);
    input.name = name;
    input.how = how;
    input.data = copy;
    input.size = size;
    run(copy, size);
    free(copy);
}

/* ---- Damage ---- */

static const char *const words[] = {
    "null",       "-1",        "0",  "1e999", "9223372036854775807",
    "4294967295", "\"\"",      "{}", "[",     "]",
    "}",          ",",         ":",  "\"",    "\\u0000",
    "\\ud800",    "\xff",      "\n", "true",  "1.5",
    "[[",         "\"neap\":",
};

/* One to three changes; returns the new size, at most size + 60. */
static size_t damage(random_source *random, uint8_t *data, size_t size)
{
    for (uint32_t changes = 1 + random_below(random, 3); changes > 0 && size > 0; changes--) {
        size_t at = random_below(random, (uint32_t)size);
        size_t other = random_below(random, (uint32_t)size), length;
        const char *word;
        switch (random_below(random, 6)) {
        case 0: /* a bit */
            data[at] ^= (uint8_t)(1u << random_below(random, 8));
            break;
        case 1: /* a byte */
            data[at] = (uint8_t)random_below(random, 256);
            break;
        case 2: /* a digit, where one stands nearby */
            while (other < size && (data[other] < '0' || data[other] > '9'))
                other++;
            if (other < size)
                data[other] = (uint8_t)('0' + random_below(random, 10));
            break;
        case 3: /* a piece dropped */
            length = 1 + random_below(random, 10);
            length = length < size - at ? length : size - at;
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
            break;
        case 4: /* a word put in */
            word = words[random_below(random, sizeof words / sizeof *words)];
            length = strlen(word);
            memmove(data + at + length, data + at, size - at);
            memcpy(data + at, word, length);
            size += length;
            break;
        default: /* two bytes exchanged */
            length = data[at];
            data[at] = data[other];
            data[other] = (uint8_t)length;
        }
    }
    return size;
}

/* ---- The corpora ---- */

/* An input as it is, cut off and damaged. */
static void replay_input(target *run, const char *name, const uint8_t *data, size_t size,
                         random_source *random, uint32_t damaged)
{
    uint8_t *changed = malloc(size + 256);
    assert_non_null(changed);
    run_input(run, name, "as it is", data, size);
    for (size_t cut = 0; cut < size; cut += 1 + size / 64)
        run_input(run, name, "cut off", data, cut);
    for (uint32_t i = 0; i < damaged / ONE_IN(4); i++) {
        memcpy(changed, data, size);
        size_t new_size = damage(random, changed, size);
        run_input(run, name, "damaged", changed, new_size);
    }
    free(changed);
}

static void replay(const char *pack, target *run, uint32_t damaged)
{
    random_source random = {20240609};
    char *path = join_path(NEAP_SOURCE_DIR "/tests/fuzz/corpus", pack);
    FILE *file = fopen(path, "rb");
    char name[64];
    size_t size;
    int inputs = 0;
    print_message("seed %llu\n", (unsigned long long)random.state);
    if (!file)
        fail_msg("%s cannot be read", path);
    while (fscanf(file, "%zu %63s", &size, name) == 2) {
        uint8_t *data = malloc(size + 1);
        assert_true(data && getc(file) == '\n');
        assert_int_equal(fread(data, 1, size, file), size);
        assert_int_equal(getc(file), '\n');
        replay_input(run, name, data, size, &random, damaged);
        free(data);
        inputs++;
    }
    assert_true(feof(file));
    fclose(file);
    print_message("%d inputs of %s\n", inputs, path);
    free(path);
    assert_true(inputs > 20);
}

static void test_graph(void **state)
{
    (void)state;
    replay("graph.pack", fuzz_graph, 100);
}

static void test_plan(void **state)
{
    (void)state;
    replay("plan.pack", fuzz_plan, 100);
}

static void test_devices(void **state)
{
    (void)state;
    replay("devices.pack", fuzz_devices, 30);
}

static void test_safetensors(void **state)
{
    (void)state;
    replay("safetensors.pack", fuzz_safetensors, 100);
}

static void test_picture(void **state)
{
    (void)state;
    replay("picture.pack", fuzz_picture, 200);
}

static void test_profile(void **state)
{
    (void)state;
    replay("profile.pack", fuzz_profile, 30);
}

static void test_onnx(void **state)
{
    (void)state;
    replay("onnx.pack", fuzz_onnx, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph),   cmocka_unit_test(test_plan),
        cmocka_unit_test(test_devices), cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_picture), cmocka_unit_test(test_profile),
        cmocka_unit_test(test_onnx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
