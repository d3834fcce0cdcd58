// The table of the Rust core, and its errors as exceptions.

#include "shim.h"

#include <c10/util/Exception.h>

namespace torchtpu {

static const TpuCore* table = nullptr;

const TpuCore& core() {
  return *table;
}

void set_core(const TpuCore* given) {
  table = given;
}

void raise_last_error() {
  int32_t kind = TPU_RUNTIME_ERROR;
  std::string message = core().last_error(&kind);
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (kind) {
    case TPU_NOT_IMPLEMENTED:
    case TPU_NO_KERNEL:
      throw c10::NotImplementedError(here, std::move(message));
    case TPU_OUT_OF_MEMORY:
      throw c10::OutOfMemoryError(here, std::move(message));
    case TPU_INDEX_ERROR:
      throw c10::IndexError(here, std::move(message));
    case TPU_TYPE_ERROR:
      throw c10::TypeError(here, std::move(message));
    default:
      throw c10::Error(here, std::move(message));
  }
}

}  // namespace torchtpu
