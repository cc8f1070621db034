// The library's own threads, and which threads of this process could still start something: for telling a deadlock
// from a wait.
//
// A thread of the library that does nothing until another thread gives it work (the control thread; a queue's worker
// with an empty queue) counts itself here.  All other threads are taken to be able to call anything at any time.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace rondo::threads {

/// Starts a thread that takes no signals: these are for the program's own threads.  `name`: at most 15 bytes, for
/// debuggers; `what`: for the sentence.  Throws Error: "cannot start " what, and why.
std::thread start(const std::string& name, const std::string& what, std::function<void()> work);

/// How soon the calling thread gets a processor on which another runs when it is woken.  Modest: when that one's time
/// is over, so that whoever wakes it goes on.  Prompt: at once, where the kernel allows.  Threads with a real-time
/// policy stay as they are.  Costs a system call where it changes anything.
void be_modest() noexcept;
void be_prompt() noexcept;

/// The calling thread, or one that only it can give work to, does nothing by itself from now on.
void idle_began() noexcept;
/// The opposite.  Called before the work is given, so that the count is never too high.
void idle_ended() noexcept;

/// Whether every thread but the calling one is idle in that sense.  Reads /proc: some microseconds.  False where it
/// cannot be read.
bool only_this_one_acts() noexcept;

}  // namespace rondo::threads
