// Statuses: 0; 1: the set can't be read, the file can't be written or is damaged; 2 and more: a wrong command line.
#include "tools/trainer/data/pack_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "tools/trainer/data/open.h"
#include "tools/trainer/data/packed.h"

namespace rondo::data {
namespace {

struct Request {
  Source source;
  std::string output;
  std::string split = "train";
  Packing packing;
  std::string verified;
};

void pack_one(Request& request) {
  if (!request.verified.empty()) {
    const auto packed = open_packed(request.verified, Split::training);
    packed->verify();
    std::printf("%s is whole: %zu images, %s\n", request.verified.c_str(), packed->size(), packed->name().c_str());
    return;
  }
  if (request.output.empty()) throw DataError("say where to write (-o FILE)");
  request.source.split = request.split == "train" ? Split::training : Split::test;
  const auto dataset = open_dataset(request.source);
  if (::isatty(STDERR_FILENO) != 0) {
    request.packing.progress = [&](std::size_t done) {
      std::fprintf(stderr, "\r%zu of %zu images", done, dataset->size());
    };
  }
  pack(*dataset, request.output, request.packing);
  if (request.packing.progress) std::fputs("\n", stderr);
  const auto packed = open_packed(request.output, Split::training);
  const Shape shape = packed->shape();
  std::printf("wrote %s: %zu images of %d x %d x %d in %d classes\n", request.output.c_str(), packed->size(),
              shape.height, shape.width, shape.channels, packed->classes());
}

}  // namespace

void add_pack_command(CLI::App& app) {
  auto request = std::make_shared<Request>();  // shared with the callback, which CLI11 copies
  CLI::App* const command = app.add_subcommand("pack", "Write a set of images into one file that ranks map and share");
  command->add_option("--data", request->source.kind, "which set")->check(CLI::IsMember(kinds()));
  command->add_option("--data-dir", request->source.path, "its file or folder");
  command->add_option("--split", request->split, "train or test")->check(CLI::IsMember({"train", "test"}));
  command->add_option("--image", request->packing.image, "height and width to store, of the middle; 0: as they are")
      ->check(CLI::Range(0, 4096));
  command->add_option("-j,--workers", request->packing.workers, "threads that decode")->check(CLI::Range(0, 256));
  command->add_option("-o,--output", request->output, "the file to write");
  command->add_option("--verify", request->verified, "write nothing: check every pixel of this file");
  command->callback([request] {
    try {
      pack_one(*request);
    } catch (const std::exception& trouble) {
      std::fprintf(stderr, "rondo-train pack: %s\n", trouble.what());
      throw CLI::RuntimeError(1);
    }
  });
}

}  // namespace rondo::data
