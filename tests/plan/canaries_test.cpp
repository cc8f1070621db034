// Proves that the verifier can fail: the association canary, one wrong plan for every rule, and the hazards that only
// aliasing, a second tile or a second strand bring.
#include <set>

#include "proof.h"

namespace rondo::plan {
namespace {

using enum Operation;
using Steps = std::vector<Step>;

Plan plan_of(Steps steps, int scratch_blocks = 0) { return {{{std::move(steps), 0}}, scratch_blocks, 0}; }

Run run_of(CollectiveKind kind, std::vector<Plan> plans, int blocks = 1) {
  const auto ranks = static_cast<std::int32_t>(plans.size());
  return {{kind, ranks, blocks, 0, 0}, std::move(plans)};
}

/// Four ranks hold equal lists of contributors, 3 2 1 0, and different sums.
Run association_canary() {
  const auto send_to = [](int peer, Range source) { return Step{.operation = send, .to = {peer}, .source = source}; };
  const auto add = [](int peer, Range target, bool finish) {
    return Step{
        .operation = recv_reduce, .from = {peer, here}, .source = scratch(0), .target = target, .finish = finish};
  };
  const auto take = [](int peer, Range target) {
    return Step{.operation = recv_copy, .from = {peer}, .target = target};
  };
  const Step load{.operation = copy, .source = in(0), .target = scratch(0)};
  const Range s = scratch(0), o = out(0);
  return run_of(CollectiveKind::all_reduce,
                {plan_of({load, send_to(3, s), add(1, s, false), add(2, o, true), send_to(1, o), send_to(2, o)}, 1),
                 plan_of({load, send_to(0, s), add(2, s, false), send_to(3, s), take(0, o)}, 1),
                 plan_of({load, add(3, s, false), send_to(0, s), send_to(1, s), take(0, o)}, 1),
                 plan_of({load, send_to(2, s), take(0, s), add(1, o, true)}, 1)});
}

TEST_CASE("the association canary is rejected as unequal") {
  const Run run = association_canary();
  const Verdict verdict = verify(run, {.credits = 4, .slices = 1, .tiles = 1, .expressions = true});
  REQUIRE(verdict.fault == Fault::unequal);
  REQUIRE(verdict.results.at({0, 0}).front() == "((x3 + x2) + (x1 + x0))");
  REQUIRE(verdict.results.at({0, 3}).front() == "(((x3 + x2) + x1) + x0)");
  // What a list of contributors would have let through:
  volatile float x0 = 4, x1 = 4, x2 = 0, x3 = 1e8F;
  REQUIRE((x3 + x2) + (x1 + x0) == 100000008.0F);
  REQUIRE(((x3 + x2) + x1) + x0 == 100000000.0F);
}

/// The steps of rank 1 of a schedule for four ranks.
struct Edited {
  Run run;
  Steps& steps;
  Edited(CollectiveKind kind, Algorithm algorithm)
      : run(build_run(*find(kind, algorithm), Topology::one_host(4))), steps(run.plans[1].strands[0].steps) {}
};

Fault fault_of(const Run& run, std::vector<std::int32_t> in_place = {}) {
  return verify(run, {.credits = 5, .in_place = std::move(in_place)}).fault;
}

TEST_CASE("every rule rejects a plan that breaks it") {
  std::set<Fault> seen;
  const auto rejected = [&](Fault fault, const Run& run, std::vector<std::int32_t> in_place = {}) {
    INFO(name(fault));
    CHECK(fault_of(run, std::move(in_place)) == fault);
    seen.insert(fault);
  };
  const auto ring = [] { return Edited(CollectiveKind::all_reduce, Algorithm::ring); };
  const auto two_shot = [] { return Edited(CollectiveKind::all_reduce, Algorithm::two_shot); };

  Edited e = ring();
  e.steps[1].to = {9};
  rejected(Fault::form, e.run);
  Edited outside = ring();
  outside.steps[0].source = in(4);
  rejected(Fault::range, outside.run);
  Edited to_in = ring();
  to_in.steps.back().target = in(2);
  rejected(Fault::write_to_in, to_in.run);
  const Step shift{.operation = copy, .source = scratch(0, 2), .target = scratch(1, 2)};
  rejected(Fault::overlap, run_of(CollectiveKind::all_reduce, {plan_of({shift}, 3)}));
  Edited unfinished = ring();
  for (Step& s : unfinished.steps) s.finish = false;
  rejected(Fault::partial_in_out, unfinished.run);
  Edited early = ring();
  for (Step& s : early.steps) s.finish = traits(s.operation).reduces;
  rejected(Fault::stage, early.run);
  Edited no_wait = two_shot();
  no_wait.steps.pop_back();
  rejected(Fault::lending, no_wait.run);
  Edited no_reply = two_shot();
  no_reply.steps[3].reply = false;
  rejected(Fault::missing, no_reply.run);
  Edited too_soon = two_shot();  // reads what the owner may be storing, before the wait
  too_soon.steps.insert(too_soon.steps.end() - 1, {.operation = copy, .source = out(0), .target = out(1)});
  rejected(Fault::race, too_soon.run, all_ranks(4));
  Edited swapped(CollectiveKind::reduce_scatter, Algorithm::direct);
  std::swap(swapped.steps[0].to, swapped.steps[1].to);
  rejected(Fault::misplaced, swapped.run);
  Edited one_more = ring();
  one_more.steps.push_back({.operation = send, .to = {3}, .source = in(0)});
  rejected(Fault::unmatched, one_more.run);
  rejected(Fault::unequal, association_canary());

  const Step store{.operation = recv_copy, .from = {0}, .target = out(0)};
  const Step both{.operation = copy_send, .to = {1}, .source = in(0), .target = out(0)};
  rejected(Fault::stale, run_of(CollectiveKind::broadcast,
                                {plan_of({{.operation = send, .to = {1}, .source = out(0)}}), plan_of({store})}));
  rejected(Fault::deadlock, run_of(CollectiveKind::broadcast, {plan_of({both}), plan_of({store, store})}));
  Run two_ends = run_of(CollectiveKind::broadcast, {plan_of({both}), plan_of({store})});
  two_ends.plans[0].strands.push_back(two_ends.plans[0].strands[0]);
  rejected(Fault::strand, two_ends);
  const Step exchange{.operation = send, .to = {1}, .source = in(0)};
  const Step once{.operation = recv_reduce, .from = {1, here}, .source = in(0), .target = scratch(0)};
  const Step again{.operation = recv_reduce, .from = {1, here}, .source = scratch(0), .target = out(0), .finish = true};
  Steps mine = {exchange, once, {.operation = send, .to = {1}, .source = scratch(0)}, again}, theirs = mine;
  for (Step& s : theirs) {
    for (std::int32_t& peer : s.from) peer = peer == here ? here : 0;
    for (std::int32_t& peer : s.to) peer = 0;
  }
  rejected(Fault::doubled, run_of(CollectiveKind::all_reduce, {plan_of(mine, 1), plan_of(theirs, 1)}));
  REQUIRE(seen.size() == fault_count - 1);
}

TEST_CASE("reading `in` after `out` was stored is right out of place, and stale in place") {
  const Run run =
      run_of(CollectiveKind::all_reduce, {plan_of({{.operation = recv_reduce_copy_send,
                                                    .from = {here, 1},
                                                    .to = {1},
                                                    .source = in(0),
                                                    .target = out(0),
                                                    .finish = true}}),
                                          plan_of({{.operation = send, .to = {0}, .source = in(0)},
                                                   {.operation = recv_copy, .from = {0}, .target = out(0)},
                                                   {.operation = copy, .source = in(0), .target = scratch(0)}},
                                                  1)});
  REQUIRE(fault_of(run) == Fault::none);
  REQUIRE(fault_of(run, {1}) == Fault::stale);
}

TEST_CASE("strands are ordered by self links and waits only") {
  const auto root = [](Steps first, Steps second) {  // two strands at the root of a broadcast to rank 1
    Plan plan{{{std::move(first), 0}, {std::move(second), 0}}, 1, 0};
    return run_of(CollectiveKind::broadcast,
                  {plan, plan_of({{.operation = recv_copy, .from = {0}, .target = out(0)}})});
  };
  const auto verdict = [](const Run& run, int credits, int tiles) {
    return verify(run, {.credits = credits, .tiles = tiles}).fault;
  };
  const Step load{.operation = copy, .source = in(0), .target = out(0)};
  REQUIRE(fault_of(root({load}, {{.operation = send, .to = {1}, .source = out(0)}})) == Fault::race);
  const Run joined = root({load, {.operation = send, .to = {0}, .source = out(0)}},
                          {{.operation = recv_copy_send, .from = {0}, .to = {1}, .target = scratch(0)}});
  REQUIRE(verdict(joined, 1, 2) == Fault::none);
  // Scratch has one copy for all tiles: this hand-over is right for one tile and a race for two, until it waits.
  const Step stage{.operation = copy, .source = in(0), .target = scratch(0)};
  const Step offer{.operation = lend, .to = {0}, .source = scratch(0)};
  const Steps down = {{.operation = recv_copy_send, .from = {0}, .to = {1}, .target = out(0)}};
  REQUIRE(verdict(root({stage, offer}, down), 4, 1) == Fault::none);
  for (const int credits : {4, 1})  // one credit happens to order it: no proof
    REQUIRE(verdict(root({stage, offer}, down), credits, 2) == Fault::race);
  REQUIRE(verdict(root({stage, offer, {.operation = wait, .to = {0}}}, down), 1, 3) == Fault::none);
}

TEST_CASE("a reply is received by the wait that it answers, and by nothing else") {
  // Rank 1 receives before it waits: with lends declined the reply would be taken for the message of rank 0.
  const Step finish{
      .operation = recv_reduce, .from = {here, 1}, .source = in(0), .target = out(0), .finish = true, .reply = true};
  const Run run =
      run_of(CollectiveKind::all_reduce, {plan_of({finish, {.operation = send, .to = {1}, .source = out(0)}}),
                                          plan_of({{.operation = lend, .to = {0}, .source = in(0), .target = out(0)},
                                                   {.operation = recv_copy, .from = {0}, .target = out(0)},
                                                   {.operation = wait, .to = {0}}})});
  REQUIRE(verify(run, {.credits = 5, .lends = decline}).fault == Fault::unmatched);
}

}  // namespace
}  // namespace rondo::plan
