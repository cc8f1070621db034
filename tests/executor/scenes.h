// Scenes to play: one made from a seed, and a plain one to change.
#pragma once

#include "stage.h"

namespace stage {

/// One call of `schedule`; everything else follows from the seed.
inline Scene random_scene(const rondo::plan::Schedule& schedule, std::uint64_t seed) {
  using rondo::simulated::Lending;
  rondo::simulated::Random random(seed * 1009 + static_cast<std::uint64_t>(schedule.algorithm) * 17 +
                                  static_cast<std::uint64_t>(schedule.kind));
  Scene scene;
  scene.ranks = static_cast<int>(1 + random.below(9));
  scene.seed = random.next();
  Call call;
  call.schedule = &schedule;
  call.root = static_cast<int>(random.below(scene.ranks));
  call.type = static_cast<DataType>(random.below(rondo::data_type_count));
  call.op = static_cast<Operator>(random.below(rondo::operator_count));
  call.in_place = random.percent(50);
  const std::uint64_t n = static_cast<std::uint64_t>(scene.ranks);
  const std::uint64_t counts[] = {0, 1, n - 1, n, n + 1, 61, 127, 1021, 4099, 20'011};
  call.count = counts[random.below(std::size(counts))];
  if (random.percent(3)) call.count = 90'000 + random.below(20'000);
  constexpr std::size_t slots[] = {64, 128, 192, 1024, 8192, rondo::limits::slot_bytes};
  call.cut.slot_bytes = call.count > 5000 ? rondo::limits::slot_bytes / 8 : slots[random.below(std::size(slots))];
  if (random.percent(50)) {
    for (int rank = 0; rank < scene.ranks; ++rank) scene.hosts.push_back(static_cast<std::int32_t>(random.below(3)));
  }
  const auto widest = static_cast<std::size_t>(schedule.widest(topology_of(scene)));
  call.cut.slot_bytes = std::max(call.cut.slot_bytes, 8 * widest);
  call.cut.slices_max = static_cast<int>(1 + random.below(4));
  call.cut.slice_bytes_min = random.percent(50) ? 64 : 4096;
  if (random.percent(33)) {
    call.stripes = static_cast<int>(1 + random.below(4));
    call.shares = static_cast<int>(1 + random.below(4));
  }
  call.shelf = static_cast<int>(random.below(4));
  scene.calls.push_back(call);
  scene.links.seed = random.next();
  scene.links.lending = static_cast<Lending>(random.below(3));
  scene.links.delay_max = random.percent(20) ? 0 : 100;
  const int least = credits_needed(scene);
  scene.links.credits = least + static_cast<int>(random.below(4));
  if (random.percent(50)) {
    scene.links.landings = static_cast<int>(1 + random.below(16));
    scene.links.credits += static_cast<int>(random.below(16));  // so that much arrives at once
  }
  return scene;
}

/// One call of `schedule` on default links: float32 sum, out of place.
inline Scene plain_scene(const rondo::plan::Schedule& schedule, int ranks, std::uint64_t count) {
  Scene scene;
  scene.ranks = ranks;
  Call call;
  call.schedule = &schedule;
  call.count = count;
  scene.calls.push_back(call);
  return scene;
}

}  // namespace stage
