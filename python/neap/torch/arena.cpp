/* The part of arena.h that all devices share, and the hook in front of the CPU's allocator. */
#include "arena.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

namespace neap
{

State &state()
{
    static State *one = [] {
        auto *made = new State;
        pthread_atfork([] { state().lock.lock(); }, [] { state().lock.unlock(); },
                       [] { state().lock.unlock(); });
        return made;
    }();
    return *one;
}

Thread &thread()
{
    static thread_local Thread self;
    return self;
}

/* ---- Meters and recorders: called with the lock held ---- */

static void count(c10::Device device, size_t bytes, int sign)
{
    for (const auto &meter : state().meters) {
        if (meter->device != device)
            continue;
        meter->current += sign * static_cast<int64_t>(round_up(bytes, meter->granule));
        meter->peak = std::max(meter->peak, meter->current);
    }
}

static bool recording(const Thread &self, c10::Device device, void *stream)
{
    return self.recorder && self.recorder->device == device && self.recorder_stream == stream;
}

static void born(Thread &self, void *stream, void *address, Block &block)
{
    count(block.device, block.bytes, +1);
    state().followed.fetch_add(1, std::memory_order_relaxed);
    if (!recording(self, block.device, stream) || !self.recorder->open)
        return;
    Recorder &recorder = *self.recorder;
    block.recorder = self.recorder;
    block.event = recorder.events.size();
    recorder.events.push_back({self.unit, block.bytes, address, recorder.tick++, -1, NO_MARK});
}

static void died(Block &block)
{
    count(block.device, block.bytes, -1);
    state().followed.fetch_sub(1, std::memory_order_relaxed);
    if (!block.recorder || !block.recorder->open)
        return;
    block.recorder->events[block.event].died = block.recorder->tick++;
}

/* ---- Arenas ---- */

static bool is_free(const Arena &arena, size_t offset, size_t size)
{
    auto after = arena.live.lower_bound(offset);
    if (after != arena.live.end() && after->first < offset + size)
        return false;
    if (after == arena.live.begin())
        return true;
    const auto &before = *std::prev(after);
    return before.first + round_up(before.second.bytes) <= offset;
}

/* Allocations that did not come are looked for among this many slots, then they are given up. */
constexpr size_t WINDOW = 256;

/* The first unused slot of this size in the current unit; end: none. */
static size_t find_slot(Replay &replay, size_t size)
{
    if (replay.begin == replay.end)
        return replay.end;
    const auto &slots = replay.table->slots;
    const size_t first = replay.table->first[replay.unit];
    while (replay.begin < replay.end && replay.used[replay.begin - first])
        replay.begin++;
    const size_t end = std::min(replay.end, replay.begin + 2 * WINDOW);
    for (size_t i = replay.begin; i < end; i++) {
        if (slots[i].size == size && !replay.used[i - first]) {
            replay.used[i - first] = true;
            replay.begin = std::max(replay.begin, i < WINDOW ? 0 : i - WINDOW);
            return i;
        }
    }
    return replay.end;
}

/* Calls found(begin, end) for each free stretch of the arena at or after `from`. With the lock held. */
template <class F> static void each_gap(const Arena &arena, size_t from, F &&found)
{
    size_t at = from;
    for (const auto &[offset, block] : arena.live) {
        if (offset > at)
            found(at, offset);
        at = std::max(at, offset + round_up(block.bytes));
    }
    if (arena.bytes > at)
        found(at, arena.bytes);
}

/* The smallest free place of this size at or after `from`; -1: none. */
static int64_t best_fit(const Arena &arena, size_t size, size_t from)
{
    int64_t best = -1;
    size_t least = SIZE_MAX;
    each_gap(arena, from, [&](size_t begin, size_t end) {
        if (end - begin >= size && end - begin < least) {
            least = end - begin;
            best = static_cast<int64_t>(begin);
        }
    });
    return best;
}

/* The free place that the slots to come need last; -1: none. */
static int64_t latest_use(const Arena &arena, const Table &table, size_t size)
{
    std::vector<size_t> places;
    each_gap(arena, 0, [&](size_t begin, size_t end) {
        if (end - begin < size)
            return;
        places.push_back(begin);
        if (end - begin > size)
            places.push_back(end - size);
    });
    for (size_t i = table.next; i < table.slots.size() && places.size() > 1; i++) {
        const Slot &slot = table.slots[i];
        if (slot.offset < 0)
            continue;
        const auto begin = static_cast<size_t>(slot.offset), end = begin + slot.size;
        const size_t last = places.back();
        places.erase(std::remove_if(places.begin(), places.end(),
                                    [&](size_t at) { return at < end && begin < at + size; }),
                     places.end());
        if (places.empty())
            places.push_back(last);
    }
    return places.empty() ? -1 : static_cast<int64_t>(places.front());
}

/* Where an unexpected allocation goes: behind everything that is planned, or else where it is least
 * in the way. */
static int64_t find_spill(const Arena &arena, const Table &table, size_t size)
{
    if (!table.spill)
        return -1;
    const int64_t behind = best_fit(arena, size, table.bytes);
    return behind >= 0 || table.bytes == 0 ? behind : latest_use(arena, table, size);
}

static void count_fallback(Stats &stats, const Replay &replay, bool expected, size_t bytes)
{
    const auto size = static_cast<int64_t>(round_up(bytes));
    if (expected) {
        stats.occupied++;
        stats.occupied_bytes += size;
        return;
    }
    if (stats.misses++ == 0) {
        stats.first_miss_unit = replay.unit;
        stats.first_miss_bytes = static_cast<int64_t>(bytes);
    }
    stats.miss_bytes += size;
}

/* The offset of an allocation that slot i, or none, expects; -1: the original allocator serves it.
 * With the lock held. */
static int64_t choose_offset(Arena &arena, const Replay &replay, size_t i, size_t bytes)
{
    const size_t size = round_up(bytes);
    const bool expected = i != replay.end;
    if (expected) {
        const int64_t planned = replay.table->slots[i].offset;
        if (planned < 0) {
            arena.stats.native++;
            return -1;
        }
        const auto offset = static_cast<size_t>(planned);
        if (offset + size <= arena.bytes && is_free(arena, offset, size)) {
            arena.stats.placed++;
            return planned;
        }
    }
    const int64_t spilled = find_spill(arena, *replay.table, size);
    if (spilled < 0) {
        count_fallback(arena.stats, replay, expected, bytes);
        return -1;
    }
    arena.stats.spilled++;
    arena.stats.spilled_bytes += static_cast<int64_t>(size);
    return spilled;
}

void *take(Thread &self, c10::Device device, void *stream, size_t bytes)
{
    Replay *replay = self.replay.get();
    if (!replay || !replay->table || bytes == 0)
        return nullptr;
    if (replay->device != device || replay->stream != stream)
        return nullptr;
    Arena &arena = *replay->table->arena;
    if (bytes < replay->table->least)
        return nullptr;
    const size_t size = round_up(bytes);
    const size_t i = find_slot(*replay, size);
    std::lock_guard<std::mutex> guard(state().lock);
    Stats &stats = arena.stats;
    stats.requests++;
    const int64_t chosen = choose_offset(arena, *replay, i, bytes);
    if (chosen < 0)
        return nullptr;
    const auto offset = static_cast<size_t>(chosen);
    void *address = arena.base + offset;
    Block &block = arena.live.emplace(offset, Block(device, bytes)).first->second;
    block.step = arena.step;
    born(self, stream, address, block);
    arena.live_bytes += size;
    stats.peak_live = std::max(stats.peak_live, static_cast<int64_t>(arena.live_bytes));
    stats.high_water = std::max(stats.high_water, static_cast<int64_t>(offset + size));
    return address;
}

bool follow(Thread &self, c10::Device device, void *stream, void *address, size_t bytes,
            c10::DeleterFnPtr native)
{
    if (!address || bytes == 0)
        return false;
    const bool wanted = state().watchers.load() > 0 || recording(self, device, stream);
    if (!wanted)
        return false;
    std::lock_guard<std::mutex> guard(state().lock);
    Block &block = state().tracked.insert_or_assign(address, Block(device, bytes)).first->second;
    block.release = native;
    born(self, stream, address, block);
    return true;
}

/* With the lock held. */
static Arena *arena_around(void *address)
{
    auto *at = static_cast<char *>(address);
    for (const auto &arena : state().arenas) {
        if (arena->base && at >= arena->base && at < arena->base + arena->bytes)
            return arena.get();
    }
    return nullptr;
}

/* With the lock held. Gives back the memory of a closed arena after its last block. */
static c10::DataPtr bury(Arena &arena)
{
    c10::DataPtr memory;
    if (!arena.closed || !arena.live.empty())
        return memory;
    memory = std::move(arena.memory);
    arena.base = nullptr;
    auto &all = state().arenas;
    all.erase(std::remove_if(all.begin(), all.end(), [&](auto &a) { return a.get() == &arena; }),
              all.end());
    return memory;
}

static void release_in_arena(Arena &arena, void *address, c10::DataPtr &memory)
{
    auto found = arena.live.find(static_cast<size_t>(static_cast<char *>(address) - arena.base));
    if (found == arena.live.end())
        return;
    Block block = std::move(found->second);
    arena.live.erase(found);
    arena.live_bytes -= round_up(block.bytes);
    for (void *stream : block.streams)
        arena.backend->join(arena.device, stream, arena.stream);
    died(block);
    memory = bury(arena);
}

bool release(void *address)
{
    if (state().followed.load(std::memory_order_relaxed) == 0)
        return false;
    c10::DataPtr memory; /* freed after the lock */
    c10::DeleterFnPtr native = nullptr;
    {
        std::lock_guard<std::mutex> guard(state().lock);
        if (Arena *arena = arena_around(address)) {
            release_in_arena(*arena, address, memory);
            return true;
        }
        auto found = state().tracked.find(address);
        if (found == state().tracked.end())
            return false;
        native = found->second.release;
        died(found->second);
        state().tracked.erase(found); /* before the address can be given out again */
    }
    native(address);
    return true;
}

Found find(void *address)
{
    Found found;
    if (state().followed.load(std::memory_order_relaxed) == 0)
        return found;
    std::lock_guard<std::mutex> guard(state().lock);
    if (Arena *arena = arena_around(address)) {
        found.in_arena = true;
        found.base = arena->memory.get();
        return found;
    }
    auto tracked = state().tracked.find(address);
    if (tracked == state().tracked.end())
        return found;
    found.is_tracked = true;
    found.native = tracked->second.release;
    return found;
}

/* With the lock held: the block in the arena that begins at this address. */
static Block *block_at(Arena &arena, void *address)
{
    auto at = arena.live.find(static_cast<size_t>(static_cast<char *>(address) - arena.base));
    return at == arena.live.end() ? nullptr : &at->second;
}

void use_on_stream(void *address, void *stream)
{
    std::lock_guard<std::mutex> guard(state().lock);
    Arena *arena = arena_around(address);
    if (!arena || stream == arena->stream)
        return;
    Block *block = block_at(*arena, address);
    if (!block)
        return;
    auto &streams = block->streams;
    if (std::find(streams.begin(), streams.end(), stream) == streams.end())
        streams.push_back(stream);
}

bool mark(const Recorder &recorder, void *address, int as)
{
    std::lock_guard<std::mutex> guard(state().lock);
    Block *block = nullptr;
    if (Arena *arena = arena_around(address)) {
        block = block_at(*arena, address);
    } else {
        auto at = state().tracked.find(address);
        if (at != state().tracked.end())
            block = &at->second;
    }
    if (!block || block->recorder.get() != &recorder)
        return false;
    block->recorder->events[block->event].mark = as;
    return true;
}

/* ---- Results that outlive their step ---- */

bool adopt(Arena &arena, c10::StorageImpl *storage)
{
    using Strong = c10::intrusive_ptr<c10::StorageImpl>;
    const c10::DataPtr &data = storage->data_ptr();
    if (data.get() != data.get_context())
        return false; /* somebody has wrapped the memory */
    std::lock_guard<std::mutex> guard(state().lock);
    if (arena_around(data.get()) != &arena)
        return false;
    Block *block = block_at(arena, data.get());
    if (!block)
        return false;
    block->owner.emplace(Strong::unsafe_reclaim_from_nonowning(storage));
    return true;
}

size_t evacuate(Arena &arena)
{
    std::vector<c10::intrusive_ptr<c10::StorageImpl>> owners;
    {
        std::lock_guard<std::mutex> guard(state().lock);
        if (!arena.ended)
            return 0;
        for (auto &entry : arena.live) {
            if (!entry.second.owner)
                continue;
            if (auto owner = entry.second.owner->lock())
                owners.push_back(std::move(owner));
        }
    }
    size_t moved = 0;
    std::unique_ptr<Replay> outer = std::move(thread().replay);
    for (auto &owner : owners) {
        const c10::DataPtr &data = owner->data_ptr();
        if (data.get() != data.get_context())
            continue;
        c10::DataPtr fresh = arena.backend->allocate_hooked(arena.device, owner->nbytes());
        arena.backend->copy(arena.device, fresh.get(), data.get(), owner->nbytes());
        moved += owner->nbytes();
        owner->set_data_ptr(std::move(fresh)); /* what it returns frees the old memory */
    }
    thread().replay = std::move(outer);
    std::lock_guard<std::mutex> guard(state().lock);
    arena.stats.moved_bytes += static_cast<int64_t>(moved);
    return moved;
}

/* ---- The CPU ---- */

namespace
{

class CpuHook final : public c10::Allocator, public Backend
{
  public:
    explicit CpuHook(c10::Allocator *native) : native_(native) {}

    c10::DataPtr allocate(size_t bytes) override
    {
        Thread &self = thread();
        if (idle(self))
            return native_->allocate(bytes);
        const c10::Device device(c10::DeviceType::CPU);
        if (void *address = take(self, device, nullptr, bytes))
            return {address, address, &free_cpu, device};
        c10::DataPtr data = native_->allocate(bytes);
        const c10::DeleterFnPtr native = data.get_deleter();
        if (data.get() != data.get_context())
            return data;
        if (follow(self, device, nullptr, data.get(), bytes, native))
            (void)data.compare_exchange_deleter(native, &free_cpu);
        return data;
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return &free_cpu;
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        native_->copy_data(to, from, bytes);
    }

    c10::DataPtr allocate_native(c10::Device, size_t bytes) override
    {
        return native_->allocate(bytes);
    }
    c10::DataPtr allocate_hooked(c10::Device, size_t bytes) override
    {
        return allocate(bytes);
    }
    void copy(c10::Device, void *to, const void *from, size_t bytes) override
    {
        std::memcpy(to, from, bytes);
    }
    bool ready() override
    {
        return true;
    }
    void *stream(c10::Device) override
    {
        return nullptr;
    }
    void join(c10::Device, void *, void *) noexcept override {}
    void trim(c10::Device) override {}

    static CpuHook *one;

  private:
    static void free_cpu(void *address)
    {
        if (!release(address))
            one->native_->raw_deallocate(address);
    }
    c10::Allocator *native_;
};

CpuHook *CpuHook::one = nullptr;

} // namespace

Backend *cpu_backend()
{
    if (!CpuHook::one) {
        CpuHook::one = new CpuHook(c10::GetCPUAllocator());
        c10::SetCPUAllocator(CpuHook::one);
        if (c10::GetCPUAllocator() != CpuHook::one)
            c10::SetCPUAllocator(CpuHook::one, UINT8_MAX);
    }
    return CpuHook::one;
}

} // namespace neap
