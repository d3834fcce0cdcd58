// The Python module: joins the shim to the core and gives torch.tpu what only C++ has.

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/python_variable.h>

#include "shim.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <limits>

namespace torchtpu {
namespace {

PyObject* fallback_handler = nullptr;

// The library objects hold the registrations for the life of the process.
void register_all() {
  register_device();
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static torch::Library any(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  std::unordered_set<std::string> taken;
  register_storage_ops(aten, taken);
  register_transformer_ops(aten, taken);
  register_recurrent_ops();
  register_kernels(aten, taken);
  any.fallback(torch::CppFunction::makeFromBoxedFunction<&run_foreign>());
  register_layouts();
  register_autocast();
  register_profiler();
}

PyObject* load(PyObject*, PyObject* address) {
  HANDLE_TH_ERRORS
  const auto* table = static_cast<const TpuCore*>(PyLong_AsVoidPtr(address));
  if (table == nullptr) return nullptr;
  TORCH_CHECK(
      table->abi == TORCHTPU_ABI && table->size == sizeof(TpuCore),
      "torchtpu's shim and core are of different versions (", TORCHTPU_ABI, " and ", table->abi,
      "); reinstall torchtpu");
  set_core(table);
  register_all();
  return PyLong_FromVoidPtr(const_cast<TpuShim*>(&shim_table));
  END_HANDLE_TH_ERRORS
}

PyObject* get_current_device(PyObject*, PyObject*) {
  return PyLong_FromLong(current_device());
}

// A device's number as PyTorch keeps them, in a byte.
c10::DeviceIndex device_index(long number) {
  using Limits = std::numeric_limits<c10::DeviceIndex>;
  TORCH_CHECK(number >= -1 && number <= Limits::max(), "there is no device tpu:", number);
  return static_cast<c10::DeviceIndex>(number);
}

PyObject* set_device(PyObject*, PyObject* index) {
  HANDLE_TH_ERRORS
  const long value = PyLong_AsLong(index);
  if (value == -1 && PyErr_Occurred() != nullptr) return nullptr;
  set_current_device(device_index(value));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* get_default_generator(PyObject*, PyObject* index) {
  HANDLE_TH_ERRORS
  const long value = PyLong_AsLong(index);
  if (value == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return THPGenerator_Wrap(default_generator(device_index(value)));
  END_HANDLE_TH_ERRORS
}

PyObject* seed_all_devices(PyObject*, PyObject* seed) {
  HANDLE_TH_ERRORS
  const auto value = PyLong_AsUnsignedLongLongMask(seed);
  if (PyErr_Occurred() != nullptr) return nullptr;
  seed_all(value);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// A tensor over a storage that a compiled program made.
PyObject* wrap_storage(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  unsigned long long cell = 0;
  unsigned long long address = 0;
  unsigned long long nbytes = 0;
  int dtype = 0;
  int device = 0;
  PyObject* sizes = nullptr;
  PyObject* strides = nullptr;
  if (!PyArg_ParseTuple(args, "KKKiO!O!i", &cell, &address, &nbytes, &dtype, &PyTuple_Type, &sizes, &PyTuple_Type,
                        &strides, &device)) {
    return nullptr;
  }
  const auto numbers = [](PyObject* tuple) {
    c10::SmallVector<int64_t, 6> result;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      result.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
    }
    return result;
  };
  const auto size = numbers(sizes);
  const auto stride = numbers(strides);
  const TpuTensorType type{dtype, static_cast<uint32_t>(size.size()), size.data(), stride.data()};
  const TpuResult made{cell, reinterpret_cast<void*>(address), nbytes, type};
  return THPVariable_Wrap(wrap(made, static_cast<c10::DeviceIndex>(device)));
  END_HANDLE_TH_ERRORS
}

PyObject* set_fallback_handler(PyObject*, PyObject* handler) {
  Py_XINCREF(handler);
  Py_XDECREF(fallback_handler);
  fallback_handler = handler;
  Py_RETURN_NONE;
}

// A thread of backward passes lets go of a pass only after the pass is over. Where that meets the end of the interpreter,
// Python ends the thread as it takes the lock, and with it the process. So that nothing is left to let go of: a pass
// without Python objects, behind which there is no other one on the thread.
PyObject* settle_backward(PyObject*, PyObject*) {
  HANDLE_TH_ERRORS
  const pybind11::gil_scoped_release unlocked;
  const c10::InferenceMode no_inference(false);
  const at::AutoGradMode with_gradients(true);
  auto& state = c10::AutogradState::get_tls_state();
  const bool in_threads = state.get_multithreading_enabled();
  state.set_multithreading_enabled(true);
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    const auto options = at::TensorOptions().device(kTpu, i);
    const auto leaf = at::empty({0}, options).requires_grad_();
    torch::autograd::backward({leaf.view({0})}, {at::empty({0}, options)});
  }
  state.set_multithreading_enabled(in_threads);
  END_HANDLE_TH_ERRORS
  Py_RETURN_NONE;
}

PyObject* add_foreign(PyObject*, PyObject* folder) {
  const char* path = PyUnicode_AsUTF8(folder);
  if (path == nullptr) return nullptr;
  add_foreign_folder(path);
  Py_RETURN_NONE;
}

PyObject* get_mode(PyObject*, PyObject*) {
  return PyLong_FromLong(mode());
}

PyObject* choose_mode(PyObject*, PyObject* args) {
  unsigned int value = 0;
  int for_all = 0;
  if (PyArg_ParseTuple(args, "Ip", &value, &for_all) == 0) return nullptr;
  if (for_all != 0) {
    set_default_mode(value);
  } else {
    set_mode(value);
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"load", load, METH_O, "Joins the shim to the core's table at this address; gives the address of its own."},
    {"current_device", get_current_device, METH_NOARGS, "The index of this thread's device."},
    {"set_device", set_device, METH_O, "Sets this thread's device."},
    {"default_generator", get_default_generator, METH_O, "The generator of a device."},
    {"seed_all", seed_all_devices, METH_O, "Seeds the generators of all devices."},
    {"wrap", wrap_storage, METH_VARARGS, "A tensor over a storage: its number, address, bytes, type and layout."},
    {"settle_backward", settle_backward, METH_NOARGS, "Waits until the threads of backward passes hold nothing."},
    {"add_foreign_folder", add_foreign, METH_O, "Lines in files whose path begins so are not the user's."},
    {"mode", get_mode, METH_NOARGS, "How this thread runs calls: bits of TpuMode in csrc/abi.h."},
    {"set_mode", choose_mode, METH_VARARGS, "Sets how this thread runs calls; or those threads that were told nothing."},
    {"set_fallback_handler", set_fallback_handler, METH_O, "What is called with the name of each op that runs on the host."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "torchtpu._shim", "The C++ half of device \"tpu\".", -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

void record_fallback(const c10::OperatorHandle& op, const char* why) {
  if (fallback_handler == nullptr) return;
  const auto full = table_name(op.operator_name());
  const auto state = PyGILState_Ensure();
  PyObject* result = PyObject_CallFunction(fallback_handler, "ss", full.c_str(), why);
  if (result == nullptr) {
    python_error error;
    error.persist();
    PyGILState_Release(state);
    throw error;
  }
  Py_DECREF(result);
  PyGILState_Release(state);
}

}  // namespace torchtpu

PyMODINIT_FUNC PyInit__shim(void) {
  return PyModule_Create(&torchtpu::module);
}
