// Which line of the user's Python a thread is at. On the hot path this reads the thread's own frames, which stand still while
// it is in here, without the interpreter lock; the lock is taken once per line, to learn its file and number.

#include <Python.h>
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe.h>
#endif
#undef Py_BUILD_CORE

#include "shim.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/node.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace torchtpu {
namespace {

struct Lock {
  Lock() : state(PyGILState_Ensure()) {}
  ~Lock() {
    PyGILState_Release(state);
  }
  PyGILState_STATE state;
};

// Where PyTorch and this package lie, with a slash behind: frames from there are not the user's. Set once, before any op.
std::vector<std::string> foreign_folders;

bool foreign(const char* file) {
  const auto begins_with = [&](const std::string& folder) {
    return std::strncmp(file, folder.c_str(), folder.size()) == 0;
  };
  return file[0] == '<' || std::any_of(foreign_folders.begin(), foreign_folders.end(), begins_with);
}

// What moved between versions of Python: where a thread's frames begin, and which of them have code to ask for.
#if PY_VERSION_HEX >= 0x030D0000

_PyInterpreterFrame* innermost(PyThreadState* thread) {
  return thread->current_frame;
}

PyCodeObject* code_of(_PyInterpreterFrame* frame) {
  return _PyFrame_IsIncomplete(frame) ? nullptr : _PyFrame_GetCode(frame);
}

#else

_PyInterpreterFrame* innermost(PyThreadState* thread) {
  return thread->cframe == nullptr ? nullptr : thread->cframe->current_frame;
}

PyCodeObject* code_of(_PyInterpreterFrame* frame) {
  return frame->f_code == nullptr || _PyFrame_IsIncomplete(frame) ? nullptr : frame->f_code;
}

#endif

struct Site {
  PyCodeObject* code;
  int offset;
  bool operator==(const Site& other) const {
    return code == other.code && offset == other.offset;
  }
};

struct SiteHash {
  size_t operator()(const Site& site) const {
    return std::hash<const void*>()(site.code) * 31 + static_cast<size_t>(site.offset);
  }
};

// What stands for the function of PyTorch's that starts a backward pass.
constexpr uint64_t kBackwardPass = ~0ull;

// 0 for a line that is not the user's. The code object is kept, so that its address stays its own.
uint64_t learn(const Site& site) {
  const Lock lock;
  Py_INCREF(site.code);
  const char* file = PyUnicode_AsUTF8(site.code->co_filename);
  const char* name = PyUnicode_AsUTF8(site.code->co_name);
  if (file == nullptr || name == nullptr) {
    PyErr_Clear();
    return 0;
  }
  if (foreign(file)) return std::strcmp(name, "_engine_run_backward") == 0 ? kBackwardPass : 0;
  return core().locate(file, PyCode_Addr2Line(site.code, site.offset), name);
}

uint64_t id_of(_PyInterpreterFrame* frame, PyCodeObject* code) {
  static thread_local std::unordered_map<Site, uint64_t, SiteHash> known;
  const auto offset = static_cast<int>(_PyInterpreterFrame_LASTI(frame) * sizeof(_Py_CODEUNIT));
  const Site site{code, offset};
  const auto found = known.find(site);
  if (found != known.end()) return found->second;
  return known[site] = learn(site);
}

// The lines of forward ops, by the numbers of their nodes in the graph of gradients: no Python runs where gradients are
// computed. Each word is a line in its low bits, and above it whose it is; old ones are overwritten.
constexpr int kLineBits = 24;
constexpr uint64_t kLines = (1ull << kLineBits) - 1;
std::array<std::atomic<uint64_t>, 1 << 16> forward_lines;

uint64_t owner(uint64_t node, uint64_t thread) {
  return (node * 0x9e3779b97f4a7c15ull + thread * 0xc2b2ae3d27d4eb4full) & ~kLines;
}

// Remembers what `line` gives for the node that this thread numbered last, unless it has a line. An op's node is numbered
// before its kernel runs, so that the first kernel behind a number is the node's own.
template <class Line>
void remember(Line&& line) {
  const auto next = at::sequence_number::peek();
  if (next == 0 || !c10::GradMode::is_enabled()) return;
  const auto whose = owner(next - 1, at::RecordFunction::currentThreadId());
  auto& slot = forward_lines[(next - 1) % forward_lines.size()];
  if ((slot.load(std::memory_order_relaxed) & ~kLines) == whose) return;
  const uint64_t found = line() & ~TPU_BACKWARD;
  if (found != 0 && found <= kLines) slot.store(whose | found, std::memory_order_relaxed);
}

// The line behind the node that this thread computes gradients for.
uint64_t line_of_node() {
  const auto node = torch::autograd::get_current_node();
  if (!node) return 0;
  const auto word = forward_lines[node->sequence_nr() % forward_lines.size()].load(std::memory_order_relaxed);
  const bool its = (word & ~kLines) == owner(node->sequence_nr(), node->thread_id());
  return its && (word & kLines) != 0 ? (word & kLines) | TPU_BACKWARD : 0;
}

// The line that this thread's Python is at. Where that called a backward pass, and no Python within it, the line behind the
// node at hand.
uint64_t line_of_frames() {
  auto* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr) return 0;
  for (auto* frame = innermost(thread); frame != nullptr; frame = frame->previous) {
    auto* code = code_of(frame);
    if (code == nullptr) continue;
    const auto id = id_of(frame, code);
    const auto line = id == kBackwardPass ? line_of_node() : id;
    if (line != 0) return line;
  }
  return 0;
}

}  // namespace

void add_foreign_folder(const char* folder) {
  foreign_folders.emplace_back(folder);
}

uint64_t python_location() {
  const auto line = line_of_frames();
  return line != 0 ? line : line_of_node();
}

uint64_t call_location() {
  const auto line = python_location();
  remember([&] { return line; });
  return line;
}

void note_view() {
  remember(python_location);
}

}  // namespace torchtpu
