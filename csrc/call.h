// A call on its way to the core: its op, and its arguments written down as words (abi.h).
#pragma once

#include "shim.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace torchtpu {

// `value` with `fn` of each tensor in it; what holds none stays.
template <class Fn>
c10::IValue map_tensors(const c10::IValue& value, Fn&& fn) {
  if (value.isTensor()) return fn(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorList()) list.push_back(fn(t));
    return list;
  }
  if (!value.isOptionalTensorList()) return value;
  c10::List<std::optional<at::Tensor>> list;
  for (const std::optional<at::Tensor>& t : value.toOptionalTensorList()) {
    list.push_back(t.has_value() ? std::optional<at::Tensor>(fn(*t)) : std::nullopt);
  }
  return list;
}

// How an argument of a schema is written.
enum class Kind : uint8_t { Plain, Number, DType, Layout, MemoryFormat, Device, Generator, Lengths };

struct Argument {
  Kind kind = Kind::Plain;
  bool elements = false;   // of a list
  bool tensor = false;     // a number in its place is a 0-d tensor
  bool written = false;    // by the op
  bool has_default = false;
  double value = 0;        // of a default that is a number
};

// An op as the core numbers it.
struct Op {
  uint32_t number = 0;
  c10::OperatorHandle handle;
  std::vector<Argument> arguments;
  std::vector<size_t> written;  // arguments that are returned, in the order of the results
  std::optional<c10::OperatorHandle> functional;  // of an `out=` overload: the one that gives new tensors
  bool in_place_list = false;
  bool over_lists = false;  // is one of `_foreach_*`
  std::vector<size_t> written_lists;  // of these: arguments that are lists which it writes
  std::optional<c10::OperatorHandle> by_numbers;  // of one that takes numbers as a tensor: the overload that takes a list
  bool returns_written = false;
  bool indexed = false;  // takes a list of indices
  uint32_t strides = TPU_STRIDES_META;  // of the first result on the CPU, and which argument decides << 8
  uint32_t manner = TPU_PLAIN;
  std::optional<size_t> check_errors;  // which argument says whether what its last result tells is an error

  explicit Op(c10::OperatorHandle h) : handle(std::move(h)) {}
};

// The first result of the call on the stack from `first` on, of which a meta kernel made `result`, with the CPU's strides.
at::Tensor laid_out(const Op& op, const at::Tensor& result, const torch::jit::Stack& stack, size_t first);

// What the call on the stack from `first` on does to elements that lie in one place depends on the order in which the CPU goes
// through them: if it writes such, it is run there. False if it does not, and nothing has happened.
bool run_in_order(const Op& op, torch::jit::Stack& stack, size_t first);
// Refuses a call that writes what it reads elsewhere, if the CPU does.
void check_overlaps(const Op& op, const torch::jit::Stack& stack, size_t first);

inline Kind kind_of(const c10::Type& type) {
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

// Of sequences in a batch: a tensor that is so called.
inline bool is_lengths(const c10::Argument& argument) {
  constexpr std::string_view end = "_lengths";
  const std::string_view name = argument.name();
  return argument.type()->kind() == c10::TypeKind::TensorType && name.size() > end.size() &&
      name.substr(name.size() - end.size()) == end;
}

// Of numbers drawn at random: an integer that is so called, which is a number as those of floats are.
inline bool is_bound(const c10::Argument& argument, const c10::Type& type) {
  const auto& name = argument.name();
  const bool is_integer = type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::SymIntType;
  return is_integer && (name == "low" || name == "high" || name == "from" || name == "to");
}

inline Argument describe(const c10::Argument& argument) {
  Argument result;
  auto type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (const auto list = type->cast<c10::ListType>()) {
    result.elements = true;
    type = list->getElementType();
  }
  result.kind = is_lengths(argument) ? Kind::Lengths : is_bound(argument, *type) ? Kind::Number : kind_of(*type);
  result.tensor = type->kind() == c10::TypeKind::TensorType;
  result.written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  const auto& value = argument.default_value();
  if (value.has_value() && value->isScalar() && !value->isComplexDouble()) {
    result.has_default = true;
    result.value = value->toScalar().toDouble();
  }
  return result;
}

// The storages of a call, each once, in the order in which they come. Few are found by looking, many by a table of hashes.
class Slots {
 public:
  explicit Slots(c10::SmallVector<TpuCell, 8>& cells) : cells_(cells) {}

  size_t of(TpuCell cell) {
    if (cells_.size() < kFew) return among_few(cell);
    if (2 * cells_.size() >= table_.size()) grow();
    const auto at = place(cell);
    if (table_[at] == 0) {
      cells_.push_back(cell);
      table_[at] = static_cast<uint32_t>(cells_.size());
    }
    return table_[at] - 1;
  }

 private:
  static constexpr size_t kFew = 24;

  size_t among_few(TpuCell cell) {
    size_t slot = 0;
    while (slot < cells_.size() && cells_[slot] != cell) ++slot;
    if (slot == cells_.size()) cells_.push_back(cell);
    return slot;
  }

  // Where `cell` is in the table, or belongs.
  size_t place(TpuCell cell) const {
    const size_t mask = table_.size() - 1;
    size_t at = (static_cast<uint64_t>(cell) * 0x9E3779B97F4A7C15ull >> 32) & mask;
    while (table_[at] != 0 && cells_[table_[at] - 1] != cell) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    table_.assign(std::max<size_t>(256, 2 * table_.size()), 0);
    for (size_t slot = 0; slot < cells_.size(); ++slot) table_[place(cells_[slot])] = static_cast<uint32_t>(slot + 1);
  }

  c10::SmallVector<TpuCell, 8>& cells_;
  std::vector<uint32_t> table_;  // one more than the slot, or 0
};

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
      leads_ = i == 0;
      argument(stack[first + i], op_.arguments[i]);
    }
  }

  [[noreturn]] void refuse(c10::Device other) const {
    const auto index = static_cast<int>(device < 0 ? current_device() : device);
    C10_THROW_ERROR(
        Error, c10::str("Expected all tensors to be on the same device, but found at least two devices, tpu:", index, " and ",
                        other, "!"));
  }

  c10::SmallVector<uint64_t, 64> words;
  c10::SmallVector<TpuCell, 8> cells;
  c10::SmallVector<uint64_t, 8> scalars;
  void* generator = nullptr;
  c10::DeviceIndex device = -1;
  bool shares_storages = false;  // several tensors lie in one
  std::optional<c10::Device> elsewhere;  // of a call over lists: where else one of its tensors is

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
        if (value.isGenerator() && value.toGenerator().defined()) draw_from(value.toGenerator());
        return none();
      case Kind::Lengths:
        return plain(is_of_host(value) ? c10::IValue(brought(value.toTensor())) : value, as);
      default:
        return plain(value, as);
    }
  }

  // Indices and lengths may lie on the CPU, as on CUDA.
  static bool is_of_host(const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().device().is_cpu();
  }

  // A generator of another device would leave the results to chance.
  void draw_from(const at::Generator& given) {
    TORCH_CHECK(
        given.device().type() == kTpu, "Expected a 'tpu' device type for generator but found '", given.device().type(), "'");
    generator = given.unsafeGetGeneratorImpl();
  }

  void plain(const c10::IValue& value, const Argument& as) {
    if (value.isTensor()) return tensor(value.toTensor(), as.written);
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
      const bool index = value.isOptionalTensorList() && is_of_host(element);
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
    if (device != index) meet(c10::Device(kTpu, index));
  }

  void meet(c10::Device other) {
    if (!op_.over_lists) refuse(other);
    elsewhere = other;
  }

  void tensor(const at::Tensor& t, bool written = false) {
    if (!t.defined()) return none();
    if (t.device().type() != kTpu) return host(t, written);
    note(t.device().index());
    const auto cell = cell_of(*t.storage().unsafeGetStorageImpl());
    const auto before = cells.size();
    const auto slot = slots_.of(cell);
    shares_storages |= cells.size() == before;
    const auto sizes = t.sizes();
    const auto strides = t.strides();
    words.push_back(
        TPU_TENSOR | static_cast<uint64_t>(t.scalar_type()) << 8 | static_cast<uint64_t>(sizes.size()) << 16 |
        static_cast<uint64_t>(slot) << 32);
    words.push_back(static_cast<uint64_t>(t.storage_offset()));
    for (const auto s : sizes) words.push_back(static_cast<uint64_t>(s));
    for (const auto s : strides) words.push_back(static_cast<uint64_t>(s));
  }

  // A tensor without dimensions on the CPU goes along as a number, but where it says of which device the result is, or is to
  // hold it; larger ones are an error, as on CUDA.
  void host(const at::Tensor& t, bool written) {
    if (t.dim() != 0 || !t.device().is_cpu() || written || (op_.over_lists && leads_)) return meet(t.device());
    const auto value = at::_local_scalar_dense(t);
    const uint64_t wrapped = t.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0;
    const bool is_float = value.isFloatingPoint();
    if (value.isComplex()) return complex(value.toComplexDouble());
    words.push_back(
        TPU_HOST | static_cast<uint64_t>(t.scalar_type()) << 8 | (is_float ? 1ull : 0ull) << 16 | wrapped << 17);
    scalars.push_back(is_float ? bits(value.toDouble()) : static_cast<uint64_t>(value.toLong()));
  }

  const Op& op_;
  Slots slots_{cells};
  bool leads_ = false;  // the first argument is being written
  c10::SmallVector<at::Tensor, 2> kept_;
};

// Runs a call over lists one tensor after the other, if that is another thing than all at once, or if they are on several
// devices. False if neither, and nothing has happened.
bool run_in_turn(const Op& op, const Writer& writer, torch::jit::Stack& stack, size_t first);
// Tells autograd what a call over lists writes, which returns nothing that would.
void count_writes(const Op& op, const torch::jit::Stack& stack, size_t first);
// Runs a call whose last argument is a tensor of numbers by the overload that takes these as such.
void run_on_numbers(const Op& op, torch::jit::Stack& stack);

}  // namespace torchtpu
