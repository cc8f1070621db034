// The JSON document of a run: nccl-tests' schema 3 (keys, and booleans as the strings "true" and "false"), but of the
// environment only a list of variables that change results and hold no secret.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "report.h"

namespace rondo::perf {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* recorded_variables[] = {"RANK",
                                              "WORLD_SIZE",
                                              "LOCAL_RANK",
                                              "LOCAL_WORLD_SIZE",
                                              "OMP_NUM_THREADS",
                                              "NCCL_ALGO",
                                              "NCCL_PROTO",
                                              "NCCL_BUFFSIZE",
                                              "NCCL_DEBUG",
                                              "NCCL_DEBUG_SUBSYS",
                                              "NCCL_IB_DISABLE",
                                              "NCCL_P2P_DISABLE",
                                              "NCCL_SHM_DISABLE",
                                              "NCCL_SOCKET_FAMILY",
                                              "NCCL_SOCKET_IFNAME",
                                              "NCCL_TESTS_MIN_BW",
                                              "RONDO_DETERMINISTIC",
                                              "RONDO_NCCL_VERSION",
                                              "RONDO_TIMEOUT",
                                              "RONDO_TRANSPORT"};

const char* word(bool value) { return value ? "true" : "false"; }

Json environment() {
  Json list = Json::array();
  for (const char* name : recorded_variables)
    if (const char* value = std::getenv(name)) list.push_back(std::string(name) + "=" + value);
  return list;
}

Json configuration(const Options& options, const std::vector<Place>& places) {
  Json config = {{"nthreads", options.threads},
                 {"ngpus", options.ranks_per_thread},
                 {"minimum_bytes", options.bytes_min},
                 {"maximum_bytes", options.bytes_max}};
  if (options.factor > 1)
    config["step_factor"] = options.factor;
  else
    config["step_bytes"] = options.bytes_step;
  config["warmup_iters"] = options.warmups;
  config["iterations"] = options.iterations;
  config["aggregated_iterations"] = options.aggregated;
  config["validation"] = options.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = word(true);
  config["per_iter_timing"] = word(options.per_iteration);
  config["parallel_init"] = word(options.parallel_init);
  config["memory"] = options.memory == Memory::plain ? "plain" : "alloc";
  config["fresh"] = word(options.fresh);
  Json devices = Json::array();
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Place& place = places[rank];
    devices.push_back({{"rank", rank},
                       {"group", 0},
                       {"pid", place.pid},
                       {"hostname", place.host},
                       {"device", place.device},
                       {"device_hex", place.processors},
                       {"device_info", "host memory"}});
  }
  config["devices"] = std::move(devices);
  return config;
}

Json figures(const Half& half) {
  return {{"time", half.time_us},
          {"alg_bw", half.algbw},
          {"bus_bw", half.busbw},
          {"nwrong", half.wrong ? Json(*half.wrong) : Json(nullptr)}};
}

Json iterations(const IterationTimes& times) {
  return {{"min_us", times.minimum_us},     {"max_us", times.maximum_us},
          {"avg_us", times.mean_us},        {"p50_us", times.p50_us},
          {"p95_us", times.p95_us},         {"p99_us", times.p99_us},
          {"stdev_us", times.deviation_us}, {"cv_pct", times.variation_percent()},
          {"times_us", times.all_us}};
}

Json results(const Summary& summary, int iteration_count) {
  Json list = Json::array();
  for (const Row& row : summary.rows) {
    Json entry = {{"size", row.bytes},
                  {"count", row.count},
                  {"type", row.type},
                  {"redop", row.op},
                  {"root", std::to_string(row.root)}};
    entry["out_of_place"] = figures(row.out_of_place);
    if (row.out_of_place.iterations) entry["out_of_place_per_iter"] = iterations(*row.out_of_place.iterations);
    entry["in_place"] = row.in_place ? figures(*row.in_place) : Json(nullptr);
    if (row.in_place && row.in_place->iterations) entry["in_place_per_iter"] = iterations(*row.in_place->iterations);
    entry["actual_iterations"] = iteration_count;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string json_document(const Options& options, const std::vector<std::string>& arguments,
                          const std::string& start_time, const std::vector<Place>& places, const Summary& summary) {
  int version = 0;
  (void)ncclGetVersion(&version);
  const std::optional<bool> enough = verdict(options, summary);
  Json document = {
      {"version", 3},
      {"start_time", start_time},
      {"args", arguments},
      {"env", environment()},
      {"nccl_version", version},
      {"config", configuration(options, places)},
      {"results", results(summary, options.iterations)},
      {"out_of_bounds", {{"count", summary.out_of_bounds}, {"okay", word(summary.out_of_bounds == 0)}}},
      {"different_ranks", summary.different_ranks},
      {"average_bus_bandwidth", {{"bandwidth", summary.busbw()}, {"okay", enough ? word(*enough) : "unchecked"}}},
      {"end_time", time_of_day()},
      {"errors", Json::array()}};
  return document.dump(1) + "\n";
}

}  // namespace rondo::perf
