// Calls that write elements that share their places, or lie where others are read. The CPU allows some of them, as far as its
// kernels look: so it is asked.

#include "call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>

namespace torchtpu {
namespace {

// Tensors on the host that lie in storages there as given ones do on the device.
class Host {
 public:
  // `filled`: with what the device's storages hold, else zeros.
  explicit Host(bool filled) : filled_(filled) {}

  c10::IValue of(const c10::IValue& value) {
    return map_tensors(value, [this](const at::Tensor& t) {
      if (!t.defined() || t.device().type() != kTpu) return t;
      return storage(t).as_strided(t.sizes(), t.strides(), t.storage_offset());
    });
  }

  // Brings the storage of `t` back.
  void store(const at::Tensor& t) {
    whole(t).copy_(storage(t));
  }

 private:
  static at::Tensor whole(const at::Tensor& t) {
    return t.as_strided({static_cast<int64_t>(t.storage().nbytes() / t.element_size())}, {1}, 0);
  }

  at::Tensor storage(const at::Tensor& t) {
    for (const auto& [real, copy] : storages_) {
      if (real.is_alias_of(t)) return copy.view(t.scalar_type());
    }
    const auto all = whole(t);
    storages_.emplace_back(t, filled_ ? all.cpu() : at::zeros(all.sizes(), all.options().device(c10::DeviceType::CPU)));
    return storages_.back().second;
  }

  bool filled_;
  std::vector<std::pair<at::Tensor, at::Tensor>> storages_;
};

torch::jit::Stack on_host(Host& host, const Op& op, const torch::jit::Stack& stack, size_t first) {
  torch::jit::Stack copy;
  for (size_t i = 0; i < op.arguments.size(); ++i) copy.push_back(host.of(stack[first + i]));
  return copy;
}

// Whether elements may lie in one place: a dimension does not step over all that those of smaller steps reach.
bool shares_places(const at::Tensor& t) {
  if (t.numel() == 0 || t.is_non_overlapping_and_dense()) return false;
  std::vector<std::pair<int64_t, int64_t>> moving;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) > 1) moving.emplace_back(t.stride(d), t.size(d));
  }
  std::sort(moving.begin(), moving.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : moving) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

bool draws(const Op& op) {
  const auto generator = [](const Argument& argument) { return argument.kind == Kind::Generator; };
  return std::any_of(op.arguments.begin(), op.arguments.end(), generator);
}

}  // namespace

bool run_in_order(const Op& op, torch::jit::Stack& stack, size_t first) {
  const auto shares = [&](size_t i) {
    const auto& value = stack[first + i];
    return value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == kTpu &&
        shares_places(value.toTensor());
  };
  if (draws(op) || !std::any_of(op.written.begin(), op.written.end(), shares)) return false;
  Host host(/*filled=*/true);
  auto copy = on_host(host, op, stack, first);
  op.handle.callBoxed(&copy);  // or the CPU refuses it, too
  record_fallback(op.handle, "elements that it writes share their place, and the order of writes counts");
  torch::jit::Stack returned;
  for (const auto i : op.written) {
    host.store(stack[first + i].toTensor());
    returned.push_back(stack[first + i]);
  }
  stack.resize(first);
  for (auto& value : returned) stack.push_back(std::move(value));
  return true;
}

void check_overlaps(const Op& op, const torch::jit::Stack& stack, size_t first) {
  // Some refuse to read and write one tensor, others only what overlaps in part: the CPU knows which.
  const auto overlaps = [&](const at::Tensor& written, const c10::IValue& value) {
    bool found = false;
    map_tensors(value, [&](const at::Tensor& t) {
      if (!t.defined() || !written.is_alias_of(t)) return t;
      const auto status = at::get_overlap_status(written, t);
      found |= status == at::MemOverlapStatus::Full || status == at::MemOverlapStatus::Partial;
      return t;
    });
    return found;
  };
  bool any = false;
  for (const auto i : op.written) {
    const auto& value = stack[first + i];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    for (size_t j = 0; j < op.arguments.size(); ++j) any |= j != i && overlaps(value.toTensor(), stack[first + j]);
  }
  // Of lists, only those of one tensor can: others would have come one by one.
  for (const auto i : op.written_lists) {
    const auto list = stack[first + i].toListRef();
    for (size_t j = 0; list.size() == 1 && j < op.arguments.size(); ++j) {
      any |= j != i && overlaps(list[0].toTensor(), stack[first + j]);
    }
  }
  if (!any || draws(op)) return;
  Host host(/*filled=*/false);
  auto copy = on_host(host, op, stack, first);
  try {
    op.handle.callBoxed(&copy);
  } catch (const c10::Error& error) {
    // The zeros that stand for the values may be refused, too.
    const std::string message = error.what_without_backtrace();
    const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
    if (says("to a single memory location") || says("must not overlap")) throw;
  }
}

}  // namespace torchtpu
