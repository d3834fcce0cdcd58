// How the CPU lays a convolution's result out: as the kernel does that it picks, of which meta kernels know nothing.

#include "shim.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/ConvUtils.h>
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

}  // namespace

at::Tensor laid_out_as_on_cpu(const at::Tensor& result, const torch::jit::Stack& stack, size_t first) {
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

}  // namespace torchtpu
