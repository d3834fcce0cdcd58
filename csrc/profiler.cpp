// What torch.profiler asks of a device: moments. Each waits for the device, so that the time between two is the device's.

#include <torch/csrc/profiler/stubs/base.h>

#include "shim.h"

#include <c10/util/ApproximateClock.h>

#include <chrono>

namespace torchtpu {
namespace {

using Clock = std::chrono::steady_clock;
using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const auto index = current_device();
    if (device != nullptr) *device = index;
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
    check(core().synchronize(index));
    *event = std::make_shared<Clock::time_point>(Clock::now());
  }
  float elapsed(const ProfilerVoidEventStub* from, const ProfilerVoidEventStub* to) const override {
    const auto at = [](const ProfilerVoidEventStub* event) { return *static_cast<Clock::time_point*>(event->get()); };
    return std::chrono::duration<float, std::micro>(at(to) - at(from)).count();
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override {
    return true;
  }
  void onEachDevice(std::function<void(int)> op) const override {
    op(current_device());
  }
  void synchronize() const override {
    check(core().synchronize(current_device()));
  }
};

}  // namespace

void register_profiler() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
}

}  // namespace torchtpu
