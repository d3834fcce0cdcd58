// The Kaiser window, which PyTorch makes of a range through a kernel that each device has to bring, in its ops.

#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Math.h>
#include <ATen/native/UnaryOps.h>

namespace torchtpu {
namespace {

// Where position `n` of the range is, i0(beta * sqrt(1 - x^2)) / i0(beta) with x = 2n / (length - 1) - 1.
void kaiser_window(at::TensorIteratorBase& iterator, const int64_t length, const double beta) {
  const auto x = iterator.input(0) * (2.0 / static_cast<double>(length - 1)) - 1.0;
  const auto height = (1.0 - x * x).clamp_min(0.0).sqrt();
  iterator.output(0).copy_(at::i0(height * beta) / calc_i0<double>(beta));
}

}  // namespace
}  // namespace torchtpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &torchtpu::kaiser_window)
}  // namespace at::native
