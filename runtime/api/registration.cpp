// ncclCommRegister: a promise of the caller's, for which nothing has to be done.
//
// What can be lent in place, memory of ncclMemAlloc, its peers map of themselves; other memory the kernel copies from
// where it is, and it is never mapped anew.  So a handle only counts: that it is given back once, to its communicator.
#include <algorithm>
#include <cstdint>

#include "api/handle.h"
#include "nccl.h"

using namespace rondo;
using api::guarded;

extern "C" {

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guarded("ncclCommRegister", [&] {
    api::check_ready(comm);
    if (handle == nullptr) throw Error(Code::invalid_argument, "handle is NULL; give a place for the handle");
    *handle = nullptr;
    if (buff == nullptr || size == 0) throw Error(Code::invalid_argument, "buff is NULL or size is 0");
    if (size > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(buff)) {
      throw Error(Code::invalid_argument, "size is more than memory can hold behind buff");
    }
    const std::lock_guard lock(comm->mutex);
    comm->registrations.push_back(std::make_unique<api::Registration>());
    *handle = comm->registrations.back().get();
    return ncclSuccess;
  });
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  return guarded("ncclCommDeregister", [&] {
    api::check_handle(comm);
    const std::lock_guard lock(comm->mutex);
    const auto found =
        std::ranges::find(comm->registrations, handle, [](const auto& one) -> void* { return one.get(); });
    if (found == comm->registrations.end()) {
      throw Error(Code::invalid_argument,
                  "handle is none of ncclCommRegister with this communicator, or was given back before");
    }
    comm->registrations.erase(found);
    return ncclSuccess;
  });
}

[[gnu::weak, gnu::alias("pncclCommRegister")]] decltype(ncclCommRegister) ncclCommRegister;
[[gnu::weak, gnu::alias("pncclCommDeregister")]] decltype(ncclCommDeregister) ncclCommDeregister;

}  // extern "C"
