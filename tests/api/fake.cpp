// The fake's side of communicator.h, control.h and memory.h: the linker takes these in place of the real ones.
#include "fake.h"

#include <cstdlib>
#include <cstring>
#include <map>

namespace fake {

World& world() {
  static World world;
  return world;
}

void World::reset() {
  const std::lock_guard lock(mutex);
  ran.clear();
  created.clear();
  join = nullptr;
  outcome = nullptr;
  runs_ahead = false;
}

}  // namespace fake

namespace rondo {

std::unique_ptr<Communicator> Communicator::create(const control::UniqueId& id, int rank, int ranks, const Options&) {
  if (id.bytes[0] != std::byte{'r'}) throw Error(Code::invalid_argument, "not an id");
  if (fake::world().join) fake::world().join(rank, ranks);
  const std::lock_guard lock(fake::world().mutex);
  fake::world().created.push_back(rank);
  return std::make_unique<fake::Fake>(rank, ranks);
}

Status run_calls(std::span<const PendingCall> calls, Patience patience) noexcept {
  {
    const std::lock_guard lock(fake::world().mutex);
    fake::world().ran.push_back({{calls.begin(), calls.end()}, std::this_thread::get_id(), patience});
  }
  Status first;
  for (const PendingCall& call : calls) {
    const Status status = fake::world().outcome ? fake::world().outcome(call) : Status{};
    if (first.ok()) first = status;
  }
  for (const PendingCall& call : calls) {
    if (call.turn != CallOrder::entered) call.communicator->order().end_turns(1);
  }
  return first;
}

bool run_ahead(std::span<const PendingCall> calls, Patience patience, Progress& progress, Status& status) noexcept {
  if (!fake::world().runs_ahead) return false;
  {
    const std::lock_guard lock(fake::world().mutex);
    fake::world().ran.push_back({{calls.begin(), calls.end()}, std::this_thread::get_id(), patience});
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (status.ok() && fake::world().outcome) status = fake::world().outcome(calls[i]);
    if (status.ok()) progress.done(i + 1);
  }
  return true;
}

Status run_call(Communicator& communicator, const Call& call, std::uint64_t turn) noexcept {
  const PendingCall pending{&communicator, call, turn};
  return run_calls(std::span(&pending, 1), Patience::caller);
}

namespace control {

void check_not_forked() {
  if (fake::world().forked) throw Error(Code::invalid_usage, "forked");
}

UniqueId create_unique_id() { return derived_unique_id({"random", ""}); }
UniqueId create_derived_root(const Rendezvous& rendezvous) {
  UniqueId id = derived_unique_id(rendezvous);
  id.bytes[127] = std::byte{'s'};  // served here
  return id;
}
UniqueId derived_unique_id(const Rendezvous& rendezvous) {
  UniqueId id;
  std::string text = "r:";
  text += rendezvous.name;
  std::memcpy(id.bytes, text.data(), std::min<std::size_t>(text.size(), 120));
  return id;
}

}  // namespace control

/// What memory_alloc gave, with its size.
std::map<const void*, std::size_t> mappable;

void* memory_alloc(std::size_t bytes) {
  void* const memory = std::calloc(1, bytes);
  mappable[memory] = bytes;
  return memory;
}
bool memory_free(void* memory) {
  mappable.erase(memory);
  std::free(memory);
  return true;
}
bool memory_is_mappable(const void* memory, std::size_t bytes) {
  const auto found = mappable.find(memory);
  return found != mappable.end() && bytes <= found->second;
}

}  // namespace rondo
