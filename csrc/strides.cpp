// How the CPU lays out the results of ops whose meta kernels say otherwise, or do not know: a convolution's as the kernel does
// that it picks, others' in the memory format of an argument.

#include "call.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/bitwise_and.h>
#include <c10/util/strides.h>

#include <string>
#include <unordered_map>

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

at::Tensor in_rows(const at::Tensor& result, const torch::jit::Stack&, size_t) {
  return in_format(result, at::MemoryFormat::Contiguous);
}

// In the memory format that the strides of the argument at `place` suggest.
template <size_t place>
at::Tensor as_suggested(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  return in_format(result, stack[first + place].toTensor().suggest_memory_format());
}

// What lies in rows and in another format, as one channel does, is normalized in rows.
at::Tensor normalized(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  return stack[first].toTensor().is_contiguous() ? in_rows(result, stack, first) : as_suggested<0>(result, stack, first);
}

// Without `dims` all elements are one row.
at::Tensor rolled(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  const bool one_row = stack[first + 2].toIntVector().empty();
  return one_row ? in_rows(result, stack, first) : as_suggested<0>(result, stack, first);
}

// As PyTorch lays out whatever is computed by element of the first two arguments, if both are tensors.
at::Tensor by_element(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
  if (!stack[first].isTensor() || !stack[first + 1].isTensor()) return result;
  const auto like = [](const at::Tensor& t) {
    return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(at::kBool).device(at::kMeta));
  };
  const auto made = at::bitwise_and(like(stack[first].toTensor()), like(stack[first + 1].toTensor()));
  return at::empty_strided(made.sizes(), made.strides(), result.options());
}

}  // namespace

ResultLayout layout_on_cpu(const std::string& name) {
  static const std::unordered_map<std::string, ResultLayout> known = {
      {"aten::convolution", &convolved},
      {"aten::roll", &rolled},
      {"aten::normal", &in_rows},
      {"aten::glu_backward", &in_rows},
      {"aten::copysign", &by_element},
      {"aten::div", &by_element},
      {"aten::floor_divide", &by_element},
      {"aten::native_dropout_backward", &by_element},
      {"aten::pixel_shuffle", &as_suggested<0>},
      {"aten::channel_shuffle", &as_suggested<0>},
      {"aten::native_channel_shuffle", &as_suggested<0>},
      {"aten::max_unpool2d", &as_suggested<0>},
      {"aten::reflection_pad2d", &as_suggested<0>},
      {"aten::reflection_pad3d", &as_suggested<0>},
      {"aten::replication_pad2d", &as_suggested<0>},
      {"aten::replication_pad3d", &as_suggested<0>},
      {"aten::reflection_pad2d_backward", &as_suggested<1>},
      {"aten::reflection_pad3d_backward", &as_suggested<1>},
      {"aten::replication_pad2d_backward", &as_suggested<1>},
      {"aten::replication_pad3d_backward", &as_suggested<1>},
      {"aten::native_batch_norm", &normalized},
      {"aten::_native_batch_norm_legit", &normalized},
      {"aten::_native_batch_norm_legit_no_training", &normalized},
      {"aten::_batch_norm_with_update", &normalized},
      {"aten::native_batch_norm_backward", &as_suggested<1>},
      {"aten::batch_norm_backward", &as_suggested<1>},
  };
  const auto found = known.find(name);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace torchtpu
