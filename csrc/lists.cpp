// Calls over lists of tensors, `_foreach_*`: PyTorch's kernels for other devices count what such a call writes, and go through
// the lists one by one where the tensors do not stand by themselves. So does this one.

#include "call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/ForeachUtils.h>

#include <tuple>

namespace torchtpu {
namespace {

// Where a tensor of a list lies.
struct Span {
  const c10::StorageImpl* storage;
  size_t begin;  // in bytes
  size_t end;
  size_t place;  // in its list
  bool written;
  const at::Tensor* tensor;
};

Span span(const at::Tensor& t, size_t place, bool written) {
  size_t reach = 1;
  for (int64_t d = 0; d < t.dim(); ++d) reach += static_cast<size_t>((t.size(d) - 1) * t.stride(d));
  const auto begin = static_cast<size_t>(t.storage_offset()) * t.element_size();
  return {t.storage().unsafeGetStorageImpl(), begin, begin + reach * t.element_size(), place, written, &t};
}

std::vector<Span> spans(const Op& op, const torch::jit::Stack& stack, size_t first) {
  std::vector<Span> all;
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const auto& value = stack[first + i];
    if (!value.isTensorList()) continue;
    const bool written = std::find(op.written_lists.begin(), op.written_lists.end(), i) != op.written_lists.end();
    const auto list = value.toListRef();
    for (size_t place = 0; place < list.size(); ++place) {
      const auto& t = list[place].toTensor();
      if (t.defined() && t.numel() > 0 && t.device().type() == kTpu) all.push_back(span(t, place, written));
    }
  }
  std::sort(all.begin(), all.end(), [](const Span& a, const Span& b) {
    return std::tie(a.storage, a.begin, a.end) < std::tie(b.storage, b.begin, b.end);
  });
  return all;
}

// What writes a tensor may read the same one, as it stands.
bool disturb(const Span& a, const Span& b) {
  if (!a.written && !b.written) return false;
  return a.place != b.place || at::get_overlap_status(*a.tensor, *b.tensor) != at::MemOverlapStatus::Full;
}

// Whether the call writes tensors that it needs for others, too.
bool depends_on_order(const Op& op, const torch::jit::Stack& stack, size_t first) {
  const auto all = spans(op, stack, first);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size() && all[j].storage == all[i].storage && all[j].begin < all[i].end; ++j) {
      if (disturb(all[i], all[j])) return true;
    }
  }
  return false;
}

// How many tensors each list has; none if they differ, which is an error.
std::optional<size_t> common_length(const Op& op, const torch::jit::Stack& stack, size_t first) {
  const auto length = stack[first].toListRef().size();
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const auto& value = stack[first + i];
    if (value.isList() && value.toListRef().size() != length) return std::nullopt;
  }
  return length;
}

// Of a list, the one at `place` alone.
c10::IValue at_place(const c10::IValue& value, size_t place) {
  if (!value.isList()) return value;
  const auto all = value.toList();
  c10::impl::GenericList one(all.elementType());
  one.push_back(all.get(place));
  return one;
}

void run_one_by_one(const Op& op, torch::jit::Stack& stack, size_t first, size_t length) {
  std::vector<c10::List<at::Tensor>> results(op.handle.schema().returns().size());
  for (size_t place = 0; place < length; ++place) {
    torch::jit::Stack one;
    for (size_t i = 0; i < op.arguments.size(); ++i) one.push_back(at_place(stack[first + i], place));
    op.handle.callBoxed(&one);
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(one[i].toTensorList().get(0));
  }
  stack.resize(first);
  for (auto& list : results) stack.emplace_back(std::move(list));
}

// Only copies have their source elsewhere.
bool copies_from_elsewhere(const Op& op, torch::jit::Stack& stack, size_t first) {
  if (op.handle.operator_name().name != "aten::_foreach_copy_") return false;
  const auto target = stack[first].toTensorList().get(0);
  target.copy_(stack[first + 1].toTensorList().get(0), stack[first + 2].toBool());
  stack.resize(first);
  return true;
}

}  // namespace

bool run_in_turn(const Op& op, const Writer& writer, torch::jit::Stack& stack, size_t first) {
  if (!writer.elsewhere.has_value() && !writer.shares_storages) return false;
  const auto length = common_length(op, stack, first);
  const bool several = length.has_value() && *length > 1;
  if (writer.elsewhere.has_value()) {
    if (length == size_t{1} && copies_from_elsewhere(op, stack, first)) return true;
    if (!several) writer.refuse(*writer.elsewhere);
  } else if (!several || op.written_lists.empty() || !depends_on_order(op, stack, first)) {
    return false;
  }
  run_one_by_one(op, stack, first, *length);
  return true;
}

void count_writes(const Op& op, const torch::jit::Stack& stack, size_t first) {
  for (const auto i : op.written_lists) {
    for (const auto& value : stack[first + i].toListRef()) {
      const auto& t = value.toTensor();
      if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
    }
  }
}

void run_on_numbers(const Op& op, torch::jit::Stack& stack) {
  const auto length = static_cast<int64_t>(stack[stack.size() - op.arguments.size()].toListRef().size());
  const auto packed = stack.back().toTensor();
  TORCH_CHECK(packed.device().is_cpu(), "Expected scalars to be on CPU, got ", packed.device(), " instead.");
  c10::impl::GenericList numbers(c10::NumberType::get());
  for (const auto& number : at::native::convert_tensor_to_scalar_list(packed, length)) numbers.push_back(number);
  stack.back() = std::move(numbers);
  op.by_numbers->callBoxed(&stack);
}

}  // namespace torchtpu
