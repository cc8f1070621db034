// See run_command.h.  Words that CLI11 cannot place are judged here, because its own complaint would be about what
// they displaced.
#include "run_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/result.h"
#include "launcher.h"

namespace {

std::string not_an_assignment(const std::string& text) {
  if (text.find('=') != std::string::npos && text[0] != '=') return "";
  return "'" + text + "' is not of the form NAME=VALUE";
}

// What is wrong with the words that CLI11 could not place.
std::string mistyped(const CLI::App& command) {
  if (command.remaining_size() == 0) return "";
  return "'" + command.remaining().front() + "' is no option of rondo run; the program and its own options go after --";
}

int run(const rondo::run::LaunchOptions& options) {
  try {
    return rondo::run::launch(options);
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "rondo run: %s\n", error.what());
    return 1;
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<rondo::run::LaunchOptions>();  // shared with the callback, which CLI11 copies
  CLI::App* command = app.add_subcommand("run", "Start the ranks of a job on this machine");
  CLI::Option* ranks = command->add_option("-n,--ranks", options->ranks, "How many ranks");
  ranks->check(CLI::Range(1, rondo::run::ranks_max));
  command->add_option("--env", options->environment, "Set a variable for all ranks; may be repeated")
      ->allow_extra_args(false)  // one a flag: the next word may be --
      ->check(CLI::Validator(not_an_assignment, "NAME=VALUE"));
  command
      ->add_option_function<std::string>(
          "--bind",
          [options](const std::string& word) {
            options->binding = word == "core" ? rondo::run::Binding::core : rondo::run::Binding::none;
          },
          "core: each rank to one processor, round robin (the default where every rank gets its own); none")
      ->check(CLI::IsMember({"core", "none"}));
  command->add_option("program", options->command, "The program and its arguments, after --")
      ->check(CLI::Validator([command](const std::string&) { return mistyped(*command); }, ""));
  command->allow_extras();
  command->footer(
      "Example: rondo run -n 4 --env NCCL_DEBUG=INFO -- build/perf/all_reduce_perf -b 8 -e 128M -f 2\n"
      "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, RONDO_JOB_NAME and\n"
      "RONDO_JOB_SECRET.  Rank 0 reads the standard input.  The status is the first failing rank's, or 128 + the\n"
      "signal that killed it; 127: no such program; 126: it cannot be executed.");
  // The order of complaints: a mistyped option is the cause of what then seems to be missing.
  command->callback([command, ranks, options] {
    if (const std::string wrong = mistyped(*command); !wrong.empty())
      throw CLI::ExtrasError("run: " + wrong, CLI::ExitCodes::ExtrasError);
    if (ranks->count() == 0) throw CLI::RequiredError("run: the number of ranks, -n RANKS,");
    if (options->command.empty()) throw CLI::RequiredError("run: the program to start, after --,");
    throw CLI::RuntimeError(run(*options));
  });
}
