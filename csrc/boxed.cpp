// The one kernel: writes a call down for the core, asks PyTorch's meta kernels what it gives when the core sees it for the
// first time, and wraps the results.

#include <torch/csrc/Exceptions.h>

#include "shim.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_conj_physical.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/nonzero.h>
#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_set>

namespace torchtpu {
namespace {

// How an argument of a schema is written.
enum class Kind : uint8_t { Plain, Number, DType, Layout, MemoryFormat, Device, Generator };

struct Argument {
  Kind kind = Kind::Plain;
  bool elements = false;   // of a list
  bool tensor = false;     // a number in its place is a 0-d tensor
  bool has_default = false;
  double value = 0;        // of a default that is a number
};

// An op as the core numbers it.
struct Op {
  uint32_t number = 0;
  c10::OperatorHandle handle;
  std::vector<Argument> arguments;
  std::vector<size_t> written;  // arguments that are returned
  bool in_place_list = false;
  bool returns_written = false;
  bool indexed = false;  // takes a list of indices

  explicit Op(c10::OperatorHandle h) : handle(std::move(h)) {}
};

Kind kind_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return Kind::Number;
    case c10::TypeKind::ScalarTypeType:
      return Kind::DType;
    case c10::TypeKind::LayoutType:
      return Kind::Layout;
    case c10::TypeKind::MemoryFormatType:
      return Kind::MemoryFormat;
    case c10::TypeKind::DeviceObjType:
      return Kind::Device;
    case c10::TypeKind::GeneratorType:
      return Kind::Generator;
    default:
      return Kind::Plain;
  }
}

Argument describe(const c10::Argument& argument) {
  Argument result;
  auto type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (const auto list = type->cast<c10::ListType>()) {
    result.elements = true;
    type = list->getElementType();
  }
  result.kind = kind_of(*type);
  result.tensor = type->kind() == c10::TypeKind::TensorType;
  const auto& value = argument.default_value();
  if (value.has_value() && value->isScalar() && !value->isComplexDouble()) {
    result.has_default = true;
    result.value = value->toScalar().toDouble();
  }
  return result;
}

// A call being written down.
class Writer {
 public:
  explicit Writer(const Op& op) : op_(op) {
    const auto dtype = static_cast<uint64_t>(c10::typeMetaToScalarType(c10::get_default_dtype()));
    const auto precision = static_cast<uint64_t>(at::globalContext().float32MatmulPrecision());
    words.push_back(op.number | dtype << 32 | precision << 40);
  }

  // Everything from `first` on; finds the device on the way: that of the tensors, or what the call says.
  void arguments(const torch::jit::Stack& stack, size_t first) {
    for (size_t i = 0; i < op_.arguments.size(); ++i) {
      argument(stack[first + i], op_.arguments[i]);
    }
  }

  c10::SmallVector<uint64_t, 64> words;
  c10::SmallVector<TpuCell, 8> cells;
  c10::SmallVector<uint64_t, 8> scalars;
  void* generator = nullptr;
  c10::DeviceIndex device = -1;

 private:
  void argument(const c10::IValue& value, const Argument& as) {
    switch (as.kind) {
      case Kind::DType:
        return value.isInt() ? code(TPU_DTYPE, value.toInt()) : none();
      case Kind::Layout:
        return value.isInt() ? code(TPU_LAYOUT, 0) : none();
      case Kind::MemoryFormat:
        return value.isInt() ? code(TPU_MEMORY_FORMAT, value.toInt()) : none();
      case Kind::Device:
        if (value.isDevice() && value.toDevice().has_index()) note(value.toDevice().index());
        return value.isDevice() ? code(TPU_DEVICE, 0) : none();
      case Kind::Generator:
        if (value.isGenerator() && value.toGenerator().defined() && value.toGenerator().device().type() == kTpu) {
          generator = value.toGenerator().unsafeGetGeneratorImpl();
        }
        return none();
      default:
        return plain(value, as);
    }
  }

  void plain(const c10::IValue& value, const Argument& as) {
    if (value.isTensor()) return tensor(value.toTensor());
    if (value.isNone()) return none();
    if (value.isBool()) return code(TPU_BOOL, value.toBool() ? 1 : 0);
    if (value.isInt()) return as.kind == Kind::Number ? lifted(value.toInt(), as) : integer(value.toInt());
    if (value.isDouble()) return lifted(value.toDouble(), as);
    if (value.isComplexDouble()) return complex(value.toComplexDouble());
    if (value.isString()) return string(value.toStringRef());
    if (value.isTensorList()) {
      const auto list = value.toTensorList();
      code(TPU_LIST, static_cast<int64_t>(list.size()));
      for (const at::Tensor& t : list) tensor(t);
      return;
    }
    if (value.isIntList()) {
      const auto list = value.toIntList();
      code(TPU_LIST, static_cast<int64_t>(list.size()));
      for (const int64_t i : list) integer(i);
      return;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(value.isList(), "an argument of kind ", value.tagKind(), " cannot go to \"tpu\"");
    const auto list = value.toListRef();
    code(TPU_LIST, static_cast<int64_t>(list.size()));
    for (const auto& element : list) {
      // Indices may lie on the CPU, as on CUDA.
      const bool index = value.isOptionalTensorList() && element.isTensor() && element.toTensor().defined() &&
          element.toTensor().device().is_cpu();
      plain(index ? c10::IValue(brought(element.toTensor())) : element, as);
    }
  }

  const at::Tensor& brought(const at::Tensor& t) {
    const auto target = c10::Device(kTpu, device < 0 ? current_device() : device);
    kept_.push_back(t.to(target));
    return kept_.back();
  }

  void none() {
    words.push_back(TPU_NONE);
  }
  void code(TpuTag tag, int64_t value) {
    words.push_back(tag | static_cast<uint64_t>(value) << 8);
  }
  void integer(int64_t value) {
    words.push_back(TPU_INT);
    words.push_back(static_cast<uint64_t>(value));
  }
  static uint64_t bits(double value) {
    uint64_t result = 0;
    std::memcpy(&result, &value, sizeof(result));
    return result;
  }

  // A number that equals the default, or is zero where the default is one (`beta`, `alpha`), decides the program, so that
  // PyTorch's shortcuts hold; any other is an argument of it and decides nothing.
  static bool decides(double value, const Argument& as) {
    return as.has_default && (value == as.value || (as.value == 1 && value == 0));
  }
  void lifted(int64_t value, const Argument& as) {
    if (decides(static_cast<double>(value), as)) return integer(value);
    words.push_back(TPU_LIFTED);
    scalars.push_back(static_cast<uint64_t>(value));
  }
  void lifted(double value, const Argument& as) {
    if (decides(value, as)) {
      words.push_back(TPU_FLOAT);
      words.push_back(bits(value));
      return;
    }
    words.push_back(TPU_LIFTED | 1 << 8);
    scalars.push_back(bits(value));
  }
  void complex(c10::complex<double> value) {
    words.push_back(TPU_COMPLEX);
    words.push_back(bits(value.real()));
    words.push_back(bits(value.imag()));
  }
  void string(const std::string& text) {
    code(TPU_STRING, static_cast<int64_t>(text.size()));
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
      words.push_back(word);
    }
  }

  void note(c10::DeviceIndex index) {
    if (device < 0) device = index;
    TORCH_CHECK(
        device == index, "Expected all tensors to be on the same device, but found at least two devices, tpu:",
        static_cast<int>(device), " and tpu:", static_cast<int>(index), "!");
  }

  void tensor(const at::Tensor& t) {
    if (!t.defined()) return none();
    if (t.device().type() != kTpu) return host(t);
    note(t.device().index());
    const auto cell = cell_of(*t.storage().unsafeGetStorageImpl());
    size_t slot = 0;
    while (slot < cells.size() && cells[slot] != cell) ++slot;
    if (slot == cells.size()) cells.push_back(cell);
    const auto sizes = t.sizes();
    const auto strides = t.strides();
    words.push_back(
        TPU_TENSOR | static_cast<uint64_t>(t.scalar_type()) << 8 | static_cast<uint64_t>(sizes.size()) << 16 |
        static_cast<uint64_t>(slot) << 32);
    words.push_back(static_cast<uint64_t>(t.storage_offset()));
    for (const auto s : sizes) words.push_back(static_cast<uint64_t>(s));
    for (const auto s : strides) words.push_back(static_cast<uint64_t>(s));
  }

  // A tensor without dimensions on the CPU goes along as a number; larger ones are an error, as on CUDA.
  void host(const at::Tensor& t) {
    TORCH_CHECK(
        t.dim() == 0 && t.device().is_cpu(),
        "Expected all tensors to be on the same device, but found at least two devices, tpu:",
        static_cast<int>(device < 0 ? current_device() : device), " and ", t.device(), "!");
    const auto value = at::_local_scalar_dense(t);
    const uint64_t wrapped = t.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0;
    const bool is_float = value.isFloatingPoint();
    if (value.isComplex()) return complex(value.toComplexDouble());
    words.push_back(
        TPU_HOST | static_cast<uint64_t>(t.scalar_type()) << 8 | (is_float ? 1ull : 0ull) << 16 | wrapped << 17);
    scalars.push_back(is_float ? bits(value.toDouble()) : static_cast<uint64_t>(value.toLong()));
  }

  const Op& op_;
  c10::SmallVector<at::Tensor, 2> kept_;
};

// Whether a meta kernel in Python says that it cannot know; the error is then gone.
bool forget_not_implemented(python_error& error) {
  const auto state = PyGILState_Ensure();
  error.restore();
  const bool unknown = PyErr_ExceptionMatches(PyExc_NotImplementedError) != 0;
  if (unknown) {
    PyErr_Clear();
  } else {
    error.persist();
  }
  PyGILState_Release(state);
  return unknown;
}

// What PyTorch says that a call gives, from its meta kernel.
class Expectation {
 public:
  // Nothing is known.
  Expectation() = default;

  // Runs the meta kernel on tensors like the arguments. Its errors are PyTorch's own, and the user's.
  Expectation(const Op& op, const torch::jit::Stack& stack, size_t first) {
    torch::jit::Stack copy;
    for (size_t i = 0; i < op.arguments.size(); ++i) copy.push_back(like(stack[first + i]));
    try {
      const at::AutoDispatchBelowAutograd below;
      op.handle.callBoxed(&copy);
    } catch (const c10::NotImplementedError&) {
      return;
    } catch (python_error& error) {
      if (!forget_not_implemented(error)) throw;
      return;
    }
    known = true;
    for (const auto& value : copy) collect(value);
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
  c10::IValue like(const c10::IValue& value) {
    if (value.isTensor()) return meta(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : value.toTensorList()) list.push_back(meta(t));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& t : value.toOptionalTensorList()) {
        list.push_back(t.has_value() ? std::optional<at::Tensor>(meta(*t)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice()) return c10::Device(c10::DeviceType::Meta);
    if (value.isGenerator()) return {};
    return value;
  }

  at::Tensor meta(const at::Tensor& t) {
    if (!t.defined() || t.device().type() != kTpu) return t;
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
};

// An `out=` tensor of another size than the result is resized, as everywhere in PyTorch.
bool resize_outputs(const Op& op, const Expectation& expectation, torch::jit::Stack& stack, size_t first) {
  bool resized = false;
  for (size_t i = 0; i < op.written.size() && i < expectation.tensors.size(); ++i) {
    const auto& value = stack[first + op.written[i]];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const auto& target = value.toTensor();
    const auto& want = expectation.tensors[i];
    if (want.defined() && target.sizes() != want.sizes()) {
      target.resize_(want.sizes());
      resized = true;
    }
  }
  return resized;
}

void push_results(const Op& op, torch::jit::Stack& stack, size_t first, const TpuCall& call) {
  if (op.returns_written) {
    torch::jit::Stack returned;
    for (const auto i : op.written) returned.push_back(stack[first + i]);
    stack.resize(first);
    for (auto& value : returned) stack.push_back(std::move(value));
    return;
  }
  stack.resize(first);
  const auto& returns = op.handle.schema().returns();
  size_t next = 0;
  const auto device = static_cast<c10::DeviceIndex>(call.device);
  for (const auto& result : returns) {
    if (result.type()->kind() == c10::TypeKind::TensorType) {
      TORCH_INTERNAL_ASSERT(next < call.num_results, "too few results of ", op.handle.schema().name());
      const auto& made = call.results[next++];
      stack.emplace_back(made.cell == 0 ? at::Tensor() : wrap(made, device));
      continue;
    }
    c10::List<at::Tensor> list;
    const size_t rest = returns.size() - 1;
    while (next + rest < call.num_results) list.push_back(wrap(call.results[next++], device));
    stack.emplace_back(std::move(list));
  }
}

int32_t attempt(const Op& op, Writer& writer, const Expectation* expectation, TpuCall& call) {
  call = TpuCall{};
  call.words = writer.words.data();
  call.num_words = writer.words.size();
  call.cells = writer.cells.data();
  call.num_cells = writer.cells.size();
  call.scalars = writer.scalars.data();
  call.num_scalars = writer.scalars.size();
  call.generator = writer.generator;
  call.location = python_location();
  call.mode = mode();
  call.device = writer.device < 0 ? current_device() : writer.device;
  if (expectation != nullptr) {
    call.has_expected = expectation->known ? 1 : 2;
    call.expected = expectation->types.data();
    call.num_expected = expectation->types.size();
  }
  return core().dispatch(&call);
}

// Runs a call; false if the core has no lowering for it, and nothing has happened.
bool run(const Op& op, torch::jit::Stack& stack) {
  const size_t first = stack.size() - op.arguments.size();
  TpuCall call;
  {
    Writer writer(op);
    writer.arguments(stack, first);
    const auto status = attempt(op, writer, nullptr, call);
    if (status == TPU_OK) {
      push_results(op, stack, first, call);
      return true;
    }
    if (status == TPU_NO_LOWERING) return false;
    if (status != TPU_NEEDS_RESULTS) raise_last_error();
  }
  // Lists written in place cost more to ask about than PyTorch has to say.
  const Expectation expectation = op.in_place_list ? Expectation() : Expectation(op, stack, first);
  if (op.returns_written) resize_outputs(op, expectation, stack, first);
  Writer writer(op);
  writer.arguments(stack, first);
  const auto status = attempt(op, writer, &expectation, call);
  if (status == TPU_NO_LOWERING) return false;
  check(status);
  push_results(op, stack, first, call);
  return true;
}

// Whether an op of the table needs a kernel of its own here.
bool wanted(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return false;
  bool tensor = false;
  bool device = false;
  for (const auto& argument : op.schema().arguments()) {
    const auto described = describe(argument);
    tensor = tensor || described.tensor;
    device = device || described.kind == Kind::Device;
  }
  for (const auto& result : op.schema().returns()) {
    auto type = result.type();
    if (const auto list = type->cast<c10::ListType>()) type = list->getElementType();
    if (type->kind() != c10::TypeKind::TensorType) return false;
  }
  // What makes tensors, perhaps elsewhere, is composed of `empty` and writes.
  return !(device && (tensor || op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)));
}

std::unique_ptr<Op> prepare(uint32_t number, c10::OperatorHandle handle) {
  auto op = std::make_unique<Op>(std::move(handle));
  op->number = number;
  const auto& schema = op->handle.schema();
  std::vector<const char*> names;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    names.push_back(argument.name().c_str());
    op->arguments.push_back(describe(argument));
    op->indexed = op->indexed || argument.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors());
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) op->written.push_back(i);
  }
  const auto& returns = schema.returns();
  const auto* alias = returns.empty() ? nullptr : returns.front().alias_info();
  op->returns_written = returns.empty() || (alias != nullptr && alias->isWrite());
  op->in_place_list = returns.empty();
  check(core().op_bind(number, names.data(), names.size()));
  if (returns.empty()) op->written.clear();
  return op;
}

// Replaces masks among indices by the places they pick, which have to be read back for their number. False if there are
// none.
bool expand_masks(torch::jit::Stack& stack, size_t first) {
  bool any = false;
  for (size_t i = first; i < stack.size(); ++i) {
    if (!stack[i].isOptionalTensorList()) continue;
    c10::List<std::optional<at::Tensor>> places;
    for (const std::optional<at::Tensor>& index : stack[i].toOptionalTensorList()) {
      const auto mask = index.has_value() && index->defined() &&
          (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
      if (!mask) {
        places.push_back(index);
        continue;
      }
      any = true;
      for (const auto& column : index->nonzero().unbind(1)) places.push_back(column);
    }
    stack[i] = std::move(places);
  }
  return any;
}

struct Kernel final : c10::OperatorKernel {
  explicit Kernel(std::unique_ptr<Op> op) : op_(std::move(op)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const auto arguments = torch::jit::last(*stack, op_->arguments.size());
    if (std::any_of(arguments.begin(), arguments.end(), holds_lazy)) return run_on_values(handle, *stack);
    run_plain(handle, *stack);
  }

 private:
  static constexpr c10::DispatchKeySet kLazyViews{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative};

  void run_plain(const c10::OperatorHandle& handle, torch::jit::Stack& stack) const {
    if ((mode() & TPU_DEBUG) != 0) check_indices(handle, stack);
    if (run(*op_, stack)) return;
    const bool retry = op_->indexed && expand_masks(stack, stack.size() - op_->arguments.size());
    if (!retry || !run(*op_, stack)) run_on_host(handle, &stack);
  }

  // PyTorch lets lazily conjugated and negated tensors through to kernels of ops like `mm`, which other devices can
  // compute on them as they stand. Here they are computed first, and what was written to them is written back.
  void run_on_values(const c10::OperatorHandle& handle, torch::jit::Stack& stack) const {
    const size_t first = stack.size() - op_->arguments.size();
    std::vector<std::pair<at::Tensor, at::Tensor>> written;
    for (size_t i = 0; i < op_->arguments.size(); ++i) {
      auto& value = stack[first + i];
      if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& t : value.toTensorList()) list.push_back(computed(t));
        value = std::move(list);
      } else if (value.isTensor() && is_lazy(value.toTensor())) {
        const auto lazy = value.toTensor();
        value = computed(lazy);
        const bool writes = std::find(op_->written.begin(), op_->written.end(), i) != op_->written.end();
        if (writes) written.emplace_back(lazy, value.toTensor());
      }
    }
    run_plain(handle, stack);
    for (const auto& [lazy, value] : written) {
      lazy.copy_(value);
      for (size_t i = first; i < stack.size(); ++i) {
        if (stack[i].isTensor() && stack[i].toTensor().is_same(value)) stack[i] = lazy;
      }
    }
  }

  static bool is_lazy(const at::Tensor& t) {
    return t.defined() && t.key_set().has_any(kLazyViews);
  }

  static bool holds_lazy(const c10::IValue& value) {
    if (value.isTensor()) return is_lazy(value.toTensor());
    if (!value.isTensorList()) return false;
    const auto list = value.toListRef();
    return std::any_of(list.begin(), list.end(), [](const c10::IValue& t) { return is_lazy(t.toTensor()); });
  }

  static at::Tensor computed(const at::Tensor& t) {
    if (!is_lazy(t)) return t;
    if (t.is_neg()) return at::neg(computed(t._neg_view()));
    return at::_conj_physical(t.conj());
  }

  std::unique_ptr<Op> op_;
};

}  // namespace

void copy_on_device(const at::Tensor& target, const at::Tensor& source) {
  static const auto op = [] {
    uint32_t number = 0;
    while (std::string(core().op_name(number)) != "aten::copy_.default") ++number;
    return prepare(number, c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  }();
  torch::jit::Stack stack{target, source, false};
  if (!run(*op, stack)) raise_last_error();
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  record_fallback(op);
  at::native::cpu_fallback(op, stack);
}

void register_kernels(torch::Library& aten, const std::unordered_set<std::string>& taken) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (uint32_t number = 0; number < core().op_count(); ++number) {
    const std::string name = core().op_name(number);
    const auto dot = name.find('.');
    const auto overload = name.substr(dot + 1);
    const c10::OperatorName full(name.substr(0, dot), overload == "default" ? "" : overload);
    const auto handle = dispatcher.findSchema(full);
    if (!handle.has_value() || name.rfind("aten::", 0) != 0 || taken.count(name) != 0 || !wanted(*handle)) continue;
    auto kernel = std::make_unique<Kernel>(prepare(number, *handle));
    const auto boxed = c10::BoxedKernel::makeFromFunctor<Kernel>(std::move(kernel));
    const auto short_name = overload == "default" ? full.name : full.name + "." + overload;
    aten.impl(short_name.c_str(), torch::CppFunction::makeFromBoxedKernel(boxed));
  }
}

at::Tensor wrap(const TpuResult& result, c10::DeviceIndex device) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(result.nbytes),
      adopt(result.cell, result.address, device), allocator(), /*resizable=*/true);
  const auto dtype = c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(result.type.dtype));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      {result.type.sizes, result.type.rank}, {result.type.strides, result.type.rank});
  return tensor;
}

}  // namespace torchtpu
