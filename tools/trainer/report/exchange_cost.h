// What the exchange of gradients costs a step, by difference: steps with it, under no_sync() and without the layer,
// in turns, and the exchange with nothing beside it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace rondo::report {

/// Seconds, one of each a round; a step's is that of the slowest rank.
struct ExchangeRounds {
  std::vector<double> usual;
  std::vector<double> paused;    // under no_sync(): the layer, and no exchange
  std::vector<double> detached;  // without the layer
  std::vector<double> alone;     // the exchange, and no step
};

/// Medians over rounds; differences are those of the same round.
struct ExchangeCost {
  std::size_t rounds = 0;  // 0: not measured
  double usual = 0;
  double paused = 0;
  double detached = 0;
  double alone = 0;
  double exposed = 0;  // usual - paused
  double layer = 0;    // paused - detached

  double exposed_share() const { return usual > 0 ? exposed / usual : 0; }
  double hidden_share() const { return alone > 0 ? 1 - exposed / alone : 0; }
  double layer_share() const { return usual > 0 ? layer / usual : 0; }
  /// The speed with exchange, of that without.
  double speed_share() const { return usual > 0 ? detached / usual : 0; }
};

/// All lists are as long as the first, which may be empty.
ExchangeCost exchange_cost(const ExchangeRounds& rounds);

/// A table; empty if nothing was measured.
std::string text(const ExchangeCost& cost);
/// The same, for programs; null if nothing was measured.
nlohmann::json to_json(const ExchangeCost& cost);

}  // namespace rondo::report
