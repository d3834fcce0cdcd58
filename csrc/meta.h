// What PyTorch says that a call gives, from its meta kernels: asked for calls that the core sees for the first time.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "call.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>

#include <string>
#include <utility>

namespace torchtpu {

// Whether a meta kernel in Python says that it cannot know, or trips over itself: those that check a product of sizes give
// `torch._check` a number. What calls it raises its errors in one of two ways.
inline bool knows_nothing(PyObject* type, PyObject* error) {
  if (PyErr_GivenExceptionMatches(type, PyExc_NotImplementedError) != 0) return true;
  if (PyErr_GivenExceptionMatches(type, PyExc_TypeError) == 0 || error == nullptr) return false;
  return pybind11::str(error).cast<std::string>().rfind("cond must be a bool", 0) == 0;
}
inline bool knows_nothing(const pybind11::error_already_set& error) {
  const pybind11::gil_scoped_acquire lock;
  return knows_nothing(error.type().ptr(), error.value().ptr());
}
inline bool knows_nothing(const python_error& error) {
  const pybind11::gil_scoped_acquire lock;
  return knows_nothing(error.type, error.value);
}

class Expectation {
 public:
  // Nothing is known.
  Expectation() = default;

  // Runs the meta kernel on tensors like the arguments. Its errors are PyTorch's own, and the user's.
  Expectation(const Op& op, const torch::jit::Stack& stack, size_t first) {
    torch::jit::Stack copy;
    try {
      copy = ask(op, stack, first);
    } catch (const c10::NotImplementedError&) {
      return;
    } catch (const python_error& error) {
      if (!knows_nothing(error)) throw;
      return;
    } catch (const pybind11::error_already_set& error) {
      if (!knows_nothing(error)) throw;
      return;
    }
    known = true;
    for (const auto& value : copy) collect(value);
    if (op.strides != TPU_STRIDES_META && tensors[0].defined()) tensors[0] = laid_out(op, tensors[0], stack, first);
    for (const auto& t : tensors) {
      types.push_back(
          t.defined() ? TpuTensorType{static_cast<int32_t>(t.scalar_type()), static_cast<uint32_t>(t.dim()),
                                      t.sizes().data(), t.strides().data()}
                      : TpuTensorType{-1, 0, nullptr, nullptr});
    }
  }

  bool known = false;
  std::vector<at::Tensor> tensors;
  std::vector<TpuTensorType> types;

 private:
  // 0-d tensors of the host may stand anywhere, as on CUDA. Kernels that know this promote types by it; to those that take
  // them for a mistake (of `copysign`, `masked_fill`, `index_fill`) they are given as meta tensors, too.
  torch::jit::Stack ask(const Op& op, const torch::jit::Stack& stack, size_t first) {
    try {
      return answer(op, stack, first);
    } catch (const c10::NotImplementedError&) {
      throw;
    } catch (const std::exception&) {
      if (!met_host_scalar_) throw;
    }
    takes_host_scalars_ = true;
    return answer(op, stack, first);
  }

  torch::jit::Stack answer(const Op& op, const torch::jit::Stack& stack, size_t first) {
    // Below autograd. Errors of meta kernels in Python print tensors, which only those made in here allow under forward
    // derivatives.
    const c10::InferenceMode below;
    torch::jit::Stack copy;
    for (size_t i = 0; i < op.arguments.size(); ++i) copy.push_back(like(stack[first + i]));
    op.handle.callBoxed(&copy);
    return copy;
  }

  c10::IValue like(const c10::IValue& value) {
    if (value.isDevice()) return c10::Device(c10::DeviceType::Meta);
    if (value.isGenerator()) return {};
    return map_tensors(value, [this](const at::Tensor& t) { return meta(t); });
  }

  at::Tensor meta(const at::Tensor& t) {
    if (!t.defined()) return t;
    const bool is_host_scalar = t.device().is_cpu() && t.dim() == 0;
    met_host_scalar_ |= is_host_scalar;
    if (t.device().type() != kTpu && !(is_host_scalar && takes_host_scalars_)) return t;
    for (const auto& [real, fake] : made_) {
      if (real.is_same(t)) return fake;
    }
    const auto options = t.options().device(c10::DeviceType::Meta);
    made_.emplace_back(t, at::empty_strided(t.sizes(), t.strides(), options));
    return made_.back().second;
  }

  void collect(const c10::IValue& value) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorList()) tensors.push_back(t);
    } else if (value.isNone()) {
      tensors.emplace_back();
    }
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> made_;
  bool met_host_scalar_ = false;
  bool takes_host_scalars_ = false;
};

}  // namespace torchtpu
