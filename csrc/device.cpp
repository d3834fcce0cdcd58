// Devices, storages, generators, streams and events, as PyTorch's device-generic code asks for them.
//
// There is one stream per device: the core keeps order, and what is computed asynchronously waits for what it needs.

#include <torch/csrc/autograd/python_variable.h>

#include "shim.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/AutogradState.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>

namespace torchtpu {

// --- devices ---------------------------------------------------------------------------------------------------------

static thread_local c10::DeviceIndex current = 0;

// None where they cannot be had, which is asked again: another plugin may have been chosen since. Asking may need Python, so
// nothing is locked meanwhile.
c10::DeviceIndex device_count() {
  static std::atomic<c10::DeviceIndex> known{0};
  if (const auto count = known.load(std::memory_order_relaxed); count > 0) return count;
  constexpr int32_t kMost = std::numeric_limits<c10::DeviceIndex>::max();
  const auto count = static_cast<c10::DeviceIndex>(std::clamp(core().device_count(), 0, kMost));
  known.store(count, std::memory_order_relaxed);
  return count;
}

c10::DeviceIndex current_device() {
  return current;
}

void set_current_device(c10::DeviceIndex index) {
  const auto count = device_count();
  if (index < 0 || index >= count) {
    if (count == 0) raise_last_error();
    TORCH_CHECK(false, "there is no device tpu:", static_cast<int>(index), "; there are ", static_cast<int>(count));
  }
  current = index;
}

namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kTpu;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    if (device.index() != before.index()) set_current_device(device.index());
    return before;
  }
  c10::Device getDevice() const override {
    return {kTpu, current};
  }
  void setDevice(c10::Device device) const override {
    set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current = device.index();
  }
  // Each device has the one stream. A device without an index is the current one.
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device.has_index() ? device : getDevice());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return getStream(device);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return getStream(device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return getStream({kTpu, stream.device_index()});
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return device_count();
  }
  bool queryStream(const c10::Stream& stream) const override {
    return core().idle(stream.device_index()) != 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(core().synchronize(stream.device_index()));
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    check(core().synchronize(index));
  }

  // An event is a moment of the one stream; waiting for it is waiting for the stream. One that is there to take the time
  // waits when it is recorded, so that what lies between two is the device's.
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    if (flag == c10::EventFlag::BACKEND_DEFAULT) synchronizeStream(stream);
    if (*event == nullptr) *event = new Moment();
    auto* moment = static_cast<Moment*>(*event);
    moment->device = stream.device_index();
    moment->time = std::chrono::steady_clock::now();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return event == nullptr || core().idle(static_cast<Moment*>(event)->device) != 0;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) check(core().synchronize(static_cast<Moment*>(event)->device));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Moment*>(event);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from != nullptr && to != nullptr, "both events must be recorded before the time between them is known");
    const auto span = static_cast<Moment*>(to)->time - static_cast<Moment*>(from)->time;
    return std::chrono::duration<double, std::milli>(span).count();
  }

 private:
  struct Moment {
    c10::DeviceIndex device = 0;
    std::chrono::steady_clock::time_point time;
  };
};

}  // namespace

// --- storages --------------------------------------------------------------------------------------------------------

static void end_storage(void* context) {
  core().cell_drop(reinterpret_cast<TpuCell>(context));
}

// Has this thread run its backward passes itself, from its first tensor on the device on. PyTorch has a thread per device for
// them, which is to start its kernels while others are started: here calls return at once, and two switches of threads take as
// long as a small step. Who wants those threads says `torch.autograd.set_multithreading_enabled(True)`.
static void keep_backward_passes() {
  thread_local bool kept = false;
  if (kept || c10::InferenceMode::is_enabled()) return;  // whose end brings back what was there before
  kept = true;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

c10::DataPtr adopt(TpuCell cell, void* address, c10::DeviceIndex device) {
  keep_backward_passes();
  return {address, reinterpret_cast<void*>(cell), &end_storage, c10::Device(kTpu, device)};
}

c10::DataPtr new_storage(c10::DeviceIndex device, size_t nbytes) {
  void* address = nullptr;
  const TpuCell cell = core().cell_new(device, nbytes, &address);
  if (cell == 0) raise_last_error();
  return adopt(cell, address, device);
}

TpuCell cell_of(const c10::StorageImpl& storage) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() == &end_storage) return reinterpret_cast<TpuCell>(data.get_context());
  // Someone wrapped the address, `from_blob` for instance.
  const TpuCell cell = core().cell_at(data.get());
  TORCH_CHECK(cell != 0, "the storage of a \"tpu\" tensor does not belong to the device");
  return cell;
}

void resize_storage(c10::StorageImpl* storage, size_t nbytes) {
  if (nbytes == storage->nbytes()) return;
  const TpuCell cell = cell_of(*storage);
  void* address = core().cell_resize(cell, nbytes);
  if (address == nullptr) raise_last_error();
  auto before = storage->set_data_ptr(adopt(cell, address, storage->device().index()));
  before.release_context();  // the cell lives on
  storage->set_nbytes(nbytes);
}

namespace {

using c10::CachingAllocator::StatType;

void read(const TpuGauge& gauge, c10::CachingAllocator::StatArray& stats) {
  auto& all = stats[static_cast<size_t>(StatType::AGGREGATE)];
  all.current = static_cast<int64_t>(gauge.now);
  all.peak = static_cast<int64_t>(gauge.peak);
  all.allocated = static_cast<int64_t>(gauge.allocated);
  all.freed = static_cast<int64_t>(gauge.freed);
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    return new_storage(current, nbytes);
  }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "\"tpu\" storages have no memory to copy by address");
  }
  bool initialized() override {
    return core().made() != 0;
  }
  void emptyCache(c10::MempoolId_t) override {}  // a tensor's memory goes with the tensor
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto memory = memory_of(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      read(memory.bytes, *bytes);
    }
    for (auto* values : {&stats.allocation, &stats.active, &stats.segment}) read(memory.values, *values);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    core().reset_memory(device, 0);
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    core().reset_memory(device, 1);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto memory = memory_of(device);
    return {memory.free, memory.total};
  }

 private:
  static TpuMemory memory_of(c10::DeviceIndex device) {
    TpuMemory memory{};
    check(core().memory(device, &memory));
    return memory;
  }
};

}  // namespace

c10::Allocator* allocator() {
  static Allocator instance;
  return &instance;
}

// --- generators ------------------------------------------------------------------------------------------------------

namespace {

// Seed and offset, sixteen bytes of state, as DTensor's random ops expect them.
struct GeneratorImpl final : c10::GeneratorImpl {
  explicit GeneratorImpl(c10::DeviceIndex index)
      : c10::GeneratorImpl({kTpu, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t value) override {
    seed_ = value;
    offset_ = 0;
  }
  void set_offset(uint64_t value) override {
    offset_ = value;
  }
  uint64_t get_offset() const override {
    return offset_;
  }
  uint64_t current_seed() const override {
    return seed_;
  }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(
        state.device().is_cpu() && state.numel() == kBytes && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
            state.is_contiguous(),
        "a \"tpu\" generator's state is a contiguous CPU tensor of ", kBytes, " bytes");
    std::memcpy(&seed_, state.data(), 8);
    std::memcpy(&offset_, static_cast<const char*>(state.data()) + 8, 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({kBytes}, at::kByte);  // whatever mode is on
    std::memcpy(state.data_ptr(), &seed_, 8);
    std::memcpy(static_cast<char*>(state.data_ptr()) + 8, &offset_, 8);
    return state.getIntrusivePtr();
  }
  GeneratorImpl* clone_impl() const override {
    auto* copy = new GeneratorImpl(device().index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  // The state that a call starts from. A program counts on from there, by as much as it draws, which nobody here knows: so
  // each call has a key of its own, and no two calls ever count through the same numbers.
  void next(uint64_t out[2]) {
    const std::lock_guard<std::mutex> lock(mutex_);
    out[0] = scrambled(scrambled(seed_) ^ offset_);
    out[1] = 0;
    offset_ += 4;  // torch.cuda's generators count in fours too
  }

 private:
  // One to one, and a change of any bit changes half of the result's: the finaliser of SplitMix64.
  static uint64_t scrambled(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  static constexpr int64_t kBytes = 16;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// Made with the first device that is asked for; a seed given before is kept until then.
struct Generators {
  std::mutex mutex;
  std::deque<at::Generator> all;
  uint64_t seed = c10::default_rng_seed_val;
};

Generators& generators() {
  static Generators instance;
  return instance;
}

void make_generators(Generators& of, c10::DeviceIndex count) {
  for (c10::DeviceIndex i = 0; i < count; ++i) {
    of.all.push_back(at::make_generator<GeneratorImpl>(i));
    of.all.back().set_current_seed(of.seed);
  }
}

// 1 where it cannot be had: no exception may pass through Rust, from where this is called.
int32_t next_seed(int32_t device, void* generator, uint64_t out[2]) {
  try {
    auto* impl = generator != nullptr
                     ? static_cast<c10::GeneratorImpl*>(generator)
                     : default_generator(static_cast<c10::DeviceIndex>(device)).unsafeGetGeneratorImpl();
    static_cast<GeneratorImpl*>(impl)->next(out);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

// What comes through DLPack has no allocator, and so cannot grow. It can if it gets PyTorch's own: growing replaces the
// memory, and frees the old as whoever made it said.
void let_grow(void* tensor) noexcept {
  auto* storage = THPVariable_Unpack(static_cast<PyObject*>(tensor)).storage().unsafeGetStorageImpl();
  storage->set_allocator(c10::GetAllocator(c10::DeviceType::CPU));
  storage->set_resizable(true);
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  auto& [mutex, all, seed] = generators();
  const auto count = device_count();
  const std::lock_guard<std::mutex> lock(mutex);
  if (all.empty()) make_generators(generators(), count);
  const auto i = static_cast<size_t>(index < 0 ? current : index);
  TORCH_CHECK(i < all.size(), "there is no device tpu:", i);
  return all[i];
}

void seed_all(uint64_t seed) {
  auto& of = generators();
  const std::lock_guard<std::mutex> lock(of.mutex);
  of.seed = seed;
  for (auto& generator : of.all) generator.set_current_seed(seed);
}

const TpuShim shim_table = {TORCHTPU_ABI, sizeof(TpuShim), &next_seed, &let_grow};

// --- hooks -----------------------------------------------------------------------------------------------------------

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return device_count() > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return device_count();
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    set_current_device(index);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto before = current;
    set_current_device(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<GeneratorImpl>(index < 0 ? current : index);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    const auto device = core().cell_device(core().cell_at(data));
    TORCH_CHECK(device >= 0, "the address is not where the storage of a \"tpu\" tensor begins");
    return {kTpu, static_cast<c10::DeviceIndex>(device)};
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    // Training scripts ask for it whatever the device is, and data loaders do so on their behalf.
    TORCH_WARN_ONCE(
        "pin_memory gives ordinary memory: copies to \"tpu\" go through the plugin's own buffers, which nothing speeds up. "
        "Leave it off.");
    return c10::GetAllocator(c10::kCPU);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), nbytes);
  }
};

}  // namespace

void register_device() {
  static Guard guard;
  c10::impl::registerDeviceGuard(kTpu, &guard);
  c10::SetAllocator(kTpu, allocator());
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

}  // namespace torchtpu
