// The table of a sweep: places, gaps, the fastest.
#include "tools/trainer/report/tune_table.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <vector>

using namespace rondo::report;

TEST_CASE("A sweep becomes a table with its fastest point marked") {
  const std::vector<TunePoint> points{
      {25 << 20, 1, 40, 0.1}, {1 << 20, 1, 30.25, 0.25}, {1 << 20, 4, 52.5, 0.0314}, {100 << 20, 4, 50, 0.05}};
  CHECK(tune_table(points, points[0]) ==
        "images/s (exposed communication), by bucket size and backwards a step\n"
        "                            1                 4 \n"
        "    1.00 MiB    30.2 (25.0 %)      52.5 (3.1 %)*\n"
        "    25.0 MiB    40.0 (10.0 %)                 - \n"
        "     100 MiB                -      50.0 (5.0 %) \n"
        "fastest: buckets of 1.00 MiB, 4 backwards a step: 52.5 images/s, 1.31 times those of 25.0 MiB and 1 (40.0)\n");
  CHECK(tune_table({}, {}).empty());
  CHECK(tune_table({points.data(), 1}, {}).find("1 backward a step: 40.0 images/s\n") != std::string::npos);
}

TEST_CASE("A sweep's advice is flags, and keeps to the batch where the fastest has another") {
  const std::vector<TunePoint> points{{25 << 20, 1, 40, 0.1}, {1 << 19, 1, 44, 0.2}, {1 << 20, 4, 52, 0.03}};
  CHECK(
      tune_advice(points, points[0]) ==
      std::vector<std::string>{"--bucket-cap-mb 1 --grad-accum-steps 4: the fastest, with a global batch 4.00 times as "
                               "large, 1.30 times the usual speed",
                               "--bucket-cap-mb 0.5 --grad-accum-steps 1: the fastest with the same batch, 1.10 times "
                               "the usual speed"});
  CHECK(tune_advice({points.data(), 2}, points[0]) ==
        std::vector<std::string>{"--bucket-cap-mb 0.5 --grad-accum-steps 1: the fastest, 1.10 times the usual speed"});
  CHECK(tune_advice({}, {}).empty());
  const nlohmann::json json = tune_json(points, points[0]);
  CHECK(json["points"][2]["exposed_share"] == 0.03);
  CHECK(json["fastest"]["accumulation"] == 4);
  CHECK(json["usual"]["images_per_second"] == 40);
  CHECK(json["advice"].size() == 2);
}
