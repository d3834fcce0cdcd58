// Automatic mixed precision: which ops run in lower precision, by PyTorch's own lists.

#include "shim.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace torchtpu {

using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

namespace {

at::Tensor refuse_binary_cross_entropy(
    const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: the sigmoid before them can "
      "overflow in lower precision. Use binary_cross_entropy_with_logits, or BCEWithLogitsLoss.");
}

// Runs an op in single precision; `float64` stays.
void run_in_single(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastPrivateUse1);
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (value.isTensor()) value = at::autocast::cached_cast(at::kFloat, value.toTensor(), kTpu);
  }
  op.callBoxed(stack);
}

// The same, with all results, places and channels among them, in the type of the first argument: what torchvision's own
// kernels give.
void run_in_single_and_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastPrivateUse1);
  const size_t first = stack->size() - op.schema().arguments().size();
  const auto dtype = (*stack)[first].toTensor().scalar_type();
  run_in_single(op, stack);
  for (size_t i = first; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (value.isTensor()) value = value.toTensor().to(dtype);
  }
}

// torchvision has kernels for autocast on the devices that it knows. These wait for its ops if it is loaded later.
void register_torchvision() {
  const auto key = c10::DispatchKey::AutocastPrivateUse1;
  static torch::Library m(torch::Library::IMPL, "torchvision", key, __FILE__, __LINE__);
  m.impl("nms", torch::CppFunction::makeFromBoxedFunction<&run_in_single>());
  for (const auto* name : {"roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_in_single_and_back>());
  }
}

}  // namespace

void register_autocast() {
  using namespace at::autocast;
  static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  all.fallback(torch::CppFunction::makeFallthrough());
  static torch::Library m(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
#undef LOWER_PRECISION
#define SINGLE_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(SINGLE_PRECISION)
#undef SINGLE_PRECISION
#define SINGLE_UNLESS_SAID(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(SINGLE_UNLESS_SAID)
#undef SINGLE_UNLESS_SAID
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(WIDEST)
#undef WIDEST
  // As on the CPU. What it is made of rounds the logarithms to the logits' type, which it asks for.
  KERNEL_PRIVATEUSEONE(cross_entropy_loss, fp32)
  m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
  register_torchvision();
}

}  // namespace torchtpu
