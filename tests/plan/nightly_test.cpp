// The proofs that take minutes: every schedule for 65..256 ranks, and spots at 1024.
#include "proof.h"

namespace rondo::plan {
namespace {

TEST_CASE("every schedule is proved for 65 to 256 ranks") {
  for (const Schedule& schedule : schedules())
    for (int ranks = 65; ranks <= 256; ++ranks) prove(schedule, Topology::one_host(ranks), ranks / 3, 1 + ranks % 2);
}

TEST_CASE("every schedule is proved for 1024 ranks") {
  for (const Schedule& schedule : schedules()) prove(schedule, Topology::one_host(1024), 1023, 1);
}

}  // namespace
}  // namespace rondo::plan
