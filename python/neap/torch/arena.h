/*
 * arena.h - allocations of PyTorch metered, recorded, and replayed at planned addresses.
 *
 * A *hook* stands in front of the allocator of a device type and forwards to it. It does three
 * things more, each only when asked:
 *
 *     meter    counts the bytes in use on a device
 *     record   notes the allocations of one thread: size, birth and death
 *     replay   answers the allocations of one thread from an arena, at the offsets of a table
 *
 * A table lists the allocations that each unit of work (an op, a compiled segment) is expected to
 * make. An allocation that is not expected, or whose place is still taken, goes to the original
 * allocator and is counted; a table may say that any free place of the arena is tried before. So a
 * wrong table costs memory; it never makes two tensors overlap.
 */
#ifndef NEAP_TORCH_ARENA_H
#define NEAP_TORCH_ARENA_H

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace neap
{

constexpr size_t GRANULE = 512; /* PyTorch rounds device allocations up to this */

inline size_t round_up(size_t bytes, size_t granule = GRANULE)
{
    return (bytes + granule - 1) / granule * granule;
}

/* What the code shared by all devices needs from one device type. Streams are 0 on the CPU. */
struct Backend {
    virtual ~Backend() = default;
    virtual c10::DataPtr allocate_native(c10::Device device, size_t bytes) = 0;
    virtual c10::DataPtr allocate_hooked(c10::Device device, size_t bytes) = 0;
    virtual void copy(c10::Device, void *to, const void *from, size_t bytes) = 0;
    virtual bool ready() = 0; /* false: other code directs allocations elsewhere */
    virtual void *stream(c10::Device device) = 0;                      /* the current one */
    virtual void join(c10::Device, void *from, void *to) noexcept = 0; /* `to` waits for `from` */
    virtual void trim(c10::Device device) = 0;                         /* give cached memory back */
};

struct Meter {
    Meter(c10::Device on, size_t rounding) : device(on), granule(rounding) {}
    c10::Device device;
    size_t granule;
    int64_t current = 0, peak = 0;
};

/* What a recorded allocation is for. A result lives in the arena until its owner frees it or the
 * next step moves it out. */
enum Mark { NO_MARK = 0, KEPT_NATIVE = 1, RESULT = 2, SAVED = 3 };

struct Event {
    int64_t unit;
    size_t bytes;
    void *address;
    int64_t born, died; /* in ticks of the recorder; died is -1 while the memory is in use */
    int mark;           /* what the caller said that it is: see Mark */
};

struct Recorder {
    explicit Recorder(c10::Device on) : device(on) {}
    c10::Device device;
    int64_t tick = 0;
    bool open = true;
    std::vector<Event> events;
};

/* One allocation that somebody follows: a tracked native one, or one in an arena. */
struct Block {
    Block(c10::Device on, size_t requested) : device(on), bytes(requested) {}
    c10::Device device;
    size_t bytes;                        /* as requested */
    int64_t step = 0;                    /* arenas: the step that it belongs to */
    c10::DeleterFnPtr release = nullptr; /* of the original allocator; arenas: null */
    std::shared_ptr<Recorder> recorder;
    size_t event = 0;
    std::vector<void *> streams; /* arenas: other streams that use the memory */
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> owner; /* arenas: of a result */
};

struct Stats {
    int64_t requests = 0, placed = 0, native = 0;
    int64_t misses = 0, miss_bytes = 0;       /* not in the table */
    int64_t occupied = 0, occupied_bytes = 0; /* in the table, but the place was taken */
    int64_t spilled = 0, spilled_bytes = 0;   /* either, and served at another place of the arena */
    int64_t moved_bytes = 0;                  /* results that outlived their step */
    int64_t steps = 0, native_steps = 0;      /* native: another step was in flight */
    int64_t high_water = 0, peak_live = 0;    /* bytes: end of the highest block, most at once */
    int64_t first_miss_unit = -1, first_miss_bytes = 0;
};

struct Arena {
    Arena(c10::Device on, Backend *from) : device(on), backend(from) {}
    c10::Device device;
    Backend *backend;
    c10::DataPtr memory;
    char *base = nullptr;
    size_t bytes = 0;
    bool closed = false;
    void *stream = nullptr;       /* the stream that used it last */
    std::map<size_t, Block> live; /* by offset */
    size_t live_bytes = 0;        /* rounded */
    int64_t step = 0;             /* the step that owns the arena */
    bool ended = true;            /* it has run its backward pass */
    Stats stats;
};

struct Slot {
    size_t size;    /* rounded */
    int64_t offset; /* -1: planned to be native */
};

struct Table {
    std::shared_ptr<Arena> arena;
    std::vector<size_t> first; /* of each unit, in slots; one more at the end */
    std::vector<Slot> slots;
    size_t bytes = 0;   /* the arena must have as many */
    size_t least = 0;   /* smaller allocations are native and not in the table */
    bool spill = false; /* what is not expected gets any free place of the arena */
    size_t next = 0;    /* spill: the first slot of the unit that began last; guarded by the lock */
};

/* A pass that runs on this thread. `table` is null when the pass is to run natively. */
struct Replay {
    Replay(c10::Device on, void *on_stream) : device(on), stream(on_stream) {}
    std::shared_ptr<Table> table;
    c10::Device device;
    void *stream;
    std::vector<bool> used; /* by slot, of the current unit */
    int64_t unit = -1;
    int64_t shift = 0;         /* from the units that begin() counts to those of the table */
    size_t begin = 0, end = 0; /* slots of the unit; all before begin are used or given up */
    std::unique_ptr<Replay> outer;
};

struct Thread {
    std::unique_ptr<Replay> replay;
    std::shared_ptr<Recorder> recorder;
    void *recorder_stream = nullptr;
    int64_t unit = -1;
    int64_t first_unit = 0; /* begin() counts from here */
};

/* Shared by all threads and guarded by `lock`, except for the counters. Never destroyed: tensors
 * are freed until the process ends. */
struct State {
    std::mutex lock;
    std::vector<std::shared_ptr<Meter>> meters;
    std::unordered_map<void *, Block> tracked;
    std::vector<std::shared_ptr<Arena>> arenas;
    std::atomic<int> watchers{0};     /* while positive, every allocation is tracked */
    std::atomic<int64_t> followed{0}; /* tracked and in arenas: frees must look them up */
};

State &state();
Thread &thread();

/* True if nobody is interested in the allocations of this thread: hooks forward at once. */
inline bool idle(const Thread &self)
{
    return !self.replay && !self.recorder && state().watchers.load(std::memory_order_relaxed) == 0;
}

/* An address in the arena for the next allocation of this thread; null: allocate natively. */
void *take(Thread &self, c10::Device device, void *stream, size_t bytes);
/* Follows a native allocation if somebody wants to know about it. True if so: it must then be
 * freed with `release`. */
bool follow(Thread &self, c10::Device device, void *stream, void *address, size_t bytes,
            c10::DeleterFnPtr native);
/* Frees what take() gave or follow() follows; false: the address is not one of them. */
bool release(void *address);
/* The arena block around this address, copied under the lock. */
struct Found {
    bool in_arena = false, is_tracked = false;
    void *base = nullptr; /* of the arena */
    c10::DeleterFnPtr native = nullptr;
};
Found find(void *address);
void use_on_stream(void *address, void *stream);
/* Marks the recorded allocation at this address; false if there is none. */
bool mark(const Recorder &recorder, void *address, int as);
/* Remembers the storage whose memory is a result in the arena; false if it has none there. */
bool adopt(Arena &arena, c10::StorageImpl *storage);
/* Moves the results of ended steps that are still in use out of the arena, to the original
 * allocator. All tensors on such a storage follow. Returns the bytes moved. */
size_t evacuate(Arena &arena);

/* The backends; null where this build or this machine has none. Installs the hook. */
Backend *cpu_backend();
Backend *cuda_backend();

} // namespace neap
#endif
