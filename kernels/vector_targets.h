// Which instruction sets Highway compiles the vector kernels for: AVX2 and AVX-512.  Include before any of Highway's
// headers.  Highway's own choice at run time is not used: it lives in a shared library, and the kernels are found
// through table.h anyhow.  Code compiled so must run only where instruction_sets() of host_reducer.cpp says so.
#pragma once

#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
