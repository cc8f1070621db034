// By vendor: what a virtual machine says of the model may be any of its family.
#include "base/processor.h"

namespace rondo::processor {

bool writers_wait_for_readers() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

}  // namespace rondo::processor
