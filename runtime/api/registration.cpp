// ncclCommRegister and ncclCommWindowRegister: promises of the caller's, for which nothing has to be done.
//
// What can be lent in place, memory of ncclMemAlloc, its peers map of themselves; other memory the kernel copies from
// where it is, and it is never mapped anew.  So a handle only counts: that it is given back once, to its communicator.
#include <algorithm>
#include <cstdint>

#include "api/handle.h"
#include "base/log.h"
#include "memory.h"
#include "nccl.h"

using namespace rondo;
using api::guarded;

namespace {

void check_range(const void* buff, std::size_t size) {
  if (buff == nullptr || size == 0) throw Error(Code::invalid_argument, "buff is NULL or size is 0");
  if (size > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(buff)) {
    throw Error(Code::invalid_argument, "size is more than memory can hold behind buff");
  }
}

/// Of the communicator's windows, whose mutex is held.
auto find_window(ncclComm& comm, ncclWindow_t window) {
  const auto found = std::ranges::find(comm.windows, window, [](const auto& one) { return one.get(); });
  if (found == comm.windows.end()) {
    throw Error(Code::invalid_argument,
                "win is none of ncclCommWindowRegister with this communicator, or was given back before");
  }
  return found;
}

}  // namespace

extern "C" {

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guarded("ncclCommRegister", [&] {
    api::check_ready(comm);
    if (handle == nullptr) throw Error(Code::invalid_argument, "handle is NULL; give a place for the handle");
    *handle = nullptr;
    check_range(buff, size);
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

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags) {
  return guarded("ncclCommWindowRegister", [&] {
    api::check_ready(comm);
    if (win == nullptr) throw Error(Code::invalid_argument, "win is NULL; give a place for the window");
    *win = nullptr;
    check_range(buff, size);
    if ((winFlags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
      throw Error(Code::invalid_argument, "winFlags " + std::to_string(winFlags) +
                                              " is neither NCCL_WIN_DEFAULT (0) nor NCCL_WIN_COLL_SYMMETRIC (1)");
    }
    if (!memory_is_mappable(buff, size)) {
      if (log::enabled(log::Subsystem::reg)) {
        log::info(log::Subsystem::reg, "ncclCommWindowRegister: no window, as peers can't map these " +
                                           std::to_string(size) + " bytes: they are not of ncclMemAlloc");
      }
      return ncclSuccess;
    }
    const std::lock_guard lock(comm->mutex);
    comm->windows.push_back(std::make_unique<ncclWindow_vidmem>(ncclWindow_vidmem{buff}));
    *win = comm->windows.back().get();
    return ncclSuccess;
  });
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return guarded("ncclCommWindowDeregister", [&] {
    api::check_handle(comm);
    if (win == nullptr) return ncclSuccess;
    const std::lock_guard lock(comm->mutex);
    comm->windows.erase(find_window(*comm, win));
    return ncclSuccess;
  });
}

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  return guarded("ncclWinGetUserPtr", [&] {
    api::check_handle(comm);
    if (outUserPtr == nullptr) throw Error(Code::invalid_argument, "outUserPtr is NULL; give a place for the address");
    *outUserPtr = nullptr;
    const std::lock_guard lock(comm->mutex);
    *outUserPtr = (*find_window(*comm, win))->memory;
    return ncclSuccess;
  });
}

[[gnu::weak, gnu::alias("pncclCommRegister")]] decltype(ncclCommRegister) ncclCommRegister;
[[gnu::weak, gnu::alias("pncclCommDeregister")]] decltype(ncclCommDeregister) ncclCommDeregister;
[[gnu::weak, gnu::alias("pncclCommWindowRegister")]] decltype(ncclCommWindowRegister) ncclCommWindowRegister;
[[gnu::weak, gnu::alias("pncclCommWindowDeregister")]] decltype(ncclCommWindowDeregister) ncclCommWindowDeregister;
[[gnu::weak, gnu::alias("pncclWinGetUserPtr")]] decltype(ncclWinGetUserPtr) ncclWinGetUserPtr;

}  // extern "C"
