// What torch.profiler asks of a device: with Kineto the executions themselves; without it moments, each of which waits for
// the device, so that the time between two is the device's.

#define USE_KINETO // as PyTorch is built: its headers hide the registry otherwise

#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "shim.h"

#include <c10/util/ApproximateClock.h>
#include <libkineto.h>
#include <output_base.h>

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

// Executions between `start` and `stop`, each as a kernel that carries its Python line.
struct Session final : libkineto::IActivityProfilerSession {
  void start() override {
    run(core().start_profile());
  }
  void stop() override {
    const TpuSpan* spans = nullptr;
    uint64_t count = 0;
    run(core().stop_profile(&spans, &count));
    for (uint64_t i = 0; i < count; ++i) add(spans[i]);
  }
  std::vector<std::string> errors() override {
    return errors_;
  }
  void processTrace(libkineto::ActivityLogger& logger) override {
    for (const auto& activity : buffer_->activities) activity->log(logger);
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    // Below the processes of the system.
    return std::make_unique<libkineto::DeviceInfo>(
        libkineto::DeviceInfo{0, libkineto::kExceedMaxPid, "device", "tpu:0"});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return {{0, 0, 0, "executions"}};
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

 private:
  // Without a device there is nothing to tell. What fails on one is raised where the program waits for it next.
  void run(int32_t status) {
    int32_t kind = 0;
    if (status != TPU_OK) errors_.emplace_back(core().last_error(&kind));
  }

  void add(const TpuSpan& span) {
    const auto type = libkineto::ActivityType::CONCURRENT_KERNEL;
    buffer_->emplace_activity(buffer_->span, type, span.name);
    auto& activity = *buffer_->activities.back();
    activity.startTime = span.begin;
    activity.endTime = span.end;
    activity.device = span.device;
    activity.id = static_cast<int32_t>(buffer_->activities.size());
    if (*span.line != '\0') activity.addMetadataQuoted("line", span.line);
  }

  static std::unique_ptr<libkineto::CpuTraceBuffer> new_buffer() {
    auto buffer = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer->span = libkineto::TraceSpan(0, 0, "tpu");
    return buffer;
  }

  std::vector<std::string> errors_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = new_buffer();
};

struct Profiler final : libkineto::IActivityProfiler {
  const std::string& name() const override {
    static const std::string name = "tpu";
    return name;
  }
  const std::set<libkineto::ActivityType>& availableActivities() const override {
    static const std::set<libkineto::ActivityType> activities{libkineto::ActivityType::CONCURRENT_KERNEL};
    return activities;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<libkineto::ActivityType>& wanted, const libkineto::Config&) override {
    if (wanted.count(libkineto::ActivityType::CONCURRENT_KERNEL) == 0) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<libkineto::ActivityType>& wanted, const libkineto::Config& config) override {
    return configure(wanted, config);
  }
};

}  // namespace

void register_profiler() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
}

}  // namespace torchtpu
