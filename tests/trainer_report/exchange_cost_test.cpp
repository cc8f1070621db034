// What the exchange costs: differences within a round, and their words.
#include "tools/trainer/report/exchange_cost.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace rondo::report;

TEST_CASE("The cost of the exchange is the median of differences within a round") {
  // The third round had a slow minute: it moves neither difference.
  const ExchangeCost cost =
      exchange_cost({{0.105, 0.100, 0.305}, {0.100, 0.097, 0.300}, {0.099, 0.096, 0.299}, {0.02}});
  CHECK(cost.rounds == 3);
  CHECK(cost.usual == Approx(0.105));
  CHECK(cost.alone == Approx(0.02));
  CHECK(cost.exposed == Approx(0.005));
  CHECK(cost.layer == Approx(0.001));
  CHECK(cost.exposed_share() == Approx(0.005 / 0.105));
  CHECK(cost.hidden_share() == Approx(0.75));
  CHECK(cost.layer_share() == Approx(0.001 / 0.105));
  CHECK(cost.speed_share() == Approx(0.099 / 0.105));
  CHECK(text(cost) ==
        "Exchange, in turns               ms\n"
        "  a step                        105\n"
        "  under no_sync()               100\n"
        "  without the layer            99.0\n"
        "  the exchange alone           20.0\n"
        "  exposed (a step less one under no_sync(), median of 3): 5.00 ms, 4.8 % of the step; hidden: 75.0 % of the "
        "exchange\n"
        "  the layer itself: 1.0 % of the step; speed: 0.943 of that without exchange\n");
  CHECK(to_json(cost)["hidden_share"] == Approx(0.75));
  CHECK(to_json(cost)["rounds"] == 3);
}

TEST_CASE("What was not measured is not told") {
  const ExchangeCost none = exchange_cost({});
  CHECK(none.hidden_share() == 0);
  CHECK(text(none).empty());
  CHECK(to_json(none).is_null());
}
