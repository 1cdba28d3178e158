/*
 * arena_python.h - what the two files of the Python module share.
 *
 * No Python object that the garbage collector knows is made while the lock is held: a collection
 * may free tensors, which takes the lock.
 */
#ifndef NEAP_TORCH_ARENA_PYTHON_H
#define NEAP_TORCH_ARENA_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "arena.h"

#include <exception>
#include <string>

namespace neap
{

/* ---- Handles: capsules that own a shared pointer ---- */

template <class T> PyObject *wrap(std::shared_ptr<T> object, const char *name)
{
    auto *held = new std::shared_ptr<T>(std::move(object));
    return PyCapsule_New(held, name, [](PyObject *capsule) {
        delete static_cast<std::shared_ptr<T> *>(
            PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    });
}

template <class T> std::shared_ptr<T> *unwrap(PyObject *capsule, const char *name)
{
    return static_cast<std::shared_ptr<T> *>(PyCapsule_GetPointer(capsule, name));
}

/* C++ exceptions, out of memory above all, become Python's. */
template <class F> PyObject *guarded(F &&body)
{
    try {
        return body();
    } catch (const std::exception &error) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

inline Backend *backend_of(const std::string &type)
{
    Backend *backend = type == "cpu" ? cpu_backend() : type == "cuda" ? cuda_backend() : nullptr;
    if (!backend)
        PyErr_Format(PyExc_ValueError, "no allocator hook for %s", type.c_str());
    return backend;
}

/* The CPU has no index. */
inline c10::Device device_of(const char *type, int index)
{
    if (std::string(type) == "cpu")
        return c10::Device(c10::DeviceType::CPU);
    return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
}

/* The functions for arenas, tables and replays, in arena_replay.cpp; ends with a null entry. */
extern PyMethodDef REPLAY_METHODS[];

} // namespace neap
#endif
