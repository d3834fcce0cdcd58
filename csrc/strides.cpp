// How the CPU lays out the results of ops whose meta kernels say otherwise, or do not know; the op table says of which.

#include "call.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/bitwise_and.h>
#include <c10/util/strides.h>

namespace torchtpu {
namespace {

// A tensor on the CPU without memory, to ask with. Complex numbers are convolved part by part, which are real.
at::Tensor likeness(const at::Tensor& t, c10::IntArrayRef strides) {
  const auto dtype = c10::scalarTypeToTypeMeta(c10::toRealValueType(t.scalar_type()));
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), at::detail::computeStorageNbytes(t.sizes(), strides, dtype.itemsize()),
      c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)), nullptr, /*resizable=*/false);
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), strides);
  return made;
}

// Lines are convolved as images one high.
at::Tensor as_image(const at::Tensor& t) {
  return t.dim() == 3 ? t.unsqueeze(2) : t;
}

at::Tensor convolved(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  const auto& given = stack[first].toTensor();
  const auto rows = c10::contiguous_strides(given.sizes());  // how PyTorch wants lines
  const auto input = likeness(given, given.dim() == 3 ? c10::IntArrayRef(rows) : given.strides());
  const auto weight = likeness(stack[first + 1].toTensor(), stack[first + 1].toTensor().strides());
  auto bias = stack[first + 2].toOptional<at::Tensor>();
  if (bias.has_value() && bias->defined()) bias = likeness(*bias, bias->strides());
  const auto numbers = [&](size_t i) { return stack[first + i].toSymIntVector(); };
  const auto backend = at::native::select_conv_backend(
      input, weight, bias, numbers(3), numbers(4), numbers(5), stack[first + 6].toBool(), numbers(7),
      stack[first + 8].toInt(), {});
  const auto format = at::native::_determine_backend_memory_format(as_image(input), as_image(weight), backend);
  const auto image = at::empty(as_image(result).sizes(), result.options().memory_format(format));
  return result.dim() == 3 ? image.squeeze(2) : image;
}

at::Tensor in_format(const at::Tensor& result, at::MemoryFormat format) {
  return at::empty(result.sizes(), result.options().memory_format(format));
}

at::Tensor in_rows(const at::Tensor& result) {
  return in_format(result, at::MemoryFormat::Contiguous);
}

at::Tensor as_suggested(const at::Tensor& result, const at::Tensor& argument) {
  return in_format(result, argument.suggest_memory_format());
}

// Whether the tensors on the stack from `first` to `last` suggest one memory format.
bool suggest_the_same(const torch::jit::Stack& stack, size_t first, size_t last) {
  const auto format = [](const c10::IValue& t) { return t.toTensor().suggest_memory_format(); };
  return std::all_of(stack.begin() + first, stack.begin() + last, [&](const c10::IValue& t) {
    return format(t) == format(stack[last]);
  });
}

at::Tensor rolled(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  const bool one_row = stack[first + 2].toIntVector().empty();
  return one_row ? in_rows(result) : as_suggested(result, stack[first].toTensor());
}

at::Tensor by_element(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  if (!stack[first].isTensor() || !stack[first + 1].isTensor()) return result;
  const auto like = [](const at::Tensor& t) {
    return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(at::kBool).device(at::kMeta));
  };
  const auto made = at::bitwise_and(like(stack[first].toTensor()), like(stack[first + 1].toTensor()));
  return at::empty_strided(made.sizes(), made.strides(), result.options());
}

}  // namespace

at::Tensor laid_out(const Op& op, const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  const auto place = first + (op.strides >> 8);
  const auto decides = [&]() -> const at::Tensor& { return stack[place].toTensor(); };
  switch (op.strides & 0xff) {
    case TPU_STRIDES_META:
      return result;
    case TPU_STRIDES_ROWS:
      return in_rows(result);
    case TPU_STRIDES_SUGGESTED:
      return as_suggested(result, decides());
    case TPU_STRIDES_ROWS_OR_SUGGESTED:
      return decides().is_contiguous() && suggest_the_same(stack, first, place) ? in_rows(result)
                                                                                : as_suggested(result, decides());
    case TPU_STRIDES_BY_ELEMENT:
      return by_element(result, stack, first);
    case TPU_STRIDES_ROLLED:
      return rolled(result, stack, first);
    case TPU_STRIDES_CONVOLVED:
      return convolved(result, stack, first);
    default:
      TORCH_INTERNAL_ASSERT(false, "no layout has the number ", op.strides & 0xff);
  }
}

}  // namespace torchtpu
