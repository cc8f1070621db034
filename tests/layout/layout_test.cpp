// Layouts: the slices of all tiles and blocks tile the buffer exactly, fit the slots, and stay inside the scratch, for
// many counts, types, blocks and cuts; sizes beyond 4 GiB are arithmetic only.
#define CATCH_CONFIG_MAIN
#include "plan/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

using rondo::DataType;
using rondo::element_bytes;
using namespace rondo::plan;

namespace {

constexpr std::uint64_t counts[] = {0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 1000, 1009, 4096, 40'009, 100'003};
constexpr Cut cuts[] = {{},           {64, 1, 64},         {64, 4, 64},       {128, 3, 64},           {192, 2, 100},
                        {1000, 4, 8}, {4096, 4, 8 * 1024}, {60'000, 4, 8192}, {56 * 1024, 1, 1 << 20}};
constexpr DataType types[] = {DataType::int8, DataType::float16, DataType::float32, DataType::float64};

struct Case {
  Shape shape;
  std::uint64_t count;
  DataType type;
  Cut cut;
};

/// Calls `use` for every shape, count, type and cut.
template <typename Use>
void for_each_case(bool segmented, Use&& use) {
  for (const int blocks : {1, 2, 3, 4, 7, 16, 33}) {
    if (segmented && blocks > 1) continue;
    for (const std::uint64_t count : counts) {
      for (const DataType type : types) {
        for (const Cut& cut : cuts) {
          Shape shape;
          shape.blocks = blocks;
          shape.segmented = segmented;
          shape.stripes = 1 + static_cast<int>(count % 3);
          use(Case{shape, count, type, cut});
        }
      }
    }
  }
}

/// What a message of this piece carries, checked against the slots and the type.
bool fits(const Piece& piece, const Case& c) {
  const std::size_t bytes = piece.bytes * static_cast<std::size_t>(piece.segments);
  return bytes <= c.cut.slot_bytes && piece.bytes % element_bytes(c.type) == 0 &&
         piece.offset % element_bytes(c.type) == 0;
}

}  // namespace

TEST_CASE("The slices of a contiguous buffer follow each other without gap or overlap") {
  for_each_case(false, [](const Case& c) {
    const Layout layout(c.shape, c.count, c.type, c.cut);
    std::size_t at = 0;
    bool right = layout.tiles() >= 1 && layout.slices() >= 1 && layout.slices() <= c.cut.slices_max;
    for (std::uint64_t tile = 0; tile < layout.tiles(); ++tile) {
      for (int block = 0; block < c.shape.blocks; ++block) {
        for (int slice = 0; slice < layout.slices(); ++slice) {
          const Piece piece = layout.piece(in(block), tile, slice);
          right = right && piece.segments == 1 && fits(piece, c) && (piece.bytes == 0 || piece.offset == at);
          at += piece.bytes;
        }
      }
    }
    INFO(c.count << " elements of type " << int(c.type) << ", " << c.shape.blocks << " blocks, slots of "
                 << c.cut.slot_bytes);
    CHECK(right);
    CHECK(at == c.count * element_bytes(c.type));
  });
}

TEST_CASE("The slices of a range of several blocks tile those blocks, and fit the slots made for the widest") {
  for_each_case(false, [](Case c) {
    c.shape.widest = c.shape.blocks;
    if (c.cut.slot_bytes < 64 * static_cast<std::size_t>(c.shape.widest)) c.cut.slot_bytes *= c.shape.widest;
    const Layout layout(c.shape, c.count, c.type, c.cut);
    bool right = true;
    for (std::uint64_t tile = 0; tile < layout.tiles(); ++tile) {
      for (int first = 0; first < c.shape.blocks; ++first) {
        const int wide = c.shape.blocks - first;
        std::size_t of_blocks = 0, of_range = 0, at = 0;
        for (int slice = 0; slice < layout.slices(); ++slice) {
          const Piece piece = layout.piece(out(first, wide), tile, slice);
          right = right && fits(piece, c) && (of_range == 0 || piece.bytes == 0 || piece.offset == at);
          if (of_range == 0 && piece.bytes > 0)
            right = right && piece.offset == layout.piece(out(first), tile, 0).offset;
          at = piece.offset + piece.bytes;
          of_range += piece.bytes;
          for (int block = first; block < c.shape.blocks; ++block) {
            of_blocks += layout.piece(out(block), tile, slice).bytes;
          }
        }
        right = right && of_range == of_blocks;
      }
    }
    CHECK(right);
  });
}

TEST_CASE("Segmented collectives cut every block alike") {
  for_each_case(true, [](Case c) {
    constexpr int ranks = 5;
    c.shape.widest = 2;
    if (c.cut.slot_bytes < 128) c.cut.slot_bytes = 128;
    const Layout layout(c.shape, c.count, c.type, c.cut);
    const std::size_t block_bytes = c.count * element_bytes(c.type);
    bool right = true;
    std::size_t at = 0;
    for (std::uint64_t tile = 0; tile < layout.tiles(); ++tile) {
      for (int slice = 0; slice < layout.slices(); ++slice) {
        const Piece first = layout.piece(in(0), tile, slice);
        right = right && fits(first, c) && first.segments == 1 && (first.bytes == 0 || first.offset == at);
        at += first.bytes;
        for (int block = 0; block + 1 < ranks; ++block) {
          const Piece two = layout.piece(in(block, 2), tile, slice);
          right = right && fits(two, c) && two.segments == 2 && two.bytes == first.bytes && two.stride == block_bytes;
          right = right && two.offset == first.offset + static_cast<std::size_t>(block) * block_bytes;
        }
      }
    }
    CHECK(right);
    CHECK(at == block_bytes);
  });
}

TEST_CASE("A run is of pieces that follow each other in memory, all as long as the first but the last") {
  std::uint64_t longer = 0;
  for (const bool segmented : {false, true}) {
    for_each_case(segmented, [&](Case c) {
      for (const int stripes : {1, c.shape.stripes}) {
        c.shape.stripes = stripes;
        const Layout layout(c.shape, c.count, c.type, c.cut);
        const Range range = in(segmented ? 2 : 0);
        const Piece first = layout.piece(range, 0, 0);
        const std::size_t run = layout.run(range, first);
        bool right = run >= first.bytes;
        if (run > first.bytes) {
          ++longer;
          std::size_t at = first.offset;
          for (std::uint64_t i = 0; i < layout.tiles() * layout.slices(); ++i) {
            const Piece piece = layout.piece(range, i / layout.slices(), static_cast<int>(i % layout.slices()));
            const std::size_t left = run - (at - first.offset);
            right = right && piece.bytes == std::min(first.bytes, left) && (left == 0 || piece.offset == at);
            right = right && layout.run(range, piece) == left;
            at += piece.bytes;
          }
          right = right && at == first.offset + run && run == layout.total_bytes();
        }
        INFO(c.count << " elements of type " << int(c.type) << ", " << c.shape.blocks << " blocks, slots of "
                     << c.cut.slot_bytes << ", " << stripes << " stripes, segmented " << segmented);
        REQUIRE(right);
      }
    });
  }
  CHECK(longer > 100);
}

TEST_CASE("Scratch blocks stay inside the scratch and have the sizes of the blocks they stand for") {
  for_each_case(false, [](Case c) {
    for (int first = 0; first < c.shape.blocks; ++first) {
      c.shape.scratch_first = first;
      c.shape.scratch_blocks = c.shape.blocks - first;
      const Layout layout(c.shape, c.count, c.type, c.cut);
      bool right = true;
      for (std::uint64_t tile = 0; tile < layout.tiles(); ++tile) {
        for (int block = 0; block < c.shape.scratch_blocks; ++block) {
          for (int slice = 0; slice < layout.slices(); ++slice) {
            const Piece piece = layout.piece(scratch(block), tile, slice);
            const Piece original = layout.piece(out(first + block), tile, slice);
            const auto stripes = static_cast<std::size_t>(c.shape.stripes);
            const std::size_t part = layout.scratch_bytes() / stripes, begin = tile % stripes * part;
            right = right && piece.bytes == original.bytes && piece.offset >= begin &&
                    piece.offset + piece.bytes <= begin + part;
          }
        }
      }
      CHECK(right);
    }
  });
}

TEST_CASE("Stripes get as many tiles, or the first ones one more") {
  Shape shape;
  shape.blocks = 2;
  shape.stripes = 4;
  for (const std::uint64_t count : {std::uint64_t{1} << 20, (std::uint64_t{1} << 22) + 12'345}) {
    const Layout layout(shape, count, DataType::float32);
    CHECK(layout.tiles() > 4);
    CHECK((layout.tiles() % 4 == 0 || layout.tiles() % 4 == 3));  // tiles are cut in cache lines: the last may be saved
  }
}

TEST_CASE("Every rank's layout cuts alike, whatever its scratch") {
  Shape plain, other;
  plain.blocks = other.blocks = 6;
  other.scratch_blocks = 2;
  other.scratch_first = 3;
  const Layout a(plain, 100'003, DataType::float32), b(other, 100'003, DataType::float32);
  CHECK(a.tiles() == b.tiles());
  CHECK(a.slices() == b.slices());
  CHECK(a.piece(in(5), 0, 0).offset == b.piece(in(5), 0, 0).offset);
}

TEST_CASE("Buffers beyond 4 GiB") {
  constexpr std::uint64_t count = 5ull << 30;
  for (const DataType type : {DataType::int8, DataType::float64}) {
    for (const bool segmented : {false, true}) {
      Shape shape;
      shape.blocks = segmented ? 1 : 7;
      shape.segmented = segmented;
      const Layout layout(shape, count, type);
      const std::size_t bytes = count * element_bytes(type);
      std::size_t total = 0;
      const std::uint64_t last = layout.tiles() - 1;
      for (int block = 0; block < shape.blocks; ++block) {
        for (int slice = 0; slice < layout.slices(); ++slice) {
          const Piece full = layout.piece(in(block), 0, slice);
          const Piece tail = layout.piece(in(block), last, slice);
          total += full.bytes * last + tail.bytes;
          CHECK(tail.offset + tail.bytes <= bytes);
          if (segmented) CHECK(layout.piece(in(6), last, slice).offset == 6 * bytes + tail.offset);
        }
      }
      CHECK(total == bytes);
      CHECK(layout.tiles() > 1000);
    }
  }
}
