/*
 * See functions.h. First each function that the graph calls is prepared, once: its values become
 * numbers, its calls are linked, and what it comes to with all that it calls is counted. Only then
 * nodes are made, so that a file that asks for too many is refused before.
 */
#include "onnx/functions.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"

#include <neap/network.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Limits ---- */

/* A node takes some 4 KiB on its way to a training graph, and a file of a kilobyte can ask for any
   number of them; the largest networks have some 10,000. */
enum {
    MOST_NODES = 250000,     /* that calls become, with calls inside of functions */
    MOST_OPERANDS = 4000000, /* of these nodes, with their attributes */
    MOST_TEXT = 1 << 27,     /* bytes of their names, and of those of their values */
    MOST_DEPTH = 100,        /* of calls in calls: the C stack is finite */
    MOST_ATTRIBUTES = 256,   /* of a call, and of a function: references are looked up one by one */
    TEXT_EXTRA = 13          /* what a name gets besides the call's: "/", "_" and a number, NUL */
};

/* What a function comes to, with the functions that it calls. */
typedef struct amount {
    uint64_t nodes, operands;
    uint64_t names, text; /* of nodes and values; bytes of text without the name of the call */
} amount;

/* ---- Names ---- */

typedef struct name_slot {
    const char *name; /* NULL: free */
    uint32_t number;
    bool computed;   /* before the node at hand */
    bool handed_out; /* it is an input or an output of the function */
} name_slot;

typedef struct name_table {
    name_slot *slots;
    size_t n_slots;
} name_table;

/* Twice as many slots as there can be names, at least. */
static bool make_table(neap_arena *arena, size_t names, name_table *table)
{
    table->n_slots = 16;
    while (table->n_slots < 2 * names)
        table->n_slots *= 2;
    return NEAP_TAKE(arena, table->n_slots, table->slots);
}

/* The slot of a name, or the one where it belongs. */
static name_slot *slot_of(const name_table *table, const char *name)
{
    size_t slot = (size_t)neap_hash_bytes(NEAP_HASH_BEGIN, name, strlen(name));
    for (slot &= table->n_slots - 1; table->slots[slot].name;
         slot = (slot + 1) & (table->n_slots - 1))
        if (strcmp(table->slots[slot].name, name) == 0)
            break;
    return &table->slots[slot];
}

/* ---- Functions ---- */

typedef enum body_state { BODY_UNSEEN, BODY_OPEN, BODY_READY } body_state;

typedef struct body body;
struct body {
    const onnx_function *function;
    body_state state;
    const onnx_proto_node *caller; /* the node of the graph that leads to it first */
    uint32_t level;                /* of calls to it, on that way */
    uint32_t depth;                /* of calls in it, with its own */
    uint32_t n_names;
    const char **names; /* of its values, by their numbers */
    uint32_t *operands; /* numbers of its inputs and outputs, then of each node's inputs and
                           outputs; NEAP_NONE where one has no name */
    struct body_node {
        body *callee; /* NULL: it calls nothing */
        bool refers;  /* attributes of it are the function's */
    } * nodes;
    amount total;
};

typedef struct inliner {
    neap_allocator *allocator;
    neap_arena *arena;  /* of what stays */
    neap_arena scratch; /* of what goes in the end */
    const char *source;
    neap_diag *diag;
    const onnx_proto *proto;
    body *bodies; /* by domain, name and overload */
    size_t n_bodies;
    name_table values; /* all of them; `number` is that of the last value with this name before
                          its number */
    onnx_proto_node *nodes;
    size_t n_nodes;
} inliner;

static neap_status fail(const inliner *in, neap_status status, const body *parent,
                        const onnx_proto_node *node, const char *format, ...) NEAP_PRINTF(5, 6);

/* Of an op type or a function, for "%s%s%s". */
#define ONNX_NAME(domain, name) (domain), *(domain) ? "." : "", (name)

/* About a node of the function `parent`; NULL: of the graph, or a copy that has been made. */
static neap_status fail(const inliner *in, neap_status status, const body *parent,
                        const onnx_proto_node *node, const char *format, ...)
{
    char message[NEAP_DIAG_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (!parent && !node->call)
        return neap_fail(in->diag, status, "%s: node \"%s\" (%s%s%s): %s", in->source, node->name,
                         ONNX_NAME(node->domain, node->type), message);
    const char *domain = parent ? parent->function->domain : node->call->domain;
    const char *name = parent ? parent->function->name : node->call->type;
    return neap_fail(in->diag, status,
                     "%s: node \"%s\" (%s%s%s) of the function %s%s%s, which node \"%s\" calls: %s",
                     in->source, node->name, ONNX_NAME(node->domain, node->type),
                     ONNX_NAME(domain, name), (parent ? parent->caller : node->call)->name,
                     message);
}

static int compare(const char *const a[3], const char *const b[3])
{
    int order = strcmp(a[0], b[0]);
    if (order == 0)
        order = strcmp(a[1], b[1]);
    return order != 0 ? order : strcmp(a[2], b[2]);
}

static int by_key(const void *a, const void *b)
{
    const onnx_function *f = ((const body *)a)->function, *g = ((const body *)b)->function;
    const char *const left[] = {f->domain, f->name, f->overload};
    const char *const right[] = {g->domain, g->name, g->overload};
    return compare(left, right);
}

static int against_node(const void *key, const void *item)
{
    const onnx_proto_node *node = key;
    const onnx_function *f = ((const body *)item)->function;
    const char *const left[] = {node->domain, node->type, node->overload};
    const char *const right[] = {f->domain, f->name, f->overload};
    return compare(left, right);
}

/* The function that a node calls, or NULL. */
static body *find_body(const inliner *in, const onnx_proto_node *node)
{
    return bsearch(node, in->bodies, in->n_bodies, sizeof *in->bodies, against_node);
}

static neap_status list_functions(inliner *in)
{
    const onnx_proto *proto = in->proto;
    in->n_bodies = proto->n_functions;
    if (!NEAP_TAKE(&in->scratch, in->n_bodies, in->bodies))
        return neap_fail_no_memory(in->diag);
    for (size_t i = 0; i < in->n_bodies; i++)
        in->bodies[i].function = &proto->functions[i];
    qsort(in->bodies, in->n_bodies, sizeof *in->bodies, by_key);
    for (size_t i = 1; i < in->n_bodies; i++) {
        const onnx_function *f = in->bodies[i].function;
        if (by_key(&in->bodies[i - 1], &in->bodies[i]) == 0)
            return neap_fail(in->diag, NEAP_INVALID, "%s: two functions are named \"%s%s%s\"",
                             in->source, ONNX_NAME(f->domain, f->name));
    }
    return NEAP_OK;
}

/* ---- Counting ---- */

static bool is_too_much(const amount *total)
{
    return total->nodes > MOST_NODES || total->operands > MOST_OPERANDS || total->text > MOST_TEXT;
}

/* A call of this name. No sum overflows: what is too much ends the count, and all else is a part
   of the file. */
static void add_call(amount *total, const onnx_proto_node *node, const amount *callee)
{
    total->nodes += callee->nodes;
    total->operands += callee->operands;
    total->names += callee->names;
    total->text += callee->text + callee->names * (strlen(node->name) + 1);
}

static bool refers(const onnx_proto_node *node)
{
    for (size_t i = 0; i < node->n_attributes; i++)
        if (node->attributes[i].ref)
            return true;
    return false;
}

/* The function without what it calls, before its values have numbers. */
static amount count_own(const onnx_function *f)
{
    amount own = {.nodes = f->n_nodes, .operands = f->n_inputs + f->n_outputs};
    for (size_t i = 0; i < f->n_nodes; i++) {
        const onnx_proto_node *node = &f->nodes[i];
        own.operands += node->n_inputs + node->n_outputs + (refers(node) ? node->n_attributes : 0);
        own.names++;
        own.text += strlen(node->name) + TEXT_EXTRA;
    }
    return own;
}

static neap_status fail_amount(const inliner *in, const body *parent, const onnx_proto_node *node)
{
    return fail(in, NEAP_UNSUPPORTED, parent, node,
                "inlined, the functions of the file come to more than neap takes: %d nodes, %d "
                "operands and attributes, %d bytes of names",
                MOST_NODES, MOST_OPERANDS, MOST_TEXT);
}

/* ---- Preparing ---- */

/* Numbers a name. */
static uint32_t number_name(body *b, const name_table *table, const char *name)
{
    if (!*name)
        return NEAP_NONE;
    name_slot *slot = slot_of(table, name);
    if (!slot->name) {
        *slot = (name_slot){.name = name, .number = b->n_names};
        b->names[b->n_names++] = name;
        b->total.text += strlen(name) + TEXT_EXTRA;
    }
    return slot->number;
}

/* Numbers a name that is computed here. False if it has been computed before. */
static bool compute_name(body *b, const name_table *table, const char *name, uint32_t *number)
{
    *number = number_name(b, table, name);
    if (*number == NEAP_NONE)
        return true;
    name_slot *slot = slot_of(table, name);
    bool first = !slot->computed;
    slot->computed = true;
    return first;
}

static neap_status number_node(const inliner *in, body *b, const name_table *table,
                               const onnx_proto_node *node, uint32_t *numbers)
{
    for (size_t i = 0; i < node->n_inputs; i++) {
        *numbers++ = number_name(b, table, node->inputs[i]);
        if (*node->inputs[i] && !slot_of(table, node->inputs[i])->computed)
            return fail(in, NEAP_INVALID, b, node,
                        "it reads \"%s\", which is no input of the function, nor computed by a "
                        "node before",
                        node->inputs[i]);
    }
    for (size_t i = 0; i < node->n_outputs; i++)
        if (!compute_name(b, table, node->outputs[i], numbers++))
            return fail(in, NEAP_INVALID, b, node, "two values of the function are named \"%s\"",
                        node->outputs[i]);
    return NEAP_OK;
}

/* From names to numbers; what is wrong is said about the call, or about the node inside. */
static neap_status number_values(inliner *in, body *b, const body *parent,
                                 const onnx_proto_node *call)
{
    const onnx_function *f = b->function;
    size_t operands = (size_t)b->total.operands, n = f->n_inputs + f->n_outputs;
    name_table table;
    if (!make_table(&in->scratch, operands, &table) ||
        !NEAP_TAKE(&in->scratch, operands, b->names) ||
        !NEAP_TAKE(&in->scratch, operands, b->operands))
        return neap_fail_no_memory(in->diag);
    for (size_t i = 0; i < f->n_inputs; i++) {
        if (!compute_name(b, &table, f->inputs[i], &b->operands[i]))
            return fail(in, NEAP_INVALID, parent, call,
                        "two inputs of the function are named \"%s\"", f->inputs[i]);
        slot_of(&table, f->inputs[i])->handed_out = true;
    }
    for (size_t i = 0; i < f->n_nodes; i++) {
        NEAP_TRY(number_node(in, b, &table, &f->nodes[i], b->operands + n));
        n += f->nodes[i].n_inputs + f->nodes[i].n_outputs;
    }
    for (size_t i = 0; i < f->n_outputs; i++) {
        name_slot *slot = slot_of(&table, f->outputs[i]);
        if (!*f->outputs[i] || !slot->name || !slot->computed)
            return fail(in, NEAP_INVALID, parent, call,
                        "the function computes no value for its output \"%s\"", f->outputs[i]);
        b->operands[f->n_inputs + i] = slot->number;
        /* a value that is an output already, or an input, is copied */
        b->total.nodes += slot->handed_out;
        b->total.operands += slot->handed_out ? 2 : 0;
        slot->handed_out = true;
    }
    b->total.names += b->n_names;
    return NEAP_OK;
}

static neap_status link_call(inliner *in, body *callee, const body *parent,
                             const onnx_proto_node *call);

/* What nodes mean depends on the opset; those of other functions have their own. */
static neap_status check_opset(const inliner *in, const body *b, const body *parent,
                               const onnx_proto_node *call)
{
    const onnx_function *f = b->function;
    bool uses = false;
    for (size_t i = 0; i < f->n_nodes && !uses; i++)
        uses = !*f->nodes[i].domain && !find_body(in, &f->nodes[i]);
    if (!uses || f->opset == in->proto->opset)
        return NEAP_OK;
    if (f->opset == 0)
        return fail(in, NEAP_INVALID, parent, call, "the function imports no opset of its nodes");
    return fail(in, NEAP_UNSUPPORTED, parent, call,
                "the function is of opset %lld, the model of opset %lld; export it again with one "
                "opset",
                (long long)f->opset, (long long)in->proto->opset);
}

static neap_status prepare(inliner *in, body *b, const body *parent, const onnx_proto_node *call)
{
    const onnx_function *f = b->function;
    b->state = BODY_OPEN;
    b->caller = parent ? parent->caller : call;
    b->level = parent ? parent->level + 1 : 1;
    b->depth = 1;
    if (b->level > MOST_DEPTH)
        return fail(in, NEAP_UNSUPPORTED, parent, call, "calls are nested more than %d deep",
                    MOST_DEPTH);
    if (f->n_defaults > MOST_ATTRIBUTES)
        return fail(in, NEAP_UNSUPPORTED, parent, call,
                    "the function has %zu attributes with defaults; neap takes up to %d",
                    f->n_defaults, MOST_ATTRIBUTES);
    NEAP_TRY(check_opset(in, b, parent, call));
    b->total = count_own(f);
    if (is_too_much(&b->total))
        return fail_amount(in, parent, call);
    NEAP_TRY(number_values(in, b, parent, call));
    if (!NEAP_TAKE(&in->scratch, f->n_nodes, b->nodes))
        return neap_fail_no_memory(in->diag);
    for (size_t i = 0; i < f->n_nodes; i++) {
        body *callee = find_body(in, &f->nodes[i]);
        b->nodes[i] = (struct body_node){callee, refers(&f->nodes[i])};
        if (!callee)
            continue;
        NEAP_TRY(link_call(in, callee, b, &f->nodes[i]));
        b->depth = callee->depth >= b->depth ? callee->depth + 1 : b->depth;
        add_call(&b->total, &f->nodes[i], &callee->total);
        if (is_too_much(&b->total))
            return fail_amount(in, b, &f->nodes[i]);
    }
    if (b->depth > MOST_DEPTH)
        return fail(in, NEAP_UNSUPPORTED, parent, call, "calls are nested more than %d deep",
                    MOST_DEPTH);
    b->state = BODY_READY;
    return NEAP_OK;
}

/* Checks a call, and prepares its function. */
static neap_status link_call(inliner *in, body *callee, const body *parent,
                             const onnx_proto_node *call)
{
    const onnx_function *f = callee->function;
    if (call->n_inputs > f->n_inputs)
        return fail(in, NEAP_INVALID, parent, call, "it has %zu inputs, its function %zu",
                    call->n_inputs, f->n_inputs);
    if (call->n_outputs > f->n_outputs)
        return fail(in, NEAP_INVALID, parent, call, "it has %zu outputs, its function %zu",
                    call->n_outputs, f->n_outputs);
    if (call->n_attributes > MOST_ATTRIBUTES)
        return fail(in, NEAP_UNSUPPORTED, parent, call,
                    "it has %zu attributes; neap takes calls of up to %d", call->n_attributes,
                    MOST_ATTRIBUTES);
    if (callee->state == BODY_OPEN)
        return fail(in, NEAP_INVALID, parent, call,
                    "the function calls itself, directly or through others");
    return callee->state == BODY_READY ? NEAP_OK : prepare(in, callee, parent, call);
}

/* ---- Inlining ---- */

/* "prefix/name" with `number` behind it, unless that is 0. */
static const char *join(const inliner *in, const char *prefix, const char *name, uint32_t number)
{
    char suffix[16] = "";
    if (number > 0)
        snprintf(suffix, sizeof suffix, "_%u", number);
    size_t before = strlen(prefix), length = strlen(name), after = strlen(suffix);
    char *text = neap_arena_alloc(in->arena, before + length + after + 2, 1);
    if (!text)
        return NULL;
    memcpy(text, prefix, before);
    text[before] = '/';
    memcpy(text + before + 1, name, length);
    memcpy(text + before + 1 + length, suffix, after);
    return text;
}

/* A name that no value has. Two calls of one name number theirs; the table remembers how far. */
static const char *name_value(inliner *in, const char *prefix, const char *name)
{
    const char *text = join(in, prefix, name, 0);
    name_slot *first = text ? slot_of(&in->values, text) : NULL, *slot = first;
    while (slot && slot->name) {
        text = join(in, prefix, name, ++first->number + 1);
        slot = text ? slot_of(&in->values, text) : NULL;
    }
    if (slot)
        slot->name = text;
    return text;
}

/* The attributes of a node in a function, those that refer to others with their values. */
static bool resolve(const inliner *in, const onnx_proto_node *call, const onnx_function *f,
                    const onnx_proto_node *node, onnx_proto_node *made)
{
    onnx_attribute *attributes;
    size_t count = 0;
    if (!NEAP_TAKE(in->arena, node->n_attributes, attributes))
        return false;
    for (size_t i = 0; i < node->n_attributes; i++) {
        const onnx_attribute *from = &node->attributes[i], *found = from->ref ? NULL : from;
        for (size_t c = 0; c < call->n_attributes && !found; c++)
            if (strcmp(call->attributes[c].name, from->ref) == 0)
                found = &call->attributes[c];
        for (size_t d = 0; d < f->n_defaults && !found; d++)
            if (strcmp(f->defaults[d].name, from->ref) == 0)
                found = &f->defaults[d];
        if (!found)
            continue;
        attributes[count] = *found;
        attributes[count].name = from->name;
        attributes[count++].ref = NULL;
    }
    made->attributes = attributes;
    made->n_attributes = count;
    return true;
}

/* Names of operands; those that the call does not give are new. */
static const char *const *bind(inliner *in, const char *prefix, const body *b, const char **bound,
                               const uint32_t *numbers, size_t count)
{
    const char **names;
    if (!NEAP_TAKE(in->arena, count, names))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = numbers[i];
        if (number != NEAP_NONE && !bound[number])
            bound[number] = name_value(in, prefix, b->names[number]);
        names[i] = number == NEAP_NONE ? "" : bound[number];
        if (!names[i])
            return NULL;
    }
    return names;
}

/* Outputs that are inputs of the function, and values that are two outputs, are copied. */
static neap_status copy_outputs(inliner *in, const body *b, const onnx_proto_node *call,
                                const char *const *bound)
{
    for (size_t i = 0; i < call->n_outputs; i++) {
        const char **names, *from = bound[b->operands[b->function->n_inputs + i]];
        if (!*call->outputs[i] || from == call->outputs[i])
            continue;
        if (!*from)
            return fail(in, NEAP_INVALID, NULL, call,
                        "its output \"%s\" is an input of the function that it leaves out",
                        call->outputs[i]);
        if (!NEAP_TAKE(in->arena, 2, names))
            return neap_fail_no_memory(in->diag);
        names[0] = from;
        names[1] = call->outputs[i];
        in->nodes[in->n_nodes++] = (onnx_proto_node){.name = call->name,
                                                     .type = "Identity",
                                                     .domain = "",
                                                     .overload = "",
                                                     .inputs = names,
                                                     .outputs = names + 1,
                                                     .n_inputs = 1,
                                                     .n_outputs = 1,
                                                     .call = call};
    }
    return NEAP_OK;
}

/* The nodes of a call, which must stay where it is. `bound` are the names of the values so far. */
static neap_status inline_body(inliner *in, const body *b, const onnx_proto_node *call,
                               const char **bound);

static neap_status inline_call(inliner *in, const body *b, const onnx_proto_node *call)
{
    const onnx_function *f = b->function;
    const char **bound;
    NEAP_TRY(NEAP_NEW(in->allocator, b->n_names, &bound, in->diag));
    for (size_t i = 0; i < f->n_inputs; i++)
        if (b->operands[i] != NEAP_NONE)
            bound[b->operands[i]] = i < call->n_inputs ? call->inputs[i] : "";
    for (size_t i = 0; i < call->n_outputs; i++) {
        uint32_t number = b->operands[f->n_inputs + i];
        if (*call->outputs[i] && !bound[number])
            bound[number] = call->outputs[i];
    }
    neap_status status = inline_body(in, b, call, bound);
    if (status == NEAP_OK)
        status = copy_outputs(in, b, call, bound);
    NEAP_DELETE(in->allocator, b->n_names, bound);
    return status;
}

static neap_status inline_body(inliner *in, const body *b, const onnx_proto_node *call,
                               const char **bound)
{
    const onnx_function *f = b->function;
    const uint32_t *numbers = b->operands + f->n_inputs + f->n_outputs;
    for (size_t i = 0; i < f->n_nodes; i++) {
        const onnx_proto_node *node = &f->nodes[i];
        onnx_proto_node made = *node, *kept;
        made.call = call;
        made.name = join(in, call->name, node->name, 0);
        made.inputs = bind(in, call->name, b, bound, numbers, node->n_inputs);
        made.outputs = bind(in, call->name, b, bound, numbers + node->n_inputs, node->n_outputs);
        if (!made.name || !made.inputs || !made.outputs ||
            (b->nodes[i].refers && !resolve(in, call, f, node, &made)))
            return neap_fail_no_memory(in->diag);
        numbers += node->n_inputs + node->n_outputs;
        if (!b->nodes[i].callee) {
            in->nodes[in->n_nodes++] = made;
            continue;
        }
        kept = neap_arena_copy(in->arena, &made, 1, sizeof made);
        if (!kept)
            return neap_fail_no_memory(in->diag);
        NEAP_TRY(inline_call(in, b->nodes[i].callee, kept));
    }
    return NEAP_OK;
}

/* ---- The graph ---- */

static void add_name(const inliner *in, const char *name, bool computed)
{
    name_slot *slot = slot_of(&in->values, name);
    slot->name = name;
    slot->computed = slot->computed || computed;
}

/* All names of the graph are taken, also those that it only reads: no value of a function may
   become one by accident. */
static neap_status take_names(inliner *in, size_t inlined)
{
    const onnx_proto *proto = in->proto;
    size_t count = proto->n_initializers + proto->n_inputs + proto->n_outputs + inlined;
    for (size_t i = 0; i < proto->n_nodes; i++)
        count += proto->nodes[i].n_inputs + proto->nodes[i].n_outputs;
    if (!make_table(&in->scratch, count, &in->values))
        return neap_fail_no_memory(in->diag);
    for (size_t i = 0; i < proto->n_initializers; i++)
        add_name(in, proto->initializers[i].name, true);
    for (size_t i = 0; i < proto->n_inputs; i++)
        add_name(in, proto->inputs[i].name, true);
    for (size_t i = 0; i < proto->n_outputs; i++)
        add_name(in, proto->outputs[i].name, false);
    for (size_t n = 0; n < proto->n_nodes; n++) {
        for (size_t i = 0; i < proto->nodes[n].n_inputs; i++)
            add_name(in, proto->nodes[n].inputs[i], false);
        for (size_t i = 0; i < proto->nodes[n].n_outputs; i++)
            add_name(in, proto->nodes[n].outputs[i], false);
    }
    return NEAP_OK;
}

/* Prepares what the graph calls, and makes room for what that becomes. */
static neap_status prepare_calls(inliner *in)
{
    const onnx_proto *proto = in->proto;
    amount total = {0};
    for (size_t i = 0; i < proto->n_nodes; i++) {
        body *callee = find_body(in, &proto->nodes[i]);
        if (!callee)
            continue;
        NEAP_TRY(link_call(in, callee, NULL, &proto->nodes[i]));
        add_call(&total, &proto->nodes[i], &callee->total);
        if (is_too_much(&total))
            return fail_amount(in, NULL, &proto->nodes[i]);
    }
    if (!NEAP_TAKE(in->arena, proto->n_nodes + total.nodes, in->nodes))
        return neap_fail_no_memory(in->diag);
    return take_names(in, (size_t)total.names);
}

/* The nodes of a function read what their call does, or not: the call is checked here. */
static neap_status check_inputs(const inliner *in, const onnx_proto_node *call)
{
    for (size_t i = 0; i < call->n_inputs; i++)
        if (*call->inputs[i] && !slot_of(&in->values, call->inputs[i])->computed)
            return fail(in, NEAP_INVALID, NULL, call,
                        "it reads \"%s\", which is neither an input nor a tensor of the file nor "
                        "computed by a node before",
                        call->inputs[i]);
    return NEAP_OK;
}

static neap_status inline_graph(inliner *in)
{
    const onnx_proto *proto = in->proto;
    NEAP_TRY(list_functions(in));
    NEAP_TRY(prepare_calls(in));
    for (size_t i = 0; i < proto->n_nodes; i++) {
        const onnx_proto_node *node = &proto->nodes[i];
        const body *callee = find_body(in, node);
        if (callee) {
            NEAP_TRY(check_inputs(in, node));
            NEAP_TRY(inline_call(in, callee, node));
        } else {
            in->nodes[in->n_nodes++] = *node;
        }
        for (size_t o = 0; o < node->n_outputs; o++)
            add_name(in, node->outputs[o], true);
    }
    return NEAP_OK;
}

neap_status neap_onnx_functions_inline(neap_arena *arena, const char *source, onnx_proto *proto,
                                       neap_diag *diag)
{
    if (proto->n_functions == 0)
        return NEAP_OK;
    inliner in = {.allocator = arena->allocator,
                  .arena = arena,
                  .source = source,
                  .diag = diag,
                  .proto = proto};
    neap_arena_init(&in.scratch, arena->allocator);
    neap_status status = inline_graph(&in);
    neap_arena_clear(&in.scratch);
    if (status == NEAP_OK) {
        proto->nodes = in.nodes;
        proto->n_nodes = in.n_nodes;
    }
    return status;
}
