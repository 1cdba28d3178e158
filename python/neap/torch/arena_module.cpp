/* The Python module of arena.h: meters, recorders, and the table of functions. arena.py documents
 * their use. */
#include "arena_python.h"

namespace
{

using namespace neap;

const char METER[] = "neap.meter", RECORDER[] = "neap.recorder";

PyObject *has_cuda(PyObject *, PyObject *)
{
#ifdef NEAP_CUDA
    Py_RETURN_TRUE;
#else
    Py_RETURN_FALSE;
#endif
}

/* ---- Meters ---- */

PyObject *meter_new(PyObject *, PyObject *args)
{
    const char *type;
    int index;
    Py_ssize_t granule;
    if (!PyArg_ParseTuple(args, "sin", &type, &index, &granule))
        return nullptr;
    return guarded([&]() -> PyObject * {
        if (!backend_of(type))
            return nullptr;
        const size_t rounding = granule < 1 ? 1 : static_cast<size_t>(granule);
        return wrap(std::make_shared<Meter>(device_of(type, index), rounding), METER);
    });
}

/* meter_run(meter, on): starts it at 0, or stops it. */
PyObject *meter_run(PyObject *, PyObject *args)
{
    PyObject *capsule;
    int on;
    if (!PyArg_ParseTuple(args, "Op", &capsule, &on))
        return nullptr;
    auto *meter = unwrap<Meter>(capsule, METER);
    if (!meter)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    auto &all = state().meters;
    for (size_t i = 0; i < all.size(); i++) {
        if (all[i] != *meter)
            continue;
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        state().watchers--;
        break;
    }
    if (on) {
        (*meter)->current = (*meter)->peak = 0;
        all.push_back(*meter);
        state().watchers++;
    }
    Py_RETURN_NONE;
}

PyObject *meter_read(PyObject *, PyObject *capsule)
{
    auto *meter = unwrap<Meter>(capsule, METER);
    if (!meter)
        return nullptr;
    long long current, peak;
    {
        std::lock_guard<std::mutex> guard(state().lock);
        current = (*meter)->current;
        peak = (*meter)->peak;
    }
    return Py_BuildValue("LL", current, peak);
}

PyObject *meter_reset_peak(PyObject *, PyObject *capsule)
{
    auto *meter = unwrap<Meter>(capsule, METER);
    if (!meter)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    (*meter)->peak = (*meter)->current;
    Py_RETURN_NONE;
}

/* Tracks every allocation of the process from now on. */
PyObject *watch(PyObject *, PyObject *args)
{
    const char *type;
    if (!PyArg_ParseTuple(args, "s", &type))
        return nullptr;
    return guarded([&]() -> PyObject * {
        if (!backend_of(type))
            return nullptr;
        state().watchers++;
        Py_RETURN_NONE;
    });
}

/* ---- Recorders ---- */

PyObject *recorder_new(PyObject *, PyObject *args)
{
    const char *type;
    int index;
    if (!PyArg_ParseTuple(args, "si", &type, &index))
        return nullptr;
    return guarded([&]() -> PyObject * {
        if (!backend_of(type))
            return nullptr;
        return wrap(std::make_shared<Recorder>(device_of(type, index)), RECORDER);
    });
}

/* recorder_attach(recorder or None): to this thread. */
PyObject *recorder_attach(PyObject *, PyObject *capsule)
{
    Thread &self = thread();
    if (capsule == Py_None) {
        self.recorder.reset();
        Py_RETURN_NONE;
    }
    auto *recorder = unwrap<Recorder>(capsule, RECORDER);
    if (!recorder)
        return nullptr;
    if (self.recorder) {
        PyErr_SetString(PyExc_RuntimeError, "this thread is already being recorded");
        return nullptr;
    }
    return guarded([&]() -> PyObject * {
        Backend *backend = (*recorder)->device.is_cpu() ? cpu_backend() : cuda_backend();
        self.recorder_stream = backend->stream((*recorder)->device);
        self.recorder = *recorder;
        self.unit = -1;
        Py_RETURN_NONE;
    });
}

/* recorder_mark(recorder, address, mark) -> bool */
PyObject *recorder_mark(PyObject *, PyObject *args)
{
    PyObject *capsule;
    unsigned long long address;
    int as;
    if (!PyArg_ParseTuple(args, "OKi", &capsule, &address, &as))
        return nullptr;
    auto *recorder = unwrap<Recorder>(capsule, RECORDER);
    if (!recorder)
        return nullptr;
    return PyBool_FromLong(mark(**recorder, reinterpret_cast<void *>(address), as));
}

/* recorder_pending(recorder) -> how many allocations marked as saved are still in use */
PyObject *recorder_pending(PyObject *, PyObject *capsule)
{
    auto *recorder = unwrap<Recorder>(capsule, RECORDER);
    if (!recorder)
        return nullptr;
    std::lock_guard<std::mutex> guard(state().lock);
    long pending = 0;
    for (const Event &event : (*recorder)->events)
        pending += event.mark == SAVED && event.died < 0;
    return PyLong_FromLong(pending);
}

/* recorder_close(recorder) -> [(unit, bytes, address, born, died, mark), ...] */
PyObject *recorder_close(PyObject *, PyObject *capsule)
{
    auto *recorder = unwrap<Recorder>(capsule, RECORDER);
    if (!recorder)
        return nullptr;
    std::vector<Event> events;
    {
        std::lock_guard<std::mutex> guard(state().lock);
        (*recorder)->open = false;
        events = (*recorder)->events;
    }
    PyObject *list = PyList_New(static_cast<Py_ssize_t>(events.size()));
    for (size_t i = 0; list && i < events.size(); i++) {
        const Event &e = events[i];
        PyObject *row = Py_BuildValue(
            "LnKLLi", static_cast<long long>(e.unit), static_cast<Py_ssize_t>(e.bytes),
            reinterpret_cast<unsigned long long>(e.address), static_cast<long long>(e.born),
            static_cast<long long>(e.died), e.mark);
        if (!row) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), row);
    }
    return list;
}

PyMethodDef METHODS[] = {
    {"has_cuda", has_cuda, METH_NOARGS, nullptr},
    {"meter_new", meter_new, METH_VARARGS, nullptr},
    {"meter_run", meter_run, METH_VARARGS, nullptr},
    {"meter_read", meter_read, METH_O, nullptr},
    {"meter_reset_peak", meter_reset_peak, METH_O, nullptr},
    {"watch", watch, METH_VARARGS, nullptr},
    {"recorder_new", recorder_new, METH_VARARGS, nullptr},
    {"recorder_attach", recorder_attach, METH_O, nullptr},
    {"recorder_mark", recorder_mark, METH_VARARGS, nullptr},
    {"recorder_pending", recorder_pending, METH_O, nullptr},
    {"recorder_close", recorder_close, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "neap_arena", nullptr, -1, METHODS, nullptr, nullptr, nullptr, nullptr};

} // namespace

extern "C" __attribute__((visibility("default"))) PyObject *PyInit_neap_arena(void)
{
    PyObject *module = PyModule_Create(&MODULE);
    if (module && PyModule_AddFunctions(module, REPLAY_METHODS) < 0)
        Py_CLEAR(module);
    return module;
}
