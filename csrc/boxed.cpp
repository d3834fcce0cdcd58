// The one kernel: writes a call down for the core, asks PyTorch's meta kernels what it gives when the core sees it for the
// first time, and wraps the results.

#include "meta.h"

#include <ATen/native/CPUFallback.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_conj_physical.h>
#include <ATen/ops/_convolution_ops.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/nonzero.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace torchtpu {
namespace {

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

int64_t range_size(const torch::jit::Stack& stack, size_t first, c10::ScalarType dtype) {
  const auto start = stack[first].toScalar();
  const auto end = stack[first + 1].toScalar();
  const auto step = stack[first + 2].toScalar();
  return dtype == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                            : at::native::compute_arange_size<double>(start, end, step);
}

void push_results(const Op& op, torch::jit::Stack& stack, size_t first, const TpuCall& call) {
  const auto device = static_cast<c10::DeviceIndex>(call.device);
  if (op.over_lists) count_writes(op, stack, first);
  if (op.returns_written) {
    // Results whose sizes are data are new: what was given for them learns its size now.
    std::vector<at::Tensor> made;
    for (size_t i = 0; i < call.num_results; ++i) made.push_back(wrap(call.results[i], device));
    for (size_t i = 0; i < made.size(); ++i) {
      stack[first + op.written[i]].toTensor().resize_(made[i].sizes()).copy_(made[i]);
    }
    torch::jit::Stack returned;
    for (const auto i : op.written) returned.push_back(stack[first + i]);
    stack.resize(first);
    for (auto& value : returned) stack.push_back(std::move(value));
    return;
  }
  stack.resize(first);
  const auto& returns = op.handle.schema().returns();
  size_t next = 0;
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
  call.location = call_location();
  call.mode = mode();
  if (at::globalContext().deterministicAlgorithms()) call.mode |= TPU_DETERMINISTIC;
  call.device = writer.device < 0 ? current_device() : writer.device;
  if (expectation != nullptr) {
    call.has_expected = expectation->known ? 1 : 2;
    call.expected = expectation->types.data();
    call.num_expected = expectation->types.size();
  }
  return core().dispatch(&call);
}

// Runs an `out=` overload by the one that gives new tensors, which are copied to where they are wanted.
void run_functional(const Op& op, torch::jit::Stack& stack, size_t first) {
  const auto& arguments = op.handle.schema().arguments();
  torch::jit::Stack inner;
  for (const auto& wanted : op.functional->schema().arguments()) {
    const auto same = [&](const c10::Argument& given) { return given.name() == wanted.name(); };
    const auto given = std::find_if(arguments.begin(), arguments.end(), same);
    if (given == arguments.end()) {
      inner.push_back(wanted.default_value().value_or(c10::IValue()));
    } else {
      inner.push_back(stack[first + (given - arguments.begin())]);
    }
  }
  op.functional->callBoxed(&inner);
  torch::jit::Stack returned;
  for (size_t i = 0; i < op.written.size(); ++i) {
    auto& target = stack[first + op.written[i]].toTensor();
    at::native::resize_output(target, inner[i].toTensor().sizes());
    returned.emplace_back(target.copy_(inner[i].toTensor()));
  }
  stack.resize(first);
  for (auto& value : returned) stack.push_back(std::move(value));
}

// Raises the core's last error, unless the CPU allows what was refused.
bool run_refused(const Op& op, torch::jit::Stack& stack, size_t first) {
  if (!run_in_order(op, stack, first)) raise_last_error();
  return true;
}

// Runs a call; false if the core has no lowering for it, and nothing has happened.
bool run(const Op& op, torch::jit::Stack& stack) {
  const size_t first = stack.size() - op.arguments.size();
  TpuCall call;
  bool asks = false;
  {
    Writer writer(op);
    writer.arguments(stack, first);
    if (op.over_lists && run_in_turn(op, writer, stack, first)) return true;
    const auto status = attempt(op, writer, nullptr, call);
    if (status == TPU_OK) {
      push_results(op, stack, first, call);
      return true;
    }
    if (status == TPU_NO_LOWERING) return false;
    if (status != TPU_NEEDS_RESULTS && status != TPU_NEEDS_CHECKS) return run_refused(op, stack, first);
    // Lists written in place cost more to ask about than PyTorch has to say.
    asks = status == TPU_NEEDS_RESULTS && !op.in_place_list;
  }
  check_overlaps(op, stack, first);
  const Expectation expectation = asks ? Expectation(op, stack, first) : Expectation();
  if (!expectation.known && op.functional.has_value()) {
    run_functional(op, stack, first);
    return true;
  }
  if (op.returns_written) resize_outputs(op, expectation, stack, first);
  Writer writer(op);
  writer.arguments(stack, first);
  const auto status = attempt(op, writer, &expectation, call);
  if (status == TPU_NO_LOWERING) return false;
  if (status != TPU_OK) return run_refused(op, stack, first);
  push_results(op, stack, first, call);
  return true;
}

// `arange` comes with an empty `out=`, mostly. That it has its size before the core looks saves a question to the meta kernel,
// which is in Python, each time. One with as many elements keeps its shape, as on the CPU.
bool run_range(const Op& op, torch::jit::Stack& stack) {
  const size_t first = stack.size() - op.arguments.size();
  const auto out = stack[first + 3].toTensor();
  const auto size = range_size(stack, first, out.scalar_type());
  if (out.numel() != size || out.dim() == 1) {
    at::native::resize_output(out, {size});
    return run(op, stack);
  }
  const auto line = at::empty({size}, out.options());
  stack[first + 3] = line;
  if (!run(op, stack)) {
    stack[first + 3] = out;
    return false;
  }
  stack.back() = out.copy_(line.view(out.sizes()));
  return true;
}

// A tensor whose elements all lie in the same places as those of `t`, each once as far as `t` repeats whole dimensions.
at::Tensor without_repeats(at::Tensor t) {
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.stride(d) == 0 && t.size(d) > 1) t = t.narrow(d, 0, 1);
  }
  return t;
}

// What is filled with one value may have elements that share their place.
bool run_fill(const Op& op, torch::jit::Stack& stack) {
  auto& target = stack[stack.size() - op.arguments.size()];
  const auto given = target.toTensor();
  target = without_repeats(given);
  const bool done = run(op, stack);
  (done ? stack.back() : target) = given;
  return done;
}

// Runs `where`, whose condition may be of bytes still. PyTorch's meta kernel knows none.
bool run_choice(const Op& op, torch::jit::Stack& stack) {
  auto& condition = stack[stack.size() - op.arguments.size()];
  if (condition.toTensor().scalar_type() == at::kByte) {
    TORCH_WARN_ONCE(
        "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of "
        "PyTorch. Use a boolean condition instead.");
    condition = condition.toTensor().to(at::kBool);
  }
  return run(op, stack);
}

// Runs a convolution. PyTorch's tracer leaves it out, since everywhere else the kernel calls the op that it records.
bool run_convolution(const Op& op, torch::jit::Stack& stack) {
  if (!torch::jit::tracer::isTracing()) return run(op, stack);
  using Recorded = at::_ops::_convolution;
  static const auto recorded = c10::Dispatcher::singleton().findSchemaOrThrow(Recorded::name, Recorded::overload_name);
  for (size_t i = op.arguments.size(); i < recorded.schema().arguments().size(); ++i) {
    stack.emplace_back(false);  // what cuDNN may do
  }
  recorded.callBoxed(&stack);
  return true;
}

// Runs a factorization, and raises what its last result tells if the call wants that. `aten::_linalg_solve_ex` is
// `torch.linalg.solve_ex` to whoever reads the error.
bool run_checked(const Op& op, torch::jit::Stack& stack) {
  const size_t first = stack.size() - op.arguments.size();
  const bool checks = stack[first + *op.check_errors].toBool();
  const bool is_matrix = stack[first].toTensor().dim() == 2;
  if (!run(op, stack)) return false;
  if (!checks) return true;
  const auto& name = op.handle.operator_name().name;
  const auto end_of_prefix = name.find("linalg_") + std::strlen("linalg_");
  at::_linalg_check_errors(stack.back().toTensor(), "torch.linalg." + name.substr(end_of_prefix), is_matrix);
  return true;
}

// Whether an op of the table needs a kernel of its own here.
bool wanted(uint32_t number, const c10::OperatorHandle& op) {
  // What is composed on every device is composed here, too. What the CPU computes in one go, such as SiLU's gradient, would be
  // rounded after each step then.
  const auto has = [&](c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); };
  const bool own = has(c10::DispatchKey::CPU) && has(c10::DispatchKey::Autograd);
  if (has(c10::DispatchKey::CompositeImplicitAutograd) && !own) return false;
  // PyTorch's own kernel of one without a start calls the one with.
  if (core().op_manner(number) == TPU_RANGE && has(c10::DispatchKey::CompositeExplicitAutograd)) return false;
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

// Of an op as the table writes it.
c10::OperatorName operator_name(const std::string& name) {
  const auto dot = name.find('.');
  const auto overload = name.substr(dot + 1);
  return {name.substr(0, dot), overload == "default" ? "" : overload};
}

std::unique_ptr<Op> prepare(uint32_t number, c10::OperatorHandle handle) {
  auto op = std::make_unique<Op>(std::move(handle));
  op->number = number;
  const auto& schema = op->handle.schema();
  std::vector<const char*> names;
  bool out = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    names.push_back(argument.name().c_str());
    op->arguments.push_back(describe(argument));
    op->indexed = op->indexed || argument.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors());
    out = out || argument.is_out();
    if (argument.name() == "check_errors") op->check_errors = i;
  }
  const auto& returns = schema.returns();
  op->returns_written = returns.empty();
  for (const auto& result : returns) {
    if (result.alias_info() == nullptr || !result.alias_info()->isWrite()) continue;
    op->returns_written = true;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) op->written.push_back(i);
    }
  }
  const std::string functional = core().op_functional(number);
  if (out && !functional.empty()) op->functional = c10::Dispatcher::singleton().findSchema(operator_name(functional));
  op->in_place_list = returns.empty();
  const auto& full = op->handle.operator_name();
  op->over_lists = full.name.rfind("aten::_foreach_", 0) == 0;
  for (size_t i = 0; op->over_lists && i < op->arguments.size(); ++i) {
    if (op->arguments[i].written) op->written_lists.push_back(i);
  }
  if (op->over_lists && full.overload_name == "Tensor" && schema.arguments().back().name() == "scalars") {
    op->by_numbers = c10::Dispatcher::singleton().findSchema({full.name, "ScalarList"});
  }
  op->strides = core().op_strides(number);
  op->manner = core().op_manner(number);
  check(core().op_bind(number, names.data(), names.size()));
  return op;
}

void check_mask(const at::Tensor& mask, const at::Tensor& indexed, size_t first) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    const auto at = static_cast<int64_t>(first) + d;
    TORCH_CHECK_INDEX(
        at < indexed.dim() && mask.size(d) == indexed.size(at), "The shape of the mask ", mask.sizes(), " at index ", d,
        " does not match the shape of the indexed tensor ", indexed.sizes(), " at index ", at);
  }
}

// Replaces masks among indices by the places they pick, which have to be read back for their number. False if there are
// none. The tensor that is indexed comes first.
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
      check_mask(*index, stack[first].toTensor(), places.size());
      for (const auto& column : index->nonzero().unbind(1)) places.push_back(column);
    }
    stack[i] = std::move(places);
  }
  return any;
}

// `x[mask]`, where the mask is as large as `x`, is `masked_select`, whose program serves all counts; what takes places
// has one for each number of them. False for any other call.
bool select_by_mask(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  if (handle.schema().name() != "aten::index" || handle.schema().overload_name() != "Tensor") return false;
  const auto indices = torch::jit::peek(stack, 1, 2).toOptionalTensorList();
  const at::Tensor& indexed = torch::jit::peek(stack, 0, 2).toTensor();
  if (indices.size() != 1 || indexed.dim() == 0) return false;
  const std::optional<at::Tensor> mask = indices.get(0);
  if (!mask.has_value() || !mask->defined() || mask->scalar_type() != at::kBool) return false;
  if (mask->sizes() != indexed.sizes() || mask->device() != indexed.device()) return false;
  at::Tensor selected = indexed.masked_select(*mask);
  torch::jit::drop(stack, 2);
  stack.emplace_back(std::move(selected));
  return true;
}

// TorchScript gives the type of a list of indices another object, by which nothing knows it.
void name_indices(torch::jit::Stack& stack, size_t first) {
  for (size_t i = first; i < stack.size(); ++i) {
    if (!stack[i].isList() || stack[i].isOptionalTensorList()) continue;
    c10::List<std::optional<at::Tensor>> indices;
    for (const c10::IValue& index : stack[i].toListRef()) indices.push_back(index.toOptional<at::Tensor>());
    stack[i] = std::move(indices);
  }
}

struct Kernel final : c10::OperatorKernel {
  explicit Kernel(std::unique_ptr<Op> op) : op_(std::move(op)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    if (op_->by_numbers.has_value()) return run_on_numbers(*op_, *stack);
    if (op_->indexed) name_indices(*stack, stack->size() - op_->arguments.size());
    const auto arguments = torch::jit::last(*stack, op_->arguments.size());
    if (std::any_of(arguments.begin(), arguments.end(), holds_lazy)) return run_on_values(handle, *stack);
    run_plain(handle, *stack);
  }

 private:
  using Runner = bool (*)(const Op&, torch::jit::Stack&);

  static constexpr c10::DispatchKeySet kLazyViews{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative};

  void run_plain(const c10::OperatorHandle& handle, torch::jit::Stack& stack) const {
    if ((mode() & TPU_DEBUG) != 0) check_values(handle, stack);
    if (runner()(*op_, stack)) return;
    if (op_->indexed && select_by_mask(handle, stack)) return;
    const bool retry = op_->indexed && expand_masks(stack, stack.size() - op_->arguments.size());
    if (!retry || !run(*op_, stack)) run_on_host(handle, &stack);
  }

  Runner runner() const {
    switch (op_->manner) {
      case TPU_FILL:
        return &run_fill;
      case TPU_CHOICE:
        return &run_choice;
      case TPU_RANGE:
        return &run_range;
      case TPU_CONVOLUTION:
        return &run_convolution;
      default:
        return op_->check_errors.has_value() ? &run_checked : &run;
    }
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

// Where the table has an op, if it does.
std::optional<uint32_t> number_of(const std::string& name) {
  for (uint32_t number = 0; number < core().op_count(); ++number) {
    if (name == core().op_name(number)) return number;
  }
  return std::nullopt;
}

}  // namespace

void copy_on_device(const at::Tensor& target, const at::Tensor& source) {
  static const auto op = [] {
    const auto number = number_of("aten::copy_.default").value();
    return prepare(number, c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  }();
  torch::jit::Stack stack{target, source, false};
  if (!run(*op, stack)) raise_last_error();
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_to_make_others(op);
  record_fallback(op, "it has no lowering for \"tpu\"");
  at::native::cpu_fallback(op, stack);
}

std::string table_name(const c10::OperatorName& name) {
  return name.name + "." + (name.overload_name.empty() ? "default" : name.overload_name);
}

// Ops of other libraries may be registered long after this one was loaded: their kernels are made when they are called.
void run_foreign(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  const auto full = table_name(op.operator_name());
  Kernel* kernel = nullptr;
  if (full.rfind("aten::", 0) != 0) {
    const std::lock_guard<std::mutex> lock(mutex);
    auto [found, fresh] = kernels.try_emplace(full);
    const auto number = fresh ? number_of(full) : std::nullopt;
    if (number.has_value()) found->second = std::make_unique<Kernel>(prepare(*number, op));
    kernel = found->second.get();
  }
  if (kernel == nullptr) return run_on_host(op, stack);
  (*kernel)(op, {}, stack);
}

void register_kernels(torch::Library& aten, const std::unordered_set<std::string>& taken) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (uint32_t number = 0; number < core().op_count(); ++number) {
    const std::string name = core().op_name(number);
    const auto full = operator_name(name);
    const auto handle = dispatcher.findSchema(full);
    if (!handle.has_value() || name.rfind("aten::", 0) != 0 || taken.count(name) != 0 || !wanted(number, *handle)) continue;
    auto kernel = std::make_unique<Kernel>(prepare(number, *handle));
    const auto boxed = c10::BoxedKernel::makeFromFunctor<Kernel>(std::move(kernel));
    const auto short_name = full.overload_name.empty() ? full.name : full.name + "." + full.overload_name;
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
