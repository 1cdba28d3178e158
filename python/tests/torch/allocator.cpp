// A processor allocator for PyTorch that counts the bytes it has handed out. tests/torch/memory.py builds
// it and loads it into a process that has imported torch.

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <c10/core/CPUAllocator.h>

namespace {

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};

// A block begins with its size; what the caller gets keeps the alignment that vectors need.
constexpr size_t kHeader = 64;

void add(int64_t bytes) {
    int64_t now = live.fetch_add(bytes) + bytes;
    int64_t seen = peak.load();
    while (now > seen && !peak.compare_exchange_weak(seen, now)) {
    }
}

void release(void *block) {
    if (block == nullptr) {
        return;
    }
    char *start = static_cast<char *>(block) - kHeader;
    int64_t bytes = 0;
    std::memcpy(&bytes, start, sizeof bytes);
    live.fetch_sub(bytes);
    std::free(start);
}

class Counting final : public c10::Allocator {
  public:
    c10::DataPtr allocate(size_t bytes) override {
        if (bytes == 0) {
            return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
        }
        void *start = nullptr;
        if (posix_memalign(&start, kHeader, kHeader + bytes) != 0) {
            throw std::bad_alloc();
        }
        int64_t size = static_cast<int64_t>(bytes);
        std::memcpy(start, &size, sizeof size);
        add(size);
        void *block = static_cast<char *>(start) + kHeader;
        return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void *to, const void *from, std::size_t count) const override {
        default_copy_data(to, from, count);
    }
};

Counting counting;

} // namespace

extern "C" {

void counting_install() { c10::SetCPUAllocator(&counting, /*priority=*/100); }
int64_t counting_live() { return live.load(); }
int64_t counting_peak() { return peak.load(); }
void counting_reset() { peak.store(live.load()); }
}
