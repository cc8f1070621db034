// The test program's main: skips, with a sentence, where network namespaces cannot be made.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "hosts.h"

int main(int argc, char** argv) {
  try {
    const rondo::test::Hosts probe(2);
  } catch (const rondo::test::Unavailable& why) {
    std::printf("skipped: %s\n", why.what());
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
