// A performance program: every row of its table, measured and checked.
#pragma once

#include "collectives.h"

namespace rondo::perf {

/// main() of a program that measures `collective`.  The status: 0; 1 where an element was wrong, a byte beside a buffer
/// was written, ranks got different bits, the bandwidth demanded was not reached, or the library failed; 2 for a wrong
/// command line.
int run(const Collective& collective, int argument_count, char** arguments);

}  // namespace rondo::perf
