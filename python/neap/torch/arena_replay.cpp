/* The functions of the Python module for arenas, tables and replays; arena.py documents their use.
 * begin() is called before every unit of a step, so Python's C API is used directly. */
#include "arena_python.h"

#include <algorithm>
#include <utility>

namespace neap
{
namespace
{

const char ARENA[] = "neap.arena", TABLE[] = "neap.table";

/* ---- Arenas ---- */

/* arena_new(type, index) -> an arena without memory */
PyObject *arena_new(PyObject *, PyObject *args)
{
    const char *type;
    int index;
    if (!PyArg_ParseTuple(args, "si", &type, &index))
        return nullptr;
    return guarded([&]() -> PyObject * {
        Backend *backend = backend_of(type);
        if (!backend)
            return nullptr;
        auto arena = std::make_shared<Arena>(device_of(type, index), backend);
        {
            std::lock_guard<std::mutex> guard(state().lock);
            state().arenas.push_back(arena);
        }
        return wrap(arena, ARENA);
    });
}

/* Exchanges the memory of an arena. False if something in it is live. */
bool exchange(Arena &arena, c10::DataPtr memory, size_t bytes)
{
    c10::DataPtr old;
    std::lock_guard<std::mutex> guard(state().lock);
    if (!arena.live.empty())
        return false;
    old = std::move(arena.memory);
    auto at = reinterpret_cast<uintptr_t>(memory.get());
    arena.base = memory.get() ? reinterpret_cast<char *>(round_up(at)) : nullptr;
    arena.bytes = bytes;
    arena.memory = std::move(memory);
    return true;
}

/* arena_resize(arena, bytes) -> bool: False while tensors are in it. The old memory is given back
 * first; if the new memory cannot be had, the arena has none. */
PyObject *arena_resize(PyObject *, PyObject *args)
{
    PyObject *capsule;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "On", &capsule, &bytes))
        return nullptr;
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    return guarded([&]() -> PyObject * {
        Arena &a = **arena;
        if (!exchange(a, c10::DataPtr(), 0))
            Py_RETURN_FALSE;
        if (bytes == 0)
            Py_RETURN_TRUE;
        a.backend->trim(a.device);
        /* The CPU's allocator aligns to 64 bytes only. */
        const size_t size = round_up(static_cast<size_t>(bytes));
        const size_t spare = a.device.is_cpu() ? GRANULE : 0;
        a.stream = a.backend->stream(a.device);
        exchange(a, a.backend->allocate_native(a.device, size + spare), size);
        Py_RETURN_TRUE;
    });
}

PyObject *arena_close(PyObject *, PyObject *capsule)
{
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    c10::DataPtr memory; /* freed after the lock */
    std::lock_guard<std::mutex> guard(state().lock);
    (*arena)->closed = true; /* the last block to be freed gives the memory back */
    if ((*arena)->live.empty()) {
        memory = std::move((*arena)->memory);
        (*arena)->base = nullptr;
        (*arena)->bytes = 0;
        auto &all = state().arenas;
        for (size_t i = 0; i < all.size(); i++)
            if (all[i] == *arena) {
                all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
                break;
            }
    }
    Py_RETURN_NONE;
}

PyObject *arena_stats(PyObject *, PyObject *capsule)
{
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    Stats s;
    int64_t bytes, live_bytes, live_blocks;
    {
        std::lock_guard<std::mutex> guard(state().lock);
        s = (*arena)->stats;
        bytes = static_cast<int64_t>((*arena)->bytes);
        live_bytes = static_cast<int64_t>((*arena)->live_bytes);
        live_blocks = static_cast<int64_t>((*arena)->live.size());
    }
    const std::pair<const char *, int64_t> fields[] = {
        {"bytes", bytes},
        {"live_bytes", live_bytes},
        {"live_blocks", live_blocks},
        {"requests", s.requests},
        {"placed", s.placed},
        {"native", s.native},
        {"misses", s.misses},
        {"miss_bytes", s.miss_bytes},
        {"occupied", s.occupied},
        {"occupied_bytes", s.occupied_bytes},
        {"spilled", s.spilled},
        {"spilled_bytes", s.spilled_bytes},
        {"moved_bytes", s.moved_bytes},
        {"steps", s.steps},
        {"native_steps", s.native_steps},
        {"high_water", s.high_water},
        {"peak_live", s.peak_live},
        {"first_miss_unit", s.first_miss_unit},
        {"first_miss_bytes", s.first_miss_bytes},
    };
    PyObject *dict = PyDict_New();
    for (const auto &field : fields) {
        PyObject *number = PyLong_FromLongLong(field.second);
        if (!dict || !number || PyDict_SetItemString(dict, field.first, number) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(number);
    }
    return dict;
}

PyObject *arena_reset_stats(PyObject *, PyObject *capsule)
{
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    (*arena)->stats = Stats{};
    Py_RETURN_NONE;
}

/* arena_live(arena) -> [(offset, bytes), ...] */
PyObject *arena_live(PyObject *, PyObject *capsule)
{
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    std::vector<std::pair<size_t, size_t>> live;
    {
        std::lock_guard<std::mutex> guard(state().lock);
        for (const auto &entry : (*arena)->live)
            live.emplace_back(entry.first, entry.second.bytes);
    }
    PyObject *list = PyList_New(0);
    for (const auto &entry : live) {
        PyObject *row = Py_BuildValue("nn", (Py_ssize_t)entry.first, (Py_ssize_t)entry.second);
        if (!list || !row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* arena_step(arena) -> the number of a new step, or 0: another step is in flight. */
PyObject *arena_step(PyObject *, PyObject *capsule)
{
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    Arena &a = **arena;
    if (a.closed || (!a.ended && !a.live.empty())) {
        a.stats.native_steps++;
        return PyLong_FromLong(0);
    }
    a.ended = false;
    a.stats.steps++;
    return PyLong_FromLongLong(++a.step);
}

/* arena_adopt(arena, storages): a list of addresses of StorageImpls, as storage._cdata. */
PyObject *arena_adopt(PyObject *, PyObject *args)
{
    PyObject *capsule, *storages;
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyList_Type, &storages))
        return nullptr;
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(storages); i++) {
        void *storage = PyLong_AsVoidPtr(PyList_GET_ITEM(storages, i));
        if (!storage && PyErr_Occurred())
            return nullptr;
        if (storage)
            adopt(**arena, static_cast<c10::StorageImpl *>(storage));
    }
    Py_RETURN_NONE;
}

/* arena_evacuate(arena) -> bytes moved */
PyObject *arena_evacuate(PyObject *, PyObject *capsule)
{
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    return guarded([&] { return PyLong_FromSize_t(evacuate(**arena)); });
}

/* arena_end(arena, step): what the step has left in the arena is only in the way from now on. */
PyObject *arena_end(PyObject *, PyObject *args)
{
    PyObject *capsule;
    long long step;
    if (!PyArg_ParseTuple(args, "OL", &capsule, &step))
        return nullptr;
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    if ((*arena)->step == step)
        (*arena)->ended = true;
    Py_RETURN_NONE;
}

/* arena_pending(arena, step) -> how many tensors of the step are in the arena and not adopted */
PyObject *arena_pending(PyObject *, PyObject *args)
{
    PyObject *capsule;
    long long step;
    if (!PyArg_ParseTuple(args, "OL", &capsule, &step))
        return nullptr;
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    long pending = 0;
    for (const auto &entry : (*arena)->live)
        pending += entry.second.step == step && !entry.second.owner;
    return PyLong_FromLong(pending);
}

/* arena_owner(arena, address) -> the step that made the tensor at this address; -1: it is not in the
 * arena. */
PyObject *arena_owner(PyObject *, PyObject *args)
{
    PyObject *capsule;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "OK", &capsule, &address))
        return nullptr;
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    const Arena &a = **arena;
    const auto base = reinterpret_cast<unsigned long long>(a.base);
    auto found = address >= base ? a.live.find(address - base) : a.live.end();
    return PyLong_FromLongLong(found == a.live.end() ? -1 : found->second.step);
}

/* ---- Tables and replay ---- */

/* table_new(arena, units, least, spill): units is a sequence of sequences of (size, offset). */
PyObject *table_new(PyObject *, PyObject *args)
{
    PyObject *capsule, *units;
    Py_ssize_t least;
    int spill;
    if (!PyArg_ParseTuple(args, "OOnp", &capsule, &units, &least, &spill))
        return nullptr;
    auto *arena = unwrap<Arena>(capsule, ARENA);
    if (!arena)
        return nullptr;
    PyObject *outer = PySequence_Fast(units, "units must be a sequence");
    if (!outer)
        return nullptr;
    auto table = std::make_shared<Table>();
    table->arena = *arena;
    table->least = static_cast<size_t>(std::max<Py_ssize_t>(least, 0));
    table->spill = spill != 0;
    for (Py_ssize_t u = 0; u < PySequence_Fast_GET_SIZE(outer); u++) {
        table->first.push_back(table->slots.size());
        PyObject *unit = PySequence_Fast(PySequence_Fast_GET_ITEM(outer, u), "a unit is a list");
        for (Py_ssize_t i = 0; unit && i < PySequence_Fast_GET_SIZE(unit); i++) {
            long long size, offset;
            if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(unit, i), "LL", &size, &offset)) {
                Py_CLEAR(unit);
                break;
            }
            const size_t rounded = round_up(static_cast<size_t>(size));
            table->slots.push_back({rounded, offset});
            if (offset >= 0)
                table->bytes = std::max(table->bytes, static_cast<size_t>(offset) + rounded);
        }
        if (!unit) {
            Py_DECREF(outer);
            return nullptr;
        }
        Py_DECREF(unit);
    }
    Py_DECREF(outer);
    table->first.push_back(table->slots.size());
    return wrap(table, TABLE);
}

PyObject *table_bytes(PyObject *, PyObject *capsule)
{
    auto *table = unwrap<Table>(capsule, TABLE);
    return table ? PyLong_FromSize_t((*table)->bytes) : nullptr;
}

/* start(table, step, shift) -> bool: whether the pass is replayed. Every start needs a stop. The unit
 * that begin() counts, plus `shift`, is that of the table. */
PyObject *start(PyObject *, PyObject *args)
{
    PyObject *capsule;
    long long step, shift;
    if (!PyArg_ParseTuple(args, "OLL", &capsule, &step, &shift))
        return nullptr;
    auto *table = unwrap<Table>(capsule, TABLE);
    if (!table)
        return nullptr;
    return guarded([&]() -> PyObject * {
        Arena &arena = *(*table)->arena;
        Thread &self = thread();
        auto replay = std::make_unique<Replay>(arena.device, arena.backend->stream(arena.device));
        {
            std::lock_guard<std::mutex> guard(state().lock);
            const bool owns = step != 0 && step == arena.step;
            const bool fits = arena.base && arena.bytes >= (*table)->bytes;
            if (owns && fits && arena.backend->ready()) {
                if (arena.stream != replay->stream)
                    arena.backend->join(arena.device, arena.stream, replay->stream);
                arena.stream = replay->stream;
                replay->table = *table;
                replay->shift = shift;
            }
        }
        const bool replayed = replay->table != nullptr;
        replay->outer = std::move(self.replay);
        self.replay = std::move(replay);
        return PyBool_FromLong(replayed);
    });
}

/* pause(): allocations of this thread are native until stop(). */
PyObject *pause(PyObject *, PyObject *)
{
    Thread &self = thread();
    auto replay = std::make_unique<Replay>(c10::Device(c10::DeviceType::CPU), nullptr);
    replay->outer = std::move(self.replay);
    self.replay = std::move(replay);
    Py_RETURN_NONE;
}

PyObject *stop(PyObject *, PyObject *)
{
    Thread &self = thread();
    if (self.replay)
        self.replay = std::unique_ptr<Replay>(std::move(self.replay->outer));
    Py_RETURN_NONE;
}

/* count_from(unit): begin() on this thread adds it to the number of the unit. Returns what it added
 * before. */
PyObject *count_from(PyObject *, PyObject *number)
{
    const Py_ssize_t unit = PyLong_AsSsize_t(number);
    if (unit == -1 && PyErr_Occurred())
        return nullptr;
    return PyLong_FromLongLong(std::exchange(thread().first_unit, unit));
}

/* begin(unit): the allocations up to the next begin() are those of this unit. */
PyObject *begin(PyObject *, PyObject *number)
{
    const Py_ssize_t given = PyLong_AsSsize_t(number);
    if (given == -1 && PyErr_Occurred())
        return nullptr;
    Thread &self = thread();
    const Py_ssize_t unit = given + self.first_unit;
    self.unit = unit;
    Replay *replay = self.replay.get();
    if (!replay || !replay->table)
        Py_RETURN_NONE;
    const auto &first = replay->table->first;
    const int64_t row = unit + replay->shift;
    const bool known = row >= 0 && static_cast<size_t>(row) + 1 < first.size();
    if (!known && !replay->table->spill) {
        PyErr_Format(PyExc_IndexError, "unit %zd of %zu", unit, first.size() - 1);
        return nullptr;
    }
    replay->unit = row;
    replay->begin = known ? first[static_cast<size_t>(row)] : 0;
    replay->end = known ? first[static_cast<size_t>(row) + 1] : 0;
    replay->used.assign(replay->end - replay->begin, false);
    if (known && replay->table->spill) {
        std::lock_guard<std::mutex> guard(state().lock);
        replay->table->next = replay->begin;
    }
    Py_RETURN_NONE;
}

} // namespace

PyMethodDef REPLAY_METHODS[] = {
    {"arena_new", arena_new, METH_VARARGS, nullptr},
    {"arena_resize", arena_resize, METH_VARARGS, nullptr},
    {"arena_close", arena_close, METH_O, nullptr},
    {"arena_stats", arena_stats, METH_O, nullptr},
    {"arena_reset_stats", arena_reset_stats, METH_O, nullptr},
    {"arena_live", arena_live, METH_O, nullptr},
    {"arena_step", arena_step, METH_O, nullptr},
    {"arena_adopt", arena_adopt, METH_VARARGS, nullptr},
    {"arena_evacuate", arena_evacuate, METH_O, nullptr},
    {"arena_end", arena_end, METH_VARARGS, nullptr},
    {"arena_pending", arena_pending, METH_VARARGS, nullptr},
    {"arena_owner", arena_owner, METH_VARARGS, nullptr},
    {"table_new", table_new, METH_VARARGS, nullptr},
    {"table_bytes", table_bytes, METH_O, nullptr},
    {"start", start, METH_VARARGS, nullptr},
    {"pause", pause, METH_NOARGS, nullptr},
    {"stop", stop, METH_NOARGS, nullptr},
    {"count_from", count_from, METH_O, nullptr},
    {"begin", begin, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace neap
