// Medians, and the sentence that they give; see exchange_cost.h.
#include "tools/trainer/report/exchange_cost.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/trainer/report/words.h"

namespace rondo::report {
namespace {

std::vector<double> differences(const std::vector<double>& of, const std::vector<double>& less) {
  std::vector<double> result(of.size());
  std::transform(of.begin(), of.end(), less.begin(), result.begin(), [](double a, double b) { return a - b; });
  return result;
}

}  // namespace

ExchangeCost exchange_cost(const ExchangeRounds& rounds) {
  ExchangeCost cost;
  cost.rounds = rounds.usual.size();
  cost.usual = median(rounds.usual);
  cost.paused = median(rounds.paused);
  cost.detached = median(rounds.detached);
  cost.alone = median(rounds.alone);
  cost.exposed = median(differences(rounds.usual, rounds.paused));
  cost.layer = median(differences(rounds.paused, rounds.detached));
  return cost;
}

std::string text(const ExchangeCost& cost) {
  if (cost.rounds == 0) return "";
  const auto row = [](const std::string& name, double seconds) {
    return "  " + left_of(name, 24) + right_of(three_digits(seconds * 1e3), 9) + "\n";
  };
  std::string text = left_of("Exchange, in turns", 26) + right_of("ms", 9) + "\n";
  text += row("a step", cost.usual);
  text += row("under no_sync()", cost.paused);
  text += row("without the layer", cost.detached);
  text += row("the exchange alone", cost.alone);
  text += "  exposed (a step less one under no_sync(), median of " + std::to_string(cost.rounds) +
          "): " + three_digits(cost.exposed * 1e3) + " ms, " + percent(cost.exposed_share()) +
          " % of the step; hidden: " + percent(cost.hidden_share()) + " % of the exchange\n";
  text += "  the layer itself: " + percent(cost.layer_share()) +
          " % of the step; speed: " + three_digits(cost.speed_share()) + " of that without exchange\n";
  return text;
}

nlohmann::json to_json(const ExchangeCost& cost) {
  if (cost.rounds == 0) return {};
  return {{"rounds", cost.rounds},
          {"step_s", cost.usual},
          {"no_sync_s", cost.paused},
          {"without_layer_s", cost.detached},
          {"alone_s", cost.alone},
          {"exposed_s", cost.exposed},
          {"exposed_share", cost.exposed_share()},
          {"hidden_share", cost.hidden_share()},
          {"layer_share", cost.layer_share()},
          {"speed_share", cost.speed_share()}};
}

}  // namespace rondo::report
