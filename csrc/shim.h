// What the parts of the shim share. The shim knows no op but those that are about storages and copies; everything else
// goes through one boxed kernel to the Rust core (abi.h).
#pragma once

#include "abi.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <torch/library.h>

#include <string>
#include <unordered_set>

namespace torchtpu {

constexpr c10::DeviceType kTpu = c10::DeviceType::PrivateUse1;

// The Rust side. Set once, when Python joins the two, before any tensor exists.
const TpuCore& core();
void set_core(const TpuCore* table);

// Throws the core's last error of this thread as the exception that Python sees.
[[noreturn]] void raise_last_error();
inline void check(int32_t status) {
  if (status != TPU_OK) raise_last_error();
}

// Storages.
c10::Allocator* allocator();
c10::DataPtr new_storage(c10::DeviceIndex device, size_t nbytes);
c10::DataPtr adopt(TpuCell cell, void* address, c10::DeviceIndex device);
TpuCell cell_of(const c10::StorageImpl& storage);
void resize_storage(c10::StorageImpl* storage, size_t nbytes);

// How this thread runs calls, of TpuMode. PyTorch carries it over to the threads that run its backward passes.
uint32_t mode();
void set_mode(uint32_t mode);
void set_default_mode(uint32_t mode);
// Fails as the CPU does if indices among the arguments are out of range, or values are refused: a device does not notice.
void check_values(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Devices. The current one is per thread.
c10::DeviceIndex device_count();
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);
void register_device();
void register_profiler();

// Generators. `out` is seed and offset of the next draw.
const at::Generator& default_generator(c10::DeviceIndex index);
// Seeds all devices' generators, now or when there are any.
void seed_all(uint64_t seed);
extern const TpuShim shim_table;

// Ops.
// Registers the boxed kernel for all of the core's ops but those in `taken`, which have kernels in C++.
void register_kernels(torch::Library& aten, const std::unordered_set<std::string>& taken);
void register_storage_ops(torch::Library& aten, std::unordered_set<std::string>& taken);
void register_transformer_ops(torch::Library& aten, std::unordered_set<std::string>& taken);
void register_recurrent_ops();
// Whether fused ops have no rule for a tensor: it has a forward derivative, or is part of a function that is transformed.
bool wants_parts(const at::Tensor& t);
void register_autocast();
// Has ops on sparse, quantised and strided nested tensors refused; and those that would make one.
void register_layouts();
void refuse_to_make_others(const c10::OperatorHandle& op);
// Writes `source` to `target`, both on one device.
void copy_on_device(const at::Tensor& target, const at::Tensor& source);
// What PyTorch calls for an op without a kernel of its own here: the table's rule, if it has one, else the host.
void run_foreign(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// Runs an op on the CPU, with copies there and back: counted, and warned of or refused.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// Counts that an op runs on the host, and warns of it or refuses it, because of `why`.
void record_fallback(const c10::OperatorHandle& op, const char* why);
// An op's name as the core's table writes it: `.default` where PyTorch has no overload's name.
std::string table_name(const c10::OperatorName& name);
at::Tensor wrap(const TpuResult& result, c10::DeviceIndex device);

// The line of Python that this thread is at, as the core numbers it; in a backward pass that of the forward op, marked as
// TPU_BACKWARD. 0 if there is none.
uint64_t python_location();
// The same for an op's call, whose gradients are told by it; and for a view, which is no call.
uint64_t call_location();
void note_view();
// Lines in files of this folder are not the user's.
void add_foreign_folder(const char* folder);

}  // namespace torchtpu
