// Kernels for ops about storages: making, viewing and resizing tensors, and copies between devices and the host.

#include "shim.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>

namespace torchtpu {
namespace {

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  return device.has_value() && device->has_index() ? device->index() : current_device();
}

void check_strided(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(c10::Layout::Strided) == c10::Layout::Strided, "\"tpu\" tensors are strided, not ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

struct OnDevice {
  explicit OnDevice(c10::DeviceIndex index) : before(current_device()) {
    if (index != before) set_current_device(index);
  }
  ~OnDevice() {
    if (current_device() != before) set_current_device(before);
  }
  c10::DeviceIndex before;
};

// Whether memory that nobody wrote has to show, by NaN and greatest integers.
bool shows_unwritten() {
  const auto& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor unwritten(at::Tensor made) {
  if (shows_unwritten() && made.numel() > 0) at::native::fill_empty_deterministic_(made);
  return made;
}

at::Tensor empty(
    c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
    std::optional<c10::Device> device, std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  check_strided(layout, pin_memory);
  const OnDevice guard(index_of(device));
  return unwritten(at::detail::empty_generic(
      size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout> layout, std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_strided(layout, pin_memory);
  const OnDevice guard(index_of(device));
  return unwritten(at::detail::empty_strided_generic(
      size, stride, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype)));
}

void grow(const at::Tensor& self) {
  const auto needed = at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.element_size(), self.storage_offset());
  auto* storage = self.storage().unsafeGetStorageImpl();
  if (needed <= storage->nbytes()) return;
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  resize_storage(storage, needed);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> format) {
  if (self.sizes() != size || format.has_value()) {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
    if (format.has_value() && *format != c10::MemoryFormat::Preserve) {
      self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    }
    const auto before = static_cast<int64_t>(self.storage().nbytes());
    grow(self);
    if (shows_unwritten()) at::native::fill_resize_deterministic_(self, before);
  }
  return self;
}

// Most views are made of these two. What they are of the graph of gradients is told by their lines.
at::Tensor as_strided(
    const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride, std::optional<int64_t> storage_offset) {
  note_view();
  return at::native::as_strided_tensorimpl(self, size, stride, storage_offset);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  note_view();
  return at::native::view(self, size);
}

at::Tensor& set_storage(
    at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  const std::optional<c10::IntArrayRef> strides = stride.data() != nullptr ? std::make_optional(stride) : std::nullopt;
  if (strides.has_value()) {
    self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  } else {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  }
  grow(self);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, c10::Storage source) {
  const auto length = static_cast<int64_t>(source.nbytes() / self.element_size());
  return set_storage(self, std::move(source), 0, {length}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), 0, new_storage(self.device().index(), 0), allocator(), /*resizable=*/true);
  return set_storage(self, std::move(storage), 0, {0}, {});
}

// --- copies ----------------------------------------------------------------------------------------------------------

TpuTensorType type_of(const at::Tensor& t) {
  return {static_cast<int32_t>(t.scalar_type()), static_cast<uint32_t>(t.dim()), t.sizes().data(), t.strides().data()};
}

// Whether `t` is all of its storage, so that a copy to it leaves nothing of what was there.
bool whole(const at::Tensor& t) {
  return t.storage_offset() == 0 && t.is_non_overlapping_and_dense() && t.nbytes() == t.storage().nbytes();
}

TpuCell cell(const at::Tensor& t) {
  return cell_of(*t.storage().unsafeGetStorageImpl());
}

void upload(const at::Tensor& source, const at::Tensor& target) {
  if (!whole(target)) {
    auto staged = at::empty(target.sizes(), target.options().memory_format(c10::MemoryFormat::Contiguous));
    upload(source, staged);
    target.copy_(staged);
    return;
  }
  const auto dense = source.to(target.scalar_type()).expand(target.sizes()).contiguous();
  const auto type = type_of(target);
  check(core().upload(cell(target), &type, dense.const_data_ptr(), dense.nbytes(), python_location()));
}

void download(const at::Tensor& source, const at::Tensor& target) {
  auto dense = at::empty(source.sizes(), source.options().device(c10::DeviceType::CPU));
  auto from = source;
  auto type = type_of(from);
  auto status = from.storage_offset() == 0
      ? core().download(cell(from), &type, dense.mutable_data_ptr(), dense.nbytes(), python_location())
      : TPU_NEEDS_RESULTS;
  if (status == TPU_NEEDS_RESULTS) {
    from = at::clone(source, c10::MemoryFormat::Contiguous);
    type = type_of(from);
    status = core().download(cell(from), &type, dense.mutable_data_ptr(), dense.nbytes(), python_location());
  }
  check(status);
  target.copy_(dense);
}

// Between two devices: the whole of a storage of its own goes over.
void send(const at::Tensor& source, const at::Tensor& target) {
  const auto dense = at::clone(source.to(target.scalar_type()), c10::MemoryFormat::Contiguous);
  auto arrived = at::empty(dense.sizes(), dense.options().device(target.device()));
  check(core().send(cell(dense), cell(arrived)));
  target.copy_(arrived);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool /*non_blocking*/) {
  if (target.is_conj()) {
    copy_from(self.conj(), target.conj(), false);
    return target;
  }
  if (target.is_neg()) {
    copy_from(self._neg_view(), target._neg_view(), false);
    return target;
  }
  const auto source = self.resolve_conj().resolve_neg();
  const auto expanded = source.sizes() == target.sizes() ? source : source.expand(target.sizes());
  if (!source.device().is_privateuseone()) {
    TORCH_CHECK(source.device().is_cpu(), "cannot copy from ", source.device(), " to \"tpu\"; go through the CPU");
    upload(expanded, target);
  } else if (!target.device().is_privateuseone()) {
    TORCH_CHECK(target.device().is_cpu(), "cannot copy from \"tpu\" to ", target.device(), "; go through the CPU");
    download(expanded, target);
  } else if (source.device() != target.device()) {
    send(expanded, target);
  } else if (!target.is_alias_of(source)) {
    copy_on_device(target, expanded);
  } else {
    at::assert_no_partial_overlap(target, expanded);
    // As two element types, one storage cannot be read and written by one call.
    const bool converts = source.scalar_type() != target.scalar_type();
    copy_on_device(target, converts ? at::clone(expanded, c10::MemoryFormat::Contiguous) : expanded);
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() != target.sizes()) target.resize_(self.sizes());
  return copy_from(self, target, false);
}

c10::Scalar local_scalar(const at::Tensor& self) {
  auto host = at::empty({}, self.options().device(c10::DeviceType::CPU));
  download(self.reshape({}), host);
  return host.item();
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item().toBool();
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  // Only then does `.to("tpu")` move a parameter in place, so that shared weights stay shared.
  const auto dense = [](const at::Tensor& t) {
    return t.device().is_privateuseone() || t.device().is_cpu();
  };
  return dense(self) && dense(from) && self.layout() == from.layout();
}

void record_stream(at::Tensor&, c10::Stream) {}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
      self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() &&
      self.strides() == other.strides();
}

}  // namespace

void register_storage_ops(torch::Library& aten, std::unordered_set<std::string>& taken) {
  const auto add = [&](const char* name, auto&& function) {
    aten.impl(name, std::forward<decltype(function)>(function));
    const std::string full = std::string("aten::") + name;
    taken.insert(full.find('.') == std::string::npos ? full + ".default" : full);
  };
  add("empty.memory_format", &empty);
  add("empty_strided", &empty_strided);
  add("as_strided", &as_strided);
  add("view", &view);
  add("_conj", &at::native::_conj);
  add("_neg_view", &at::native::_neg_view);
  add("view_as_real", &at::native::view_as_real);
  add("view_as_complex", &at::native::view_as_complex);
  add("_reshape_alias", &at::native::_reshape_alias);
  add("unfold", &at::native::unfold);
  add("resize_", &resize_);
  add("set_.source_Storage", &set_whole_storage);
  add("set_.source_Storage_storage_offset", &set_storage);
  add("set_.source_Tensor", &set_tensor);
  add("set_", &set_nothing);
  add("is_set_to", &is_set_to);
  add("_copy_from", &copy_from);
  add("_copy_from_and_resize", &copy_from_and_resize);
  add("_local_scalar_dense", &local_scalar);
  add("equal", &equal);
  add("record_stream", &record_stream);
  add("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  taken.insert("aten::copy_.default");  // PyTorch's own, which ends in `_copy_from`
  // They write to an argument that their schemas do not mark: PyTorch's fallbacks for lazy views would write to a copy.
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    static std::vector<torch::Library> kept;
    kept.emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    kept.back().impl("_copy_from", torch::CppFunction::makeFallthrough());
    kept.back().impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
  }
}

}  // namespace torchtpu
