// What lies in memory otherwise than strides say: sparse, quantised and strided nested tensors, which the device does not have.

#include "shim.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <string>

namespace torchtpu {
namespace {

[[noreturn]] void refuse_sparse_tensor(const std::string& name) {
  C10_THROW_ERROR(
      NotImplementedError,
      name + ": there are no sparse tensors on \"tpu\"; keep this on the CPU, or make it dense (`.to_dense()`, `sparse=False`)");
}

[[noreturn]] void refuse_quantized_tensor(const std::string& name) {
  C10_THROW_ERROR(
      NotImplementedError,
      name + ": there are no quantised tensors on \"tpu\"; keep this on the CPU, or dequantise it (`.dequantize()`)");
}

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse_sparse_tensor(op.operator_name().name);
}

void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse_quantized_tensor(op.operator_name().name);
}

void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack*) {
  C10_THROW_ERROR(
      NotImplementedError,
      op.operator_name().name + ": there are no nested tensors with layout=torch.strided on \"tpu\"; keep this on the CPU, or "
                                "make it with layout=torch.jagged");
}

}  // namespace

void refuse_to_make_others(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name().name;
  if (name.find("to_sparse") != std::string::npos) refuse_sparse_tensor(name);
  if (name.rfind("aten::quantize_per_", 0) == 0) refuse_quantized_tensor(name);
}

void register_layouts() {
  using torch::CppFunction;
  using torch::Library;
  static Library coo(Library::IMPL, "_", c10::DispatchKey::SparsePrivateUse1, __FILE__, __LINE__);
  static Library rows(Library::IMPL, "_", c10::DispatchKey::SparseCsrPrivateUse1, __FILE__, __LINE__);
  static Library quantized(Library::IMPL, "_", c10::DispatchKey::QuantizedPrivateUse1, __FILE__, __LINE__);
  static Library nested(Library::IMPL, "_", c10::DispatchKey::NestedTensorPrivateUse1, __FILE__, __LINE__);
  coo.fallback(CppFunction::makeFromBoxedFunction<&refuse_sparse>());
  rows.fallback(CppFunction::makeFromBoxedFunction<&refuse_sparse>());
  quantized.fallback(CppFunction::makeFromBoxedFunction<&refuse_quantized>());
  nested.fallback(CppFunction::makeFromBoxedFunction<&refuse_nested>());
  // Those that would make one: autograd asks a result for its sizes where nothing may be raised.
  static Library makers(Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const char* op :
       {"_nested_tensor_from_tensor_list", "_nested_tensor_from_mask", "_nested_from_padded", "_nested_view_from_buffer"}) {
    makers.impl(op, CppFunction::makeFromBoxedFunction<&refuse_nested>());
  }
}

}  // namespace torchtpu
