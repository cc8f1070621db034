// Comparing descriptions and values over ranks, and sending values to all.
#include "exchange.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "types.h"

namespace rondo::data_parallel {
namespace {

constexpr std::size_t sentence_bytes_max = 512;
/// Ranges of at least this size travel from where they are; smaller ones are packed.
constexpr std::size_t direct_bytes_min = std::size_t{256} << 10;

int count_ranks(ncclComm_t comm) {
  int ranks = 0;
  require(ncclCommCount(comm, &ranks), comm, "count the ranks");
  return ranks;
}

/// Rank 0's text, on every rank.
std::string text_of_rank_0(ncclComm_t comm, std::string text) {
  std::uint64_t bytes = text.size();
  require(ncclBcast(&bytes, 1, ncclUint64, 0, comm, nullptr), comm, "compare the models of the ranks");
  text.resize(bytes);
  require(ncclBcast(text.data(), bytes, ncclUint8, 0, comm, nullptr), comm, "compare the models of the ranks");
  return text;
}

/// The first difference of `mine` and rank 0's lines in words, or an empty string.
std::string first_difference(std::span<const std::string> mine, std::span<const std::string> first, int rank) {
  const std::string here = " on rank " + std::to_string(rank);
  for (std::size_t i = 0; i < std::max(mine.size(), first.size()); ++i) {
    if (i >= mine.size()) return first[i] + " on rank 0 is missing" + here;
    if (i >= first.size()) return mine[i] + here + " is missing on rank 0";
    if (mine[i] != first[i]) return first[i] + " on rank 0 is " + mine[i] + here;
  }
  return {};
}

/// 64 bits of a range, in which every bit counts: four lanes of multiply and rotate, folded.
std::uint64_t hash(const void* data, std::size_t bytes) {
  constexpr std::uint64_t odd = 0x9e6c63d0876a3f6bULL;
  std::array<std::uint64_t, 4> lanes{bytes, bytes ^ odd, ~bytes, bytes * odd};
  const auto* bytes_left = static_cast<const std::byte*>(data);
  std::size_t left = bytes;
  const auto mix = [](std::uint64_t lane, std::uint64_t word) { return std::rotl((lane ^ word) * odd, 29); };
  for (; left >= 32; left -= 32, bytes_left += 32) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), bytes_left, 32);
    for (std::size_t i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  std::array<std::uint64_t, 4> words{};
  if (left > 0) std::memcpy(words.data(), bytes_left, left);
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < 4; ++i) result = mix(result ^ (result >> 31), mix(lanes[i], words[i]));
  return result ^ (result >> 32);
}

}  // namespace

void require_same(ncclComm_t comm, std::span<const std::string> lines, const std::string& what) {
  int rank = 0;
  require(ncclCommUserRank(comm, &rank), comm, "ask for the rank");
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  text = text_of_rank_0(comm, std::move(text));
  std::vector<std::string> first;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    first.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::string mine = first_difference(lines, first, rank);
  mine.resize(sentence_bytes_max);
  const auto ranks = static_cast<std::size_t>(count_ranks(comm));
  std::vector<char> all(ranks * sentence_bytes_max);
  require(ncclAllGather(mine.data(), all.data(), sentence_bytes_max, ncclUint8, comm, nullptr), comm,
          "compare the models of the ranks");
  std::size_t differing = 0;
  std::string sentence;
  for (std::size_t i = 0; i < ranks; ++i) {
    const char* one = all.data() + i * sentence_bytes_max;
    if (*one == '\0') continue;
    if (++differing == 1) sentence.assign(one, ::strnlen(one, sentence_bytes_max));
  }
  if (differing == 0) return;
  if (differing > 1) sentence += " (and " + std::to_string(differing - 1) + " more ranks differ from rank 0)";
  throw Error(what + ": " + sentence);
}

void Broadcaster::send(std::span<const Parameter> ranges, int root) {
  if (staging_.data() == nullptr) staging_ = Memory(2 * direct_bytes_min);
  for (const Parameter& range : ranges) {
    const std::size_t bytes = bytes_of(range);
    if (bytes >= direct_bytes_min) {
      require(ncclBcast(range.values, bytes, ncclUint8, root, comm_, nullptr), comm_, "send values to all ranks");
      continue;
    }
    if (waiting_bytes_ + bytes > staging_.bytes()) flush(root);
    waiting_.emplace_back(static_cast<std::byte*>(range.values), bytes);
    waiting_bytes_ += bytes;
  }
  flush(root);
}

void Broadcaster::flush(int root) {
  std::byte* place = staging_.data();
  if (rank_ == root) {
    for (const auto& range : waiting_) place = std::copy(range.begin(), range.end(), place);
  }
  require(ncclBcast(staging_.data(), waiting_bytes_, ncclUint8, root, comm_, nullptr), comm_,
          "send values to all ranks");
  if (rank_ != root) {
    for (const auto& range : waiting_) {
      std::copy_n(place, range.size(), range.begin());
      place += range.size();
    }
  }
  waiting_.clear();
  waiting_bytes_ = 0;
}

void require_agreement(ncclComm_t comm, int ranks, std::span<const Parameter> ranges) {
  std::vector<std::uint64_t> mine;
  for (const Parameter& range : ranges) mine.push_back(hash(range.values, bytes_of(range)));
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(ranks));
  require(ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint64, comm, nullptr), comm,
          "compare the parameters of the ranks");
  for (std::size_t i = 0; i < mine.size(); ++i) {
    std::string differing;
    for (std::size_t rank = 1; rank < static_cast<std::size_t>(ranks); ++rank) {
      if (all[rank * mine.size() + i] == all[i]) continue;
      differing += (differing.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (!differing.empty()) {
      throw Error("the ranks have drifted apart: " + describe(ranges[i]) + " differs from rank 0 on rank " + differing +
                  "; something changes parameters on one rank alone");
    }
  }
}

}  // namespace rondo::data_parallel
