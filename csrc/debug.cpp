// How a thread runs its calls, and what debug mode checks that a device does not.

#include <torch/csrc/utils/python_compat.h>

#include "call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/ThreadLocalPythonObjects.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SafePyObject.h>
#include <torch/csrc/PyInterpreter.h>

#include <atomic>
#include <string>
#include <unordered_set>

namespace torchtpu {
namespace {

using at::impl::ThreadLocalPythonObjects;

const char* const kMode = "torchtpu.eager_mode";
std::atomic<uint32_t> default_mode{0};
std::atomic<bool> some_thread_differs{false};

}  // namespace

uint32_t mode() {
  if (!some_thread_differs.load(std::memory_order_relaxed) || !ThreadLocalPythonObjects::contains(kMode)) {
    return default_mode.load(std::memory_order_relaxed);
  }
  // A small integer, which never changes: no lock is needed to read it.
  return static_cast<uint32_t>(PyLong_AsLong(ThreadLocalPythonObjects::get(kMode)->ptr(getPyInterpreter())));
}

void set_mode(uint32_t mode) {
  some_thread_differs = true;
  ThreadLocalPythonObjects::set(
      kMode, std::make_shared<c10::SafePyObject>(PyLong_FromLong(static_cast<long>(mode)), getPyInterpreter()));
}

void set_default_mode(uint32_t mode) {
  default_mode = mode;
}

namespace {

// Without the underscore of what works in place.
std::string functional_name(const c10::OperatorHandle& op) {
  auto name = op.operator_name().name;
  if (name.back() == '_') name.pop_back();
  return name;
}

// Places in a tensor, by what PyTorch's schemas call them.
bool holds_places(const c10::Argument& argument, const c10::IValue& value) {
  const auto& name = argument.name();
  if (name != "index" && name != "indices" && name != "target") return false;
  const auto integral = [](const at::Tensor& t) {
    return t.defined() && c10::isIntegralType(t.scalar_type(), /*includeBool=*/false);
  };
  if (value.isTensor()) return integral(value.toTensor());
  if (!value.isOptionalTensorList()) return false;
  for (const std::optional<at::Tensor>& t : value.toOptionalTensorList()) {
    if (t.has_value() && integral(*t)) return true;
  }
  return false;
}

// Ops that refuse some values on the CPU, whatever they are called with. Not `linalg_eigvals`: there NaN ends the process.
bool checks_values(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> names{
      "aten::_assert_async", "aten::_ctc_loss",            "aten::_linalg_eigh",   "aten::_linalg_svd",
      "aten::bernoulli",     "aten::binary_cross_entropy", "aten::histc",          "aten::linalg_eig",
      "aten::linalg_pinv",   "aten::lu_unpack",            "aten::masked_scatter", "aten::multinomial",
      "aten::normal",        "aten::poisson",              "aten::searchsorted",   "aten::segment_reduce"};
  return names.count(functional_name(op)) != 0;
}

// Whether it may divide integers by zero.
bool divides_integers(const c10::OperatorHandle& op, const c10::IValue& dividend) {
  static const std::unordered_set<std::string> names{"aten::div", "aten::floor_divide", "aten::fmod", "aten::remainder"};
  return names.count(functional_name(op)) != 0 && dividend.isTensor() && dividend.toTensor().defined() &&
      c10::isIntegralType(dividend.toTensor().scalar_type(), /*includeBool=*/false);
}

// Draws from a generator of the CPU's own, so that the script's does not notice.
c10::IValue on_host(const c10::IValue& value, const c10::Argument& argument) {
  if (describe(argument).kind == Kind::Generator) return at::detail::createCPUGenerator();
  if (value.isDevice()) return c10::Device(c10::kCPU);
  return map_tensors(value, [](const at::Tensor& t) { return t.defined() ? t.to(c10::kCPU, t.scalar_type()) : t; });
}

}  // namespace

void check_values(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  if (arguments.empty()) return;
  bool any = checks_values(op) || divides_integers(op, stack[first]);
  for (size_t i = 0; i < arguments.size(); ++i) any = any || holds_places(arguments[i], stack[first + i]);
  if (!any) return;
  const at::AutoDispatchBelowADInplaceOrView below;
  torch::jit::Stack copy;
  for (size_t i = 0; i < arguments.size(); ++i) copy.push_back(on_host(stack[first + i], arguments[i]));
  try {
    op.callBoxed(&copy);
  } catch (const c10::NotImplementedError&) {
    // The CPU has nothing to say.
  }
}

}  // namespace torchtpu
