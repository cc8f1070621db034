// A barrier for all threads at once, so that what one thread does often needs none: Linux's membarrier.
//
// The often-run side stores, keeps the compiler from reordering (std::atomic_signal_fence), and loads.  The other side
// stores, calls everywhere(), and loads: at least one of them sees what the other stored.
#pragma once

namespace rondo::barriers {

/// Registers this process, once, so that everywhere() reaches it; in other processes, too.  False: the kernel refuses.
bool registered() noexcept;

/// Runs a full barrier on every processor that runs a registered process: some microseconds.  False: the kernel
/// refuses.
bool everywhere() noexcept;

/// The same for threads of this process, which must be registered.  Where the kernel refuses from some moment on (a
/// seccomp filter) it sleeps instead, for far longer than a processor keeps a store to itself.
void in_this_process() noexcept;

}  // namespace rondo::barriers
