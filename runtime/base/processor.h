// What processors do differently, and speed depends on: each such trait has a name here, and CPUID says who has it.
#pragma once

namespace rondo::processor {

/// Whether a core that stores to a line which it wrote, and which another core has read since, waits for that one line:
/// 7 to 28 ns each, none beside another.  So do AMD's (measured on Zen 4): supposed is that the line stays the writer's
/// (the Owned state of MOESI), and each such store asks for the readers' copies to go.  A line that its reader has
/// stored to costs its next writer 1.5 ns, as it is fetched like any other; to take it costs the reader 0.5 ns.
bool writers_wait_for_readers() noexcept;

}  // namespace rondo::processor
