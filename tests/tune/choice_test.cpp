// Which algorithm serves a call: the shipped table, NCCL_ALGO, and tables of `rondo tune`, right and wrong.
#define CATCH_CONFIG_MAIN
#include "communicator/choice.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/result.h"
#include "tests/setting.h"

namespace {

using namespace rondo;
using plan::Algorithm;
using test::Setting;

constexpr const char* table = R"(# made by hand
rondo-tune 1
all_reduce 4 1 4096 ring        # up to and with 4096
all_reduce 4 1 100 star
all_reduce 4 1 * tree
all_reduce 4 2 * halving_doubling
broadcast 2 2 * binomial
)";

std::string trouble_of(const std::string& text) {
  try {
    Tuning::parse(text, "the file");
  } catch (const Error& error) {
    CHECK(error.code() == Code::invalid_usage);
    return error.what();
  }
  return "";
}

Algorithm chosen(const Chooser& chooser, std::uint64_t bytes) {
  return chooser.choose(CollectiveKind::all_reduce, bytes).algorithm;
}

TEST_CASE("A table speaks of its shape alone, and the least row that is enough counts") {
  const Tuning all = Tuning::parse(table, "the file");
  const Tuning here = all.of(4, 1);
  CHECK(here.find(CollectiveKind::all_reduce, 1) == Algorithm::star);
  CHECK(here.find(CollectiveKind::all_reduce, 100) == Algorithm::star);
  CHECK(here.find(CollectiveKind::all_reduce, 101) == Algorithm::ring);
  CHECK(here.find(CollectiveKind::all_reduce, 4096) == Algorithm::ring);
  CHECK(here.find(CollectiveKind::all_reduce, std::uint64_t{1} << 40) == Algorithm::tree);
  CHECK(!here.find(CollectiveKind::broadcast, 1));
  CHECK(all.of(4, 2).find(CollectiveKind::all_reduce, 1) == Algorithm::halving_doubling);
  CHECK(all.of(5, 1).empty());
}

TEST_CASE("Equal tables have equal digests, others do not") {
  const auto digest = [](const std::string& text) { return Tuning::parse(text, "the file").digest(); };
  const std::string one = "rondo-tune 1\nall_reduce 2 1 8 ring\n";
  CHECK(digest(one) == digest("# hello\n\nrondo-tune 1\n  all_reduce 2 1 8 ring # there\n"));
  CHECK(digest(one) != digest("rondo-tune 1\nall_reduce 2 1 9 ring\n"));
  CHECK(digest(one) != digest("rondo-tune 1\nall_reduce 2 1 8 star\n"));
  CHECK(digest(one) != digest("rondo-tune 1\nall_reduce 2 2 8 ring\n"));
}

TEST_CASE("What is wrong with a table is said with its line") {
  const std::string begin = "rondo-tune 1\n";
  CHECK_THAT(trouble_of(""), Catch::Contains("empty"));
  CHECK_THAT(trouble_of("hello\n"), Catch::Contains("the file, line 1") && Catch::Contains("rondo tune"));
  CHECK_THAT(trouble_of(begin + "all_reduce 4 1 ring"), Catch::Contains("line 2") && Catch::Contains("COLLECTIVE"));
  CHECK_THAT(trouble_of(begin + "\nall_reduced 4 1 * ring"), Catch::Contains("line 3: there is no collective"));
  CHECK_THAT(trouble_of(begin + "all_reduce 0 1 * ring"), Catch::Contains("0 ranks on 1 hosts"));
  CHECK_THAT(trouble_of(begin + "all_reduce 2 3 * ring"), Catch::Contains("2 ranks on 3 hosts"));
  CHECK_THAT(trouble_of(begin + "all_reduce 2 1 8k ring"), Catch::Contains("\"8k\""));
  CHECK_THAT(trouble_of(begin + "all_reduce 2 1 -8 ring"), Catch::Contains("\"-8\""));
  CHECK_THAT(trouble_of(begin + "all_reduce 2 1 99999999999999999999999 ring"), Catch::Contains("9999"));
  CHECK_THAT(trouble_of(begin + "broadcast 2 1 * ring"), Catch::Contains("broadcast has no algorithm \"ring\""));
}

TEST_CASE("A table's word counts where NCCL_ALGO and RONDO_DETERMINISTIC allow it") {
  const Tuning tuning = Tuning::parse(table, "the file").of(4, 1);
  CHECK(chosen(Chooser(4, 1, Reach::near, false), 8) == Algorithm::one_shot);
  CHECK(chosen(Chooser(4, 1, Reach::near, false, tuning), 8) == Algorithm::star);
  CHECK(Chooser(4, 1, Reach::near, false, tuning).choose(CollectiveKind::all_reduce, 8).reason == "RONDO_TUNE_FILE");
  {
    const Setting algo("NCCL_ALGO", "ring");
    CHECK(chosen(Chooser(4, 1, Reach::near, false, tuning), 8) == Algorithm::ring);
  }
  const Setting deterministic("RONDO_DETERMINISTIC", "1");
  const Algorithm fold = chosen(Chooser(4, 1, Reach::near, false, tuning), 1 << 20);
  CHECK(plan::find(CollectiveKind::all_reduce, fold)->left_fold);
}

TEST_CASE("Settings that mean the same are the same in the words that ranks compare, others are not") {
  const auto words = [](const char* name, const char* value) {
    const Setting setting(name, value);
    return Chooser::settings({});
  };
  const std::string unset = Chooser::settings({});
  CHECK(words("RONDO_DETERMINISTIC", "0") == unset);
  CHECK(words("RONDO_GROUP_BYTES", "0x2000") == unset);
  CHECK(words("NCCL_ALGO", "Ring") == words("NCCL_ALGO", "ring"));
  CHECK(words("RONDO_DETERMINISTIC", "1") != unset);
  CHECK(words("RONDO_GROUP_BYTES", "0") != unset);
  CHECK(words("NCCL_ALGO", "ring") != unset);
}

TEST_CASE("What a table names is cut, and lent where all ranks lend, as where the shipped table names it") {
  const auto tuned = [](int ranks, bool crowded, const std::string& row) {
    return Chooser(ranks, 1, Reach::near, crowded, Tuning::parse("rondo-tune 1\n" + row, "the file").of(ranks, 1));
  };
  const auto same = [](const Chooser& tuned, const Chooser& shipped, std::uint64_t bytes) {
    const Choice a = tuned.choose(CollectiveKind::all_reduce, bytes);
    const Choice b = shipped.choose(CollectiveKind::all_reduce, bytes);
    return a.reason == "RONDO_TUNE_FILE" && a.algorithm == b.algorithm && a.lending == b.lending &&
           a.cut.slot_bytes == b.cut.slot_bytes && a.cut.slice_bytes_min == b.cut.slice_bytes_min;
  };
  const Chooser one_shot = tuned(2, false, "all_reduce 2 1 * one_shot");
  for (const std::uint64_t bytes : {8, 4096, 98304}) CHECK(same(one_shot, Chooser(2, 1, Reach::near, false), bytes));
  // Above, what is sent is not one message any more.
  CHECK_FALSE(one_shot.choose(CollectiveKind::all_reduce, 98305).lending);
  CHECK(one_shot.choose(CollectiveKind::all_reduce, 98305).cut.slice_bytes_min == plan::Cut().slice_bytes_min);
  const Chooser two_shot = tuned(4, true, "all_reduce 4 1 * two_shot");
  CHECK(same(two_shot, Chooser(4, 1, Reach::near, true), 16 << 20));
}

TEST_CASE("Who sums a reduce: the root of a few, all ranks of a host, and a chain where links are what is short") {
  const auto of = [](int ranks, int hosts, Reach reach, std::uint64_t bytes) {
    return Chooser(ranks, hosts, reach, false).choose(CollectiveKind::reduce, bytes).algorithm;
  };
  for (const int ranks : {2, 4}) CHECK(of(ranks, 1, Reach::near, 16 << 20) == Algorithm::binomial);
  for (const int ranks : {5, 16}) {
    CHECK(of(ranks, 1, Reach::near, 32 << 10) == Algorithm::binomial);
    CHECK(of(ranks, 1, Reach::near, (32 << 10) + 1) == Algorithm::two_shot);
    CHECK(of(ranks, 1, Reach::near, 1 << 20) == Algorithm::two_shot);
    CHECK(of(ranks, 1, Reach::near, (1 << 20) + 1) == Algorithm::chain);
    const Chooser crowded(ranks, 1, Reach::near, true);
    CHECK(crowded.choose(CollectiveKind::reduce, 16 << 20).algorithm == Algorithm::two_shot);
  }
  CHECK(of(17, 1, Reach::near, 16 << 20) == Algorithm::chain);
  CHECK(of(3, 3, Reach::far, 16 << 20) == Algorithm::chain);
  CHECK(of(2, 2, Reach::far, 16 << 20) == Algorithm::binomial);
  const Setting deterministic("RONDO_DETERMINISTIC", "1");
  for (const int ranks : {2, 4, 16}) CHECK(of(ranks, 1, Reach::near, 8) == Algorithm::two_shot);
  for (const int ranks : {2, 3}) CHECK(of(ranks, ranks, Reach::far, 8) == Algorithm::chain);
}

TEST_CASE("What a root lends to several is copied once where ranks of one host share cores, and nowhere else") {
  const auto shelf = [](const Chooser& chooser, CollectiveKind kind) { return chooser.choose(kind, 1 << 20).shelf; };
  CHECK(shelf(Chooser(3, 1, Reach::near, true), CollectiveKind::broadcast));
  CHECK_FALSE(shelf(Chooser(3, 1, Reach::near, false), CollectiveKind::broadcast));
  CHECK_FALSE(shelf(Chooser(2, 1, Reach::near, true), CollectiveKind::broadcast));
  CHECK_FALSE(shelf(Chooser(4, 2, Reach::far, true), CollectiveKind::broadcast));
  CHECK_FALSE(shelf(Chooser(4, 1, Reach::one_socket, true), CollectiveKind::broadcast));
  CHECK_FALSE(shelf(Chooser(4, 1, Reach::near, true), CollectiveKind::all_gather));
  const Setting algo("NCCL_ALGO", "broadcast:chain");
  CHECK_FALSE(shelf(Chooser(4, 1, Reach::near, true), CollectiveKind::broadcast));
}

TEST_CASE("NCCL_ALGO: what is asked for and can't be is an error, also beside what can; what is excluded is not used") {
  const auto refused = [](const char* list) -> std::string {
    const Setting algo("NCCL_ALGO", list);
    try {
      (void)Chooser(4, 1, Reach::near, false);
    } catch (const Error& error) {
      CHECK(error.code() == Code::invalid_usage);
      return error.what();
    }
    return "";
  };
  CHECK(refused(" ").empty());
  CHECK(refused("ring").empty());
  CHECK(refused("pat").empty());  // all_reduce has none: decision 11
  CHECK(refused("^ring,tree").empty());
  CHECK(refused("^nvls").empty());
  CHECK(refused("ring;broadcast:chain").empty());
  CHECK_THAT(refused("allreduce:pat"), Catch::Contains("no algorithm for all_reduce, which has these: ring, star"));
  CHECK_THAT(refused("allreduce:pat;broadcast:chain"), Catch::Contains("no algorithm for all_reduce"));
  CHECK_THAT(refused("ring;broadcast:tree"), Catch::Contains("no algorithm for broadcast, which has these: chain"));
  CHECK_THAT(refused("^direct,bruck"), Catch::Contains("no algorithm for all_to_all, which has these: direct, bruck"));
  CHECK_THAT(refused("nvls"), Catch::Contains("NCCL_ALGO=nvls: no collective has such an algorithm"));
  CHECK_THAT(refused("sendrecv:ring"), Catch::Contains("no algorithm for send_recv, which has one plan"));
  const Setting deterministic("RONDO_DETERMINISTIC", "1");
  CHECK(refused("chain").empty());
  CHECK_THAT(refused("ring"), Catch::Contains("no deterministic algorithm for all_reduce"));
}

TEST_CASE("Where another program may be run if all ranks lend") {
  const auto lending = [](const Chooser& chooser, std::uint64_t bytes) {
    return chooser.choose(CollectiveKind::all_reduce, bytes).lending;
  };
  CHECK_FALSE(lending(Chooser(2, 1, Reach::near, false), 512));
  CHECK(lending(Chooser(2, 1, Reach::near, false), 4096) == Algorithm::two_shot);
  CHECK_FALSE(lending(Chooser(4, 1, Reach::near, false), 4096));
  CHECK(lending(Chooser(4, 1, Reach::near, false), 32 << 10) == Algorithm::two_shot);
  CHECK_FALSE(lending(Chooser(2, 1, Reach::near, false), 1 << 20));
  CHECK_FALSE(lending(Chooser(2, 1, Reach::far, false), 4096));
  CHECK_FALSE(lending(Chooser(1, 1, Reach::near, false), 4096));
  const Setting algo("NCCL_ALGO", "one_shot");
  CHECK_FALSE(lending(Chooser(2, 1, Reach::near, false), 4096));
}

TEST_CASE("The shipped table, by ranks, hosts and size") {
  CHECK(chosen(Chooser(2, 1, Reach::near, false), 8) == Algorithm::one_shot);
  CHECK(chosen(Chooser(16, 1, Reach::near, false), 1 << 20) == Algorithm::two_shot);
  CHECK(chosen(Chooser(17, 1, Reach::near, false), 8) == Algorithm::recursive_doubling);
  CHECK(chosen(Chooser(64, 1, Reach::near, false), 64 << 10) == Algorithm::halving_doubling);
  CHECK(chosen(Chooser(64, 1, Reach::near, false), 64 << 20) == Algorithm::ring);
  CHECK(chosen(Chooser(4, 4, Reach::far, false), 64 << 20) == Algorithm::two_shot);
  CHECK(chosen(Chooser(5, 5, Reach::far, false), 64 << 20) == Algorithm::ring);
  CHECK(chosen(Chooser(8, 2, Reach::far, false), 8) == Algorithm::one_shot);
  CHECK(chosen(Chooser(8, 2, Reach::far, false), 64 << 20) == Algorithm::hierarchical);
  CHECK(chosen(Chooser(64, 8, Reach::far, false), 8) == Algorithm::recursive_doubling);
  CHECK(chosen(Chooser(4, 1, Reach::far, false), 64 << 20) == Algorithm::ring);  // one host, over TCP
  for (const std::string& line : Chooser(64, 1, Reach::near, false).describe()) {
    if (line.starts_with("all_reduce")) {
      CHECK(line == "all_reduce: recursive_doubling up to 4096 bytes, halving_doubling up to 524288 bytes, ring above");
    }
  }
}

TEST_CASE(
    "Deterministic: two_shot where every rank may link to all, else the chain, and star for little of many ranks") {
  const Setting deterministic("RONDO_DETERMINISTIC", "1");
  constexpr std::uint64_t sizes[] = {8, 4096, 32 << 10, 512 << 10, 64 << 20};
  const auto all = [&](const Chooser& chooser) {
    std::vector<Algorithm> names;
    for (const std::uint64_t bytes : sizes) names.push_back(chosen(chooser, bytes));
    return names;
  };
  using enum Algorithm;
  CHECK(all(Chooser(4, 1, Reach::near, false)) == std::vector{one_shot, one_shot, one_shot, two_shot, two_shot});
  CHECK(all(Chooser(4, 1, Reach::far, false)) == std::vector{one_shot, one_shot, one_shot, two_shot, two_shot});
  CHECK(all(Chooser(4, 4, Reach::far, false)) == std::vector{one_shot, one_shot, one_shot, two_shot, two_shot});
  CHECK(all(Chooser(4, 2, Reach::far, false)) == std::vector{one_shot, one_shot, one_shot, two_shot, two_shot});
  CHECK(all(Chooser(17, 1, Reach::near, false)) == std::vector{star, star, chain, chain, chain});
  CHECK(all(Chooser(64, 8, Reach::far, false)) == std::vector{star, star, chain, chain, chain});
  CHECK(all(Chooser(64, 64, Reach::far, false)) == std::vector{star, star, chain, chain, chain});
}

TEST_CASE("Messages are smaller where ranks of one host share cores") {
  const auto slot = [](int ranks, int hosts, bool far, bool crowded, std::uint64_t bytes) {
    return Chooser(ranks, hosts, far ? Reach::far : Reach::near, crowded)
        .choose(CollectiveKind::all_reduce, bytes)
        .cut.slot_bytes;
  };
  constexpr std::uint64_t some = 16 << 20;
  CHECK(slot(4, 1, false, true, 512 << 10) == limits::slot_bytes);
  CHECK(slot(4, 1, false, true, some) < limits::slot_bytes);
  CHECK(slot(4, 1, false, true, 128 << 20) < slot(4, 1, false, true, some));
  CHECK(slot(4, 1, false, false, some) == limits::slot_bytes);
  CHECK(slot(2, 1, false, true, some) == limits::slot_bytes);
  CHECK(slot(4, 1, true, true, some) == limits::slot_bytes);
  CHECK(slot(4, 4, true, true, some) == limits::slot_bytes);
  const Setting algo("NCCL_ALGO", "ring");
  CHECK(slot(4, 1, false, true, some) == limits::slot_bytes);
}

TEST_CASE("Messages are larger where one socket links each pair") {
  const auto cut = [](int ranks, int hosts, Reach reach, std::uint64_t bytes) {
    return Chooser(ranks, hosts, reach, false).choose(CollectiveKind::all_reduce, bytes).cut;
  };
  const auto slot = [&](int ranks, int hosts, Reach reach, std::uint64_t bytes) {
    return cut(ranks, hosts, reach, bytes).slot_bytes;
  };
  constexpr std::uint64_t some = 16 << 20;
  CHECK(slot(2, 2, Reach::one_socket, some) == limits::tcp_slot_bytes);  // one_shot
  CHECK(slot(4, 4, Reach::one_socket, some) == limits::tcp_slot_bytes);  // two_shot
  CHECK(slot(4, 1, Reach::one_socket, some) == limits::tcp_slot_bytes);  // ring
  CHECK(slot(4, 1, Reach::far, some) == limits::slot_bytes);
  CHECK(slot(4, 2, Reach::one_socket, some) == limits::slot_bytes);  // hierarchical
  CHECK(slot(64, 64, Reach::one_socket, 8) == limits::slot_bytes);   // recursive_doubling
  const auto slices = [&](int ranks, std::uint64_t bytes) {
    const plan::Shape shape{.blocks = ranks == 2 ? 1 : ranks, .widest = 1};
    return plan::Layout(shape, bytes / 4, DataType::float32, cut(ranks, ranks, Reach::one_socket, bytes)).slices();
  };
  CHECK(slices(2, 256 << 10) == 1);
  CHECK(slices(2, 512 << 10) == 2);
  CHECK(slices(4, 256 << 10) == 2);
  for (const char* name : {"tree", "ring"}) {
    const Setting algo("NCCL_ALGO", name);  // trees' strands join through memory
    CHECK((slot(4, 4, Reach::one_socket, some) == limits::tcp_slot_bytes) == (name[0] == 'r'));
  }
}

TEST_CASE("A table's choice is cut as the shipped one's") {
  const Tuning tuning = Tuning::parse("rondo-tune 1\nall_reduce 2 2 * one_shot\n", "the file").of(2, 2);
  const plan::Cut cut = Chooser(2, 2, Reach::one_socket, false, tuning).choose(CollectiveKind::all_reduce, 1).cut;
  CHECK(cut.slot_bytes == limits::tcp_slot_bytes);
}

TEST_CASE("What goes by the kernel's copies, and what through slots") {
  constexpr std::size_t most = std::size_t{1} << 30;
  constexpr Copying pair{2, false, false}, taking{2, false, true}, three{3, false, true}, crowded{4, true, true};
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::send_recv, CollectiveKind::broadcast}) {
    CHECK(gains_by_address(kind, 16 << 10, pair));
    CHECK(!gains_by_address(kind, 1 << 20, taking));
    CHECK(gains_by_address(kind, (1 << 20) + 1, taking));
    CHECK(gains_by_address(kind, 16 << 10, three));
  }
  CHECK(gains_by_address(CollectiveKind::reduce_scatter, most, pair));
  CHECK(!gains_by_address(CollectiveKind::reduce_scatter, most, taking));
  CHECK(gains_by_address(CollectiveKind::reduce_scatter, most, three));
  CHECK(!gains_by_address(CollectiveKind::reduce_scatter, most, crowded));
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce}) {
    CHECK(!gains_by_address(kind, most, pair));
    CHECK(gains_by_address(kind, most, three));
    CHECK(!gains_by_address(kind, most, crowded));
  }
  CHECK(!gains_by_address(CollectiveKind::gather, 32 << 10, crowded));
  CHECK(gains_by_address(CollectiveKind::gather, 64 << 10, crowded));
  CHECK(gains_by_address(CollectiveKind::send_recv, 16 << 10, crowded));
}

TEST_CASE("What ranks must agree on") {
  CHECK(Chooser::settings({}) == "");
  const Setting algo("NCCL_ALGO", "^tree");
  CHECK(Chooser::settings({}) == "NCCL_ALGO=^tree");
  const std::string both = Chooser::settings(Tuning::parse(table, "the file"));
  CHECK_THAT(both, Catch::StartsWith("NCCL_ALGO=^tree RONDO_TUNE_FILE="));
}

TEST_CASE("A file that is not there, or is a folder") {
  {
    const Setting folder("RONDO_TUNE_FILE", "/");
    CHECK_THROWS_WITH(Tuning::from_environment(), Catch::Contains("cannot read /: Is a directory"));
  }
  {
    const Setting endless("RONDO_TUNE_FILE", "/dev/zero");
    CHECK_THROWS_WITH(Tuning::from_environment(), Catch::Contains("cannot read /dev/zero: it has more than"));
  }
  const Setting file("RONDO_TUNE_FILE", "/no/such/file");
  CHECK_THROWS_WITH(Tuning::from_environment(), Catch::Contains("/no/such/file") && Catch::Contains("rondo tune"));
}

}  // namespace
