// The border between the C++ shim and the Rust core (crates/eager/src/abi.rs holds the other half). Plain C, versioned: the
// shim is compiled for one PyTorch, the core for none, and either refuses the other when `abi` or `size` differ.
#pragma once

#include <stdint.h>

#define TORCHTPU_ABI 8

typedef uint64_t TpuCell; // a storage; 0 is none

// Of a line's number: the call computes gradients of what that line computed.
static const uint64_t TPU_BACKWARD = 1ull << 63;

// What a call came to.
enum TpuStatus {
  TPU_OK = 0,
  TPU_NEEDS_RESULTS = 1, // first seen: say in `expected` what PyTorch's meta kernel gives, and call again
  TPU_NO_LOWERING = 2,   // run it on the host
  TPU_FAILED = 3,        // see `last_error`
  TPU_NEEDS_CHECKS = 4,  // first seen: see what it writes, and call again with nothing expected
};

// Which exception `last_error` is.
enum TpuErrorKind {
  TPU_RUNTIME_ERROR = 0,
  TPU_NOT_IMPLEMENTED = 1,
  TPU_OUT_OF_MEMORY = 2,
  TPU_INDEX_ERROR = 3,
  TPU_NO_KERNEL = 4,  // PyTorch's own refusal of an element type
  TPU_TYPE_ERROR = 5,
};

// Arguments of a call are written as words; a word's low byte is its tag. What follows in brackets is further words.
enum TpuTag {
  TPU_NONE = 0,
  TPU_TENSOR = 1, // dtype << 8 | rank << 16 | slot << 32 [offset, sizes, strides]; `slot` counts the call's cells
  TPU_INT = 2,    // [value]
  TPU_BOOL = 3,   // value << 8
  TPU_FLOAT = 4,  // [bits]
  TPU_LIFTED = 5, // float << 8: the next of `scalars`, which decides nothing unless the op asks for it
  TPU_COMPLEX = 6, // [real bits, imaginary bits]
  TPU_STRING = 7,  // length << 8 [bytes, eight to a word]
  TPU_DTYPE = 8,   // dtype << 8
  TPU_DEVICE = 9,
  TPU_LAYOUT = 10,
  TPU_MEMORY_FORMAT = 11, // c10::MemoryFormat << 8
  TPU_LIST = 12,          // length << 8 [elements]
  TPU_HOST = 13, // dtype << 8 | float << 16 | wrapped number << 17: a 0-d tensor on the host, the next of `scalars`
};

// How a thread runs its calls.
enum TpuMode {
  TPU_DEBUG = 1,      // wait for each
  TPU_CHECK_NAN = 2,  // and refuse results that hold NaN
  TPU_FUSED = 4,      // record calls, and run them together
  TPU_DETERMINISTIC = 8,  // programs compute it, and those of what runs together are waited for
  TPU_AT_ONCE = 16,       // wait for them from the first time on
};

// How the CPU lays out the first result of an overload.
enum TpuStrides {
  TPU_STRIDES_META = 0,  // as PyTorch's meta kernel says
  TPU_STRIDES_ROWS = 1,
  TPU_STRIDES_SUGGESTED = 2,  // in the memory format that the strides of an argument suggest
  TPU_STRIDES_ROWS_OR_SUGGESTED = 3,  // the same, but in rows where it lies in rows and those before it suggest the same
  TPU_STRIDES_BY_ELEMENT = 4,  // as what is computed by element of the first two arguments
  TPU_STRIDES_ROLLED = 5,      // of `aten::roll`'s arguments
  TPU_STRIDES_CONVOLVED = 6,   // of `aten::convolution`'s arguments
};

// What the calls of an overload need.
enum TpuManner {
  TPU_PLAIN = 0,
  TPU_FILL = 1,    // its first argument is filled with one value
  TPU_CHOICE = 2,  // its first argument chooses
  TPU_RANGE = 3,   // a start, an end and a step say how large the `out` is that it writes
  TPU_CONVOLUTION = 4,  // TorchScript records another op in its place
};

// Element types are numbered as c10::ScalarType.
typedef struct {
  int32_t dtype; // -1: undefined
  uint32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
} TpuTensorType;

// A new tensor; its storage belongs to whoever gets it.
typedef struct {
  TpuCell cell; // 0: an undefined tensor
  void* address;
  uint64_t nbytes;
  TpuTensorType type;
} TpuResult;

typedef struct {
  const uint64_t* words; // first: op | default dtype << 32 | matmul precision << 40
  uint64_t num_words;
  const TpuCell* cells;
  uint64_t num_cells;
  const uint64_t* scalars; // bits of an int64 or a double
  uint64_t num_scalars;
  void* generator;
  const TpuTensorType* expected;
  uint64_t num_expected;
  uint64_t location;
  int32_t device;
  int32_t has_expected; // 0: not asked yet, 1: given, 2: PyTorch cannot say
  uint32_t mode; // of TpuMode
  const TpuResult* results; // out; valid until this thread's next call
  uint64_t num_results;
} TpuCall;

// What is counted of a device's memory.
typedef struct {
  uint64_t now;
  uint64_t peak;
  uint64_t allocated; // since the counts were last reset
  uint64_t freed;
} TpuGauge;

typedef struct {
  TpuGauge bytes;
  TpuGauge values;
  uint64_t total; // bytes the device has; 0 if the plugin does not say
  uint64_t free;
} TpuMemory;

// An execution that a device ran. Times are nanoseconds since 1970.
typedef struct {
  const char* name;
  const char* line; // file:line; empty if that is not known
  int32_t device;
  int64_t begin;
  int64_t end;
} TpuSpan;

typedef struct {
  uint32_t abi;
  uint32_t size;
  int32_t (*made)(void); // whether there are devices yet
  int32_t (*device_count)(void); // -1 on failure
  TpuCell (*cell_new)(int32_t device, uint64_t nbytes, void** address);
  void (*cell_drop)(TpuCell);
  void* (*cell_resize)(TpuCell, uint64_t nbytes); // a new address; the contents stay
  TpuCell (*cell_at)(const void* address); // whose storage begins there
  int32_t (*cell_device)(TpuCell); // -1: there is no such storage
  uint32_t (*op_count)(void);
  const char* (*op_name)(uint32_t op);
  const char* (*op_functional)(uint32_t op); // the name of the overload that gives new tensors; empty: it is never needed
  uint32_t (*op_strides)(uint32_t op); // of TpuStrides, and which argument decides << 8
  uint32_t (*op_manner)(uint32_t op);  // of TpuManner
  int32_t (*op_bind)(uint32_t op, const char* const* argument_names, uint64_t count);
  int32_t (*dispatch)(TpuCall*);
  int32_t (*upload)(TpuCell, const TpuTensorType*, const void* bytes, uint64_t size, uint64_t location);
  // TPU_NEEDS_RESULTS: clone it first.
  int32_t (*download)(TpuCell, const TpuTensorType*, void* bytes, uint64_t size, uint64_t location);
  int32_t (*send)(TpuCell from, TpuCell to);
  int32_t (*synchronize)(int32_t device);
  int32_t (*idle)(int32_t device); // whether all that was started has ended
  int32_t (*memory)(int32_t device, TpuMemory*);
  void (*reset_memory)(int32_t device, int32_t peak); // the peak, or else the counts since the last reset
  uint64_t (*locate)(const char* file, int32_t line, const char* function);
  int32_t (*start_profile)(void);
  int32_t (*stop_profile)(const TpuSpan**, uint64_t* count); // what ran since then; valid until this thread asks again
  const char* (*last_error)(int32_t* kind);
} TpuCore;

// What the core asks of the shim.
typedef struct {
  uint32_t abi;
  uint32_t size;
  int32_t (*next_seed)(int32_t device, void* generator, uint64_t seed_and_offset[2]);
  void (*let_grow)(void* tensor); // a Python object: a tensor on the host in memory of ours may from now on be resized
} TpuShim;
