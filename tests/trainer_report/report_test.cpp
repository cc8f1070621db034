// The final report: its figures, its sentences and when they are said, its last line; scaling; timelines and traces.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/folder.h"
#include "tests/trainer_report/made.h"
#include "tools/trainer/report/advice.h"
#include "tools/trainer/report/final_report.h"
#include "tools/trainer/report/timeline.h"
#include "tools/trainer/report/words.h"

using namespace rondo::report;
using Catch::Contains;
using rondo::test::made_figures;

namespace {

Run run_of(int ranks) {
  Run run;
  run.settings = {{"model", "resnet50"}, {"batch a rank", "32"}};
  for (int rank = 0; rank < ranks; ++rank) run.ranks.push_back(made_figures(rank));
  run.gradient_bytes = 26 << 20;
  run.bucket_bytes = 25 << 20;
  return run;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.rfind('\n', text.size() - 2);
  return text.substr(end + 1);
}

std::string all_advice(const Run& run) {
  std::string sentences;
  for (const std::string& sentence : advice(run)) sentences += sentence + "\n";
  return sentences;
}

}  // namespace

TEST_CASE("The report says what the figures say") {
  Run run = run_of(2);
  run.ranks[1].seconds = 1.25;
  run.ranks[1].peak_bytes = 240 << 20;
  CHECK(images_per_second(run) == Approx(640 / 1.25));
  run.others = {{1, 300}};
  const std::string report = text(run);
  CHECK_THAT(report,
             Contains("2 ranks on 1 host, model resnet50, batch a rank 32: 10 steps measured, 640 images in 1.25"));
  CHECK_THAT(report, Contains("exposed communication        2.00      1.8"));
  CHECK_THAT(report, Contains("whole                         112    100.0"));
  CHECK_THAT(report, Contains("slowest 111 ms"));
  CHECK_THAT(report, Contains("rank 1                       240 MiB     100 MiB    50.0 MiB"));
  CHECK_THAT(report, Contains("all ranks: 200 MiB PSS") && Contains("largest peak 9.1 % above the mean"));
  CHECK_THAT(report, Contains("2 ranks           512           1.71       85.3 %"));
  CHECK_THAT(report, Contains("parallel fraction of 0.828: at most 5.82 times"));
  CHECK_THAT(report, !Contains("Advice"));
  CHECK_THAT(report, !Contains("device peak"));
  CHECK(last_line(report) == "512 images/s\n");

  const nlohmann::json json = to_json(run);
  CHECK(json["world_size"] == 2);
  CHECK(json["images_per_second"] == Approx(512.0));
  CHECK(json["settings"]["model"] == "resnet50");
  CHECK(json["ranks"][1]["memory"]["peak_rss_bytes"] == 240 << 20);
  CHECK(json["ranks"][0]["phases_s"]["exposed communication"] == 0.002);
  CHECK(json["ranks"][0]["buckets"][1]["end_s"] == 0.062);
  CHECK(double(json["scaling"]["parallel_fraction"]) == Approx(2 * (1 - 300.0 / 512)));
  CHECK(json["advice"].empty());
  CHECK(to_json(run_of(3))["scaling"]["parallel_fraction"].is_null());

  const rondo::test::Folder folder;
  const ScalingPoint point = scaling_point_of(folder.write("two.json", std::string_view(json.dump())));
  CHECK(point.ranks == 2);
  CHECK(point.images_per_second == Approx(512));
  for (const char* text : {"{", "[]", "{\"world_size\": 2}"}) {
    CHECK_THAT(rondo::test::sentence([&] { scaling_point_of(folder.write("bad", std::string_view(text))); }),
               Contains("bad is not the JSON report"));
  }
  CHECK_THAT(rondo::test::sentence([&] { scaling_point_of(folder.path("none")); }), Contains("cannot read"));
}

TEST_CASE("Many ranks are shown by their extremes, hosts are counted, one rank needs no buckets") {
  Run run = run_of(20);
  run.ranks[7].peak_bytes = 1 << 20;
  for (Figures& figures : run.ranks) figures.host = 4.4e15 + figures.host;  // any number will do for a host
  CHECK(to_json(run)["ranks"][19]["host"] == 9);
  CHECK_THAT(text(run), Contains("20 ranks on 10 hosts") && Contains("least: rank 7 ") && !Contains("  rank 7 "));
  Run one = run_of(1);
  one.ranks[0].buckets.clear();
  one.ranks[0].device_bytes = 1 << 30;
  CHECK_THAT(text(one), Contains("1 rank on 1 host") && Contains("device peak") && Contains("1.00 GiB"));
  CHECK_THAT(text(one), !Contains("Buckets") && !Contains("Scaling"));
  CHECK(last_line(text(one)) == "320 images/s\n");
}

TEST_CASE("Amdahl's formula is found again from what it gives") {
  for (const double fraction : {0.5, 0.9, 0.99, 1.0}) {
    std::vector<ScalingPoint> points;
    for (const int ranks : {1, 2, 4, 8}) points.push_back({ranks, 100 * speed_up(fraction, ranks)});
    CHECK(parallel_fraction(points) == Approx(fraction));
    CHECK(parallel_fraction(std::vector{points[0], points[2]}) == Approx(fraction));
  }
  CHECK(std::isnan(parallel_fraction(std::vector<ScalingPoint>{{2, 10}, {4, 20}})));
  CHECK(std::isnan(parallel_fraction(std::vector<ScalingPoint>{{1, 10}})));
  CHECK(std::isnan(parallel_fraction(std::vector<ScalingPoint>{{1, 0}, {2, 5}})));
}

TEST_CASE("Advice follows from its rules, and is silent without cause") {
  CHECK(all_advice(run_of(2)).empty());
  Run slow_data = run_of(2);
  for (Figures& figures : slow_data.ranks) figures.phases[0] = 0.02;
  CHECK_THAT(all_advice(slow_data), Contains("(-j)") && Contains("20.0 %"));

  Run lame = run_of(3);
  lame.ranks[2].phases[2] = 0.09;
  CHECK_THAT(all_advice(lame), Contains("Rank 2 computes 20.0 % longer"));

  Run exposed = run_of(2);
  for (Figures& figures : exposed.ranks) {
    figures.phases = {0.001, 0.030, 0.040, 0.020, 0.005};
    figures.backward = 0.040;
    figures.buckets.clear();
    for (const double bytes : {1e6, 2e6, 5e6, 10e6, 20e6})
      figures.buckets.push_back({bytes, 0, 0, 0.0005 + bytes / 2e9});
  }
  exposed.gradient_bytes = 100e6;
  exposed.bucket_bytes = 64e6;
  // 0.02 / (0.025 + k * 0.075) falls below 5 % from k = 5 on: 8.
  CHECK_THAT(all_advice(exposed),
             Contains("Accumulate over 8 backwards (now 1)") && Contains("20.0 %") && Contains("it would be 3.2 %"));
  CHECK_THAT(all_advice(exposed), Contains("Make buckets 9.54 MiB (now 61)"));  // sqrt(0.0005 * 100e6 * 2e9) = 10e6
  CHECK_THAT(all_advice(exposed), !Contains("no bucket size hides"));
  exposed.bucket_bytes = 12e6;
  CHECK_THAT(all_advice(exposed), !Contains("Make buckets"));
  for (Figures& figures : exposed.ranks) figures.buckets.push_back({20e6, 0, 0, 0.05});
  CHECK_THAT(all_advice(exposed), Contains("no bucket size hides"));
  CHECK_THAT(text(exposed), Contains("\nAdvice\n  All-reduces take"));
}

TEST_CASE("A fit of all-reduces' times wants a line") {
  std::vector<BucketMeans> buckets{{1e6, 0, 1, 1.003}, {2e6, 0, 1, 1.004}, {4e6, 0, 1, 1.006}};
  const auto fit = transfer_fit(buckets);
  REQUIRE(fit);
  CHECK(fit->latency == Approx(0.002));
  CHECK(fit->speed == Approx(1e9));
  CHECK_FALSE(transfer_fit({buckets.data(), 2}));
  CHECK_FALSE(transfer_fit(std::vector<BucketMeans>{{1e6, 0, 0, 1}, {1.1e6, 0, 0, 1}, {1.2e6, 0, 0, 2}}));
  CHECK_FALSE(transfer_fit(std::vector<BucketMeans>{{1e6, 0, 0, 3}, {2e6, 0, 0, 2}, {4e6, 0, 0, 1}}));
  CHECK(wanted_accumulation(1, 0.02, 0.1, 1) == 1);
  CHECK(wanted_accumulation(1, 0, 0.1, 4) == 1);
  CHECK(wanted_accumulation(1, 0.99, 0, 1) == 64);
}

TEST_CASE("The text timeline shows waiting, reducing and backward's end") {
  const std::vector<BucketMeans> buckets{{1 << 20, 0.010, 0.020, 0.050}, {2e6, 0.040, 0.050, 0.100}};
  CHECK(timeline_text(buckets, 0.080) ==
        "  bucket        size   ready   start     end\n"
        "       0    1.00 MiB    10.0    20.0    50.0       .....===============               |\n"
        "       1    1.91 MiB    40.0    50.0     100                      .....===============|=========\n");
  CHECK(timeline_text({}, 1).empty());
  const std::string svg = timeline_svg(buckets, 0.080, "a < b");
  CHECK_THAT(svg, Contains("a &lt; b") && Contains("all-reduce from 20.0 to 50.0 ms"));
}

TEST_CASE("The trace holds every span and bucket, in microseconds from the earliest") {
  const std::vector<std::vector<Step>> steps{{rondo::test::made_step(100.5, 1, 7)},
                                             {rondo::test::made_step(100, 2, 7)}};
  const nlohmann::json trace = chrome_trace(steps);
  int spans = 0, buckets = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++(event["tid"] == 1 ? spans : buckets);
    CHECK(event["args"]["step"] == 7);
    CHECK(double(event["ts"]) >= 0);
    if (event["pid"] == 0 && event["name"] == "forward") CHECK(double(event["ts"]) == Approx(1.5e6));
    if (event["pid"] == 0 && event["name"] == "forward") CHECK(double(event["dur"]) == Approx(2e6));
    if (event["pid"] == 0 && event["name"] == "bucket 1") {
      CHECK(double(event["ts"]) == Approx(6.5e6));
      CHECK(double(event["args"]["waited_us"]) == Approx(1e6));
      CHECK(event["args"]["bytes"] == 2 << 20);
    }
  }
  CHECK(spans == 5 + 8);
  CHECK(buckets == 4);
}

TEST_CASE("Figures have three digits") {
  CHECK(three_digits(0.1234) == "0.123");
  CHECK(three_digits(9.999) == "10.0");
  CHECK(three_digits(54.12) == "54.1");
  CHECK(three_digits(1234) == "1234");
  CHECK(size_text(512) == "512 B");
  CHECK(size_text(25 << 20) == "25.0 MiB");
}
