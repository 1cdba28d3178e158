/*
 * The hook in front of CUDA's allocator: c10's own pointer to the allocator in use is exchanged.
 *
 * Everything but the memory itself is forwarded. A pointer into an arena is handled here wherever
 * the original allocator would not know it: freeing it, using it on another stream, sharing it
 * between processes. While a memory pool is being filled (CUDA graphs, torch.cuda.use_mem_pool)
 * nothing is replayed. NEAP_TORCH is the release of PyTorch: 209 for 2.9.
 */
#include "arena.h"

#ifdef NEAP_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace neap
{
namespace
{

namespace cca = c10::cuda::CUDACachingAllocator;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;

class CudaHook final : public cca::CUDAAllocator, public Backend
{
  public:
    explicit CudaHook(cca::CUDAAllocator *native) : native_(native) {}
    static CudaHook *one;

    /* ---- Memory ---- */

    DataPtr allocate(size_t bytes) override
    {
        Thread &self = thread();
        if (idle(self))
            return native_->allocate(bytes);
        const c10::Device device(c10::kCUDA, c10::cuda::current_device());
        void *on = stream(device);
        if (void *address = take_here(self, device, on, bytes))
            return {address, address, &free_cuda, device};
        DataPtr data = native_->allocate(bytes);
        const c10::DeleterFnPtr native = data.get_deleter();
        if (data.get() != data.get_context())
            return data;
        if (follow(self, device, on, data.get(), bytes, native))
            (void)data.compare_exchange_deleter(native, &free_cuda);
        return data;
    }
    void *raw_alloc(size_t bytes) override
    {
        Thread &self = thread();
        if (idle(self))
            return native_->raw_alloc(bytes);
        const c10::Device device(c10::kCUDA, c10::cuda::current_device());
        return raw(self, device, c10::cuda::getCurrentCUDAStream(device.index()).stream(), bytes);
    }
    void *raw_alloc_with_stream(size_t bytes, cudaStream_t on) override
    {
        Thread &self = thread();
        if (idle(self))
            return native_->raw_alloc_with_stream(bytes, on);
        return raw(self, c10::Device(c10::kCUDA, c10::cuda::current_device()), on, bytes);
    }
    void raw_delete(void *address) override
    {
        if (!release(address))
            native_->raw_delete(address);
    }
    /* The original's wherever possible: CUDA graph trees compare it with that of a tensor. */
    c10::DeleterFnPtr raw_deleter() const override
    {
        return idle(thread()) ? native_->raw_deleter() : &free_cuda;
    }
    bool is_simple_data_ptr(const DataPtr &data) const override
    {
        return native_->is_simple_data_ptr(data);
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        native_->copy_data(to, from, bytes);
    }

    /* ---- Pointers that the original may not know ---- */

    void recordStream(const DataPtr &data, c10::cuda::CUDAStream on) override
    {
        const Found found = find(data.get());
        if (found.in_arena) {
            use_on_stream(data.get(), on.stream());
        } else if (found.is_tracked) { /* the original ignores pointers with another deleter */
            DataPtr as_native(data.get(), data.get(), found.native, data.device());
            native_->recordStream(as_native, on);
            as_native.release_context();
        } else {
            native_->recordStream(data, on);
        }
    }
    void *getBaseAllocation(void *address, size_t *bytes) override
    {
        const Found found = find(address);
        return native_->getBaseAllocation(found.in_arena ? found.base : address, bytes);
    }
    cca::ShareableHandle shareIpcHandle(void *address) override
    {
        const Found found = find(address);
        if (!found.in_arena)
            return native_->shareIpcHandle(address);
        cca::ShareableHandle handle = native_->shareIpcHandle(found.base);
        handle.offset += static_cast<char *>(address) - static_cast<char *>(found.base);
        return handle;
    }

    /* ---- Pools ---- */

    void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                             std::function<bool(cudaStream_t)> filter) override
    {
        pools_.fetch_add(1);
        native_->beginAllocateToPool(device, pool, std::move(filter));
    }
    void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override
    {
        native_->endAllocateToPool(device, pool);
        pools_.fetch_sub(1);
    }
    void releasePool(DeviceIndex device, MempoolId_t pool) override
    {
        native_->releasePool(device, pool);
    }
    int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override
    {
        return native_->getPoolUseCount(device, pool);
    }
    bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool,
                                  const std::unordered_set<void *> &expected) override
    {
        return native_->checkPoolLiveAllocations(device, pool, expected);
    }
    std::shared_ptr<cca::AllocatorState> getCheckpointState(DeviceIndex device,
                                                            MempoolId_t pool) override
    {
        return native_->getCheckpointState(device, pool);
    }
    cca::CheckpointDelta
    setCheckpointPoolState(DeviceIndex device,
                           std::shared_ptr<cca::AllocatorState> checkpoint) override
    {
        return native_->setCheckpointPoolState(device, std::move(checkpoint));
    }

    /* ---- Forwarded as they are ---- */

    void init(int devices) override
    {
        native_->init(devices);
    }
    bool initialized() override
    {
        return native_->initialized();
    }
    double getMemoryFraction(DeviceIndex device) override
    {
        return native_->getMemoryFraction(device);
    }
    void setMemoryFraction(double fraction, DeviceIndex device) override
    {
        native_->setMemoryFraction(fraction, device);
    }
    void emptyCache(MempoolId_t pool) override
    {
        native_->emptyCache(pool);
    }
    void enable(bool value) override
    {
        native_->enable(value);
    }
    bool isEnabled() const override
    {
        return native_->isEnabled();
    }
    void cacheInfo(DeviceIndex device, size_t *largest) override
    {
        native_->cacheInfo(device, largest);
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override
    {
        return native_->getDeviceStats(device);
    }
    void resetAccumulatedStats(DeviceIndex device) override
    {
        native_->resetAccumulatedStats(device);
    }
    void resetPeakStats(DeviceIndex device) override
    {
        native_->resetPeakStats(device);
    }
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override
    {
        return native_->getIpcDevPtr(std::move(handle));
    }
    bool isHistoryEnabled() override
    {
        return native_->isHistoryEnabled();
    }
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &md) override
    {
        native_->recordAnnotation(md);
    }
    void pushCompileContext(std::string &md) override
    {
        native_->pushCompileContext(md);
    }
    void popCompileContext() override
    {
        native_->popCompileContext();
    }
    void attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) override
    {
        native_->attachOutOfMemoryObserver(std::move(observer));
    }
    void attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker) override
    {
        native_->attachAllocatorTraceTracker(std::move(tracker));
    }
    void enablePeerAccess(DeviceIndex from, DeviceIndex to) override
    {
        native_->enablePeerAccess(from, to);
    }
    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
                            size_t bytes, cudaStream_t on, bool p2p) override
    {
        return native_->memcpyAsync(to, to_device, from, from_device, bytes, on, p2p);
    }
    std::string name() override
    {
        return native_->name();
    }

#if NEAP_TORCH >= 210
    std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override
    {
        return native_->getExpandableSegmentSizes(device);
    }
    void setNoSplit(DeviceIndex device, MempoolId_t pool) override
    {
        native_->setNoSplit(device, pool);
    }
    void setUserMetadata(const std::string &metadata) override
    {
        native_->setUserMetadata(metadata);
    }
    std::string getUserMetadata() override
    {
        return native_->getUserMetadata();
    }
    std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override
    {
        return native_->getMemoryInfo(device);
    }
#endif
#if NEAP_TORCH >= 212
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void *address) override
    {
        return native_->getContextForPointer(address);
    }
    void attachOomRejectionObserver(cca::OomRejectionObserver observer) override
    {
        native_->attachOomRejectionObserver(std::move(observer));
    }
#endif
#if NEAP_TORCH >= 213
    void markCaptureBegin(DeviceIndex device) override
    {
        native_->markCaptureBegin(device);
    }
    void markCaptureEnd(DeviceIndex device) override
    {
        native_->markCaptureEnd(device);
    }
    DataPtr allocateWithAddress(size_t bytes, void *address) override
    {
        return native_->allocateWithAddress(bytes, address);
    }
#endif
#if NEAP_TORCH >= 214
    bool supportsUserMetadata() override
    {
        return native_->supportsUserMetadata();
    }
    void annotateMemory(const void *address, const std::string &metadata) override
    {
        native_->annotateMemory(address, metadata);
    }
#endif
#if NEAP_TORCH >= 211
    cca::SnapshotInfo snapshot(MempoolId_t pool, bool traces) override
    {
        return native_->snapshot(pool, traces);
    }
    void createOrIncrefPool(DeviceIndex device, MempoolId_t pool,
                            std::shared_ptr<cca::CUDAAllocator> allocator) override
    {
        native_->createOrIncrefPool(device, pool, std::move(allocator));
    }
    void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override
    {
        native_->setUseOnOOM(device, pool, use);
    }
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t entries,
                       cca::RecordContext when, bool clear,
                       const std::vector<std::string> &skip) override
    {
        native_->recordHistory(enabled, recorder, entries, when, clear, skip);
    }
#else
    cca::SnapshotInfo snapshot(MempoolId_t pool) override
    {
        return native_->snapshot(pool);
    }
    void createOrIncrefPool(DeviceIndex device, MempoolId_t pool,
                            cca::CUDAAllocator *allocator) override
    {
        native_->createOrIncrefPool(device, pool, allocator);
    }
    void setUseOnOOM(DeviceIndex device, MempoolId_t pool) override
    {
        native_->setUseOnOOM(device, pool);
    }
    void recordHistory(bool enabled, cca::CreateContextFn recorder, size_t entries,
                       cca::RecordContext when, bool clear) override
    {
        native_->recordHistory(enabled, recorder, entries, when, clear);
    }
#endif

    /* ---- Backend ---- */

    DataPtr allocate_native(c10::Device device, size_t bytes) override
    {
        c10::cuda::CUDAGuard guard(device);
        return native_->allocate(bytes);
    }
    DataPtr allocate_hooked(c10::Device device, size_t bytes) override
    {
        c10::cuda::CUDAGuard guard(device);
        return allocate(bytes);
    }
    void copy(c10::Device device, void *to, const void *from, size_t bytes) override
    {
        c10::cuda::CUDAGuard guard(device);
        C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                       static_cast<cudaStream_t>(stream(device))));
    }
    bool ready() override
    {
        return pools_.load(std::memory_order_relaxed) == 0;
    }
    void *stream(c10::Device device) override
    {
        return c10::cuda::getCurrentCUDAStream(device.index()).stream();
    }
    /* Frees call this, which may not throw: if there is no event to be had, the host waits. */
    void join(c10::Device device, void *from, void *to) noexcept override
    {
        int before = -1;
        cudaEvent_t event = nullptr;
        (void)cudaGetDevice(&before);
        (void)cudaSetDevice(device.index());
        const bool joined =
            cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess &&
            cudaEventRecord(event, static_cast<cudaStream_t>(from)) == cudaSuccess &&
            cudaStreamWaitEvent(static_cast<cudaStream_t>(to), event, 0) == cudaSuccess;
        if (!joined)
            (void)cudaStreamSynchronize(static_cast<cudaStream_t>(from));
        if (event)
            (void)cudaEventDestroy(event); /* takes effect when the event has passed */
        if (before >= 0)
            (void)cudaSetDevice(before);
        (void)cudaGetLastError(); /* at the end of the process the driver may be gone */
    }
    void trim(c10::Device) override
    {
        native_->emptyCache(MempoolId_t{0, 0});
    }

  private:
    void *take_here(Thread &self, c10::Device device, void *on, size_t bytes)
    {
        return ready() ? take(self, device, on, bytes) : nullptr;
    }
    void *raw(Thread &self, c10::Device device, cudaStream_t on, size_t bytes)
    {
        if (void *address = take_here(self, device, on, bytes))
            return address;
        void *address = native_->raw_alloc_with_stream(bytes, on);
        follow(self, device, on, address, bytes, &free_native);
        return address;
    }
    static void free_native(void *address)
    {
        one->native_->raw_delete(address);
    }
    static void free_cuda(void *address)
    {
        one->raw_delete(address);
    }

    cca::CUDAAllocator *native_;
    std::atomic<int> pools_{0};
};

CudaHook *CudaHook::one = nullptr;

} // namespace

Backend *cuda_backend()
{
    if (!CudaHook::one) {
        CudaHook::one = new CudaHook(cca::get());
        cca::allocator.store(CudaHook::one);
        c10::SetAllocator(c10::kCUDA, CudaHook::one);
    }
    return CudaHook::one;
}

} // namespace neap
#else
neap::Backend *neap::cuda_backend()
{
    return nullptr;
}
#endif
