// The only file that names concrete transports and kernels: it puts a communicator together.
#include "base/env.h"
#include "base/log.h"
#include "communicator/make.h"
#include "kernels/host_reducer.h"
#include "memory.h"
#include "transports/regions.h"
#include "transports/shm.h"

namespace rondo {

std::unique_ptr<Communicator> Communicator::create(const control::UniqueId& id, int rank, int ranks,
                                                   const Options& options) {
  control::check_not_forked();
  (void)env::choice("RONDO_TRANSPORT", {"shm"});  // one transport so far: forcing it changes nothing
  const auto deadline = control::Clock::now() + std::chrono::seconds(env::integer("RONDO_TIMEOUT", 1, 1'000'000));
  const control::Membership membership = control::join(id, rank, ranks, deadline);
  Parts parts{{}, host_reducer()};
  parts.transports.push_back(make_shm_transport(control::doorbell()));
  return make_communicator(membership, std::move(parts), options, deadline);
}

void* memory_alloc(std::size_t bytes) { return Regions::instance().allocate(bytes); }
bool memory_free(void* memory) { return Regions::instance().release(memory); }

}  // namespace rondo
