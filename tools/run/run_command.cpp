// See run_command.h.  Words that CLI11 cannot place are judged here, because its own complaint would be about what
// they displaced.
#include "run_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/limits.h"
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

// What CLI11 cannot say of several hosts; empty if all is well.
std::string contradiction(const rondo::run::LaunchOptions& options, bool index_given) {
  if (options.hosts == 1) {
    return index_given || !options.master_address.empty() ? "--node-rank and --master-addr need --nnodes 2 or more"
                                                          : "";
  }
  if (!index_given) return "--nnodes needs --node-rank: which of the hosts this one is, counted from 0";
  if (options.host_index >= options.hosts) {
    return "--node-rank " + std::to_string(options.host_index) + " is none of --nnodes " +
           std::to_string(options.hosts) + ": they count from 0";
  }
  if (options.master_address.empty() || options.master_port == 0) {
    return "--nnodes needs --master-addr and --master-port: where host 0 is reached, the same on every host";
  }
  if (options.restarts > 0)
    return "--restart is for jobs of one host: nothing makes the launchers of others start again";
  if (static_cast<long>(options.hosts) * options.ranks > rondo::limits::ranks_max) {
    return "a job has at most " + std::to_string(rondo::limits::ranks_max) + " ranks";
  }
  return "";
}

int run(const rondo::run::LaunchOptions& options) {
  try {
    return rondo::run::launch(options);
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "rondo run: %s\n", error.what());
    return 1;
  }
}

using Options = std::shared_ptr<rondo::run::LaunchOptions>;

void add_ranks(CLI::App& command, const Options& options) {
  command.add_option("--env", options->environment, "Set a variable for all ranks; may be repeated")
      ->allow_extra_args(false)  // one a flag: the next word may be --
      ->check(CLI::Validator(not_an_assignment, "NAME=VALUE"));
  command
      .add_option_function<std::string>(
          "--bind",
          [options](const std::string& word) {
            options->binding = word == "core" ? rondo::run::Binding::core : rondo::run::Binding::none;
          },
          "core: each rank to one processor, round robin (the default where every rank gets its own); none")
      ->check(CLI::IsMember({"core", "none"}));
}

void add_comforts(CLI::App& command, const Options& options) {
  command.add_flag("--tag-output", options->tag_output, "Mark every line that a rank writes with [RANK]");
  command
      .add_option("--output-dir", options->output_folder,
                  "Write what ranks print to DIR/rank-N.out and DIR/rank-N.err; with --tag-output also here")
      ->type_name("DIR");
  command.add_option("--timeout", options->timeout_s, "End the job after so many seconds, with status 124")
      ->check(CLI::Range(0.001, 1e9));
  command.add_option("--restart", options->restarts, "Start a job that failed again, up to N times")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
}

CLI::Option* add_hosts(CLI::App& command, const Options& options) {
  command.add_option("--nnodes", options->hosts, "Hosts of the job; run the same command on each, -n ranks a host")
      ->check(CLI::Range(1, rondo::run::hosts_max));
  CLI::Option* index = command.add_option("--node-rank", options->host_index, "Which of them this is, from 0");
  index->check(CLI::Range(0, rondo::run::hosts_max - 1));
  command.add_option("--master-addr", options->master_address, "Where host 0 is reached: name or address")
      ->type_name("ADDR");
  command.add_option("--master-port", options->master_port, "MASTER_PORT; Rondo uses RONDO_MASTER_PORT, or PORT+1")
      ->check(CLI::Range(1, 65534));
  return index;
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<rondo::run::LaunchOptions>();  // shared with the callback, which CLI11 copies
  CLI::App* command = app.add_subcommand("run", "Start the ranks of a job on this host");
  CLI::Option* ranks = command->add_option("-n,--ranks", options->ranks, "How many ranks, on this host; also -np");
  ranks->check(CLI::Range(1, rondo::run::ranks_max));
  add_ranks(*command, options);
  add_comforts(*command, options);
  CLI::Option* index = add_hosts(*command, options);
  command->add_option("program", options->command, "The program and its arguments, after --")
      ->check(CLI::Validator([command](const std::string&) { return mistyped(*command); }, ""));
  command->allow_extras();
  command->footer(
      "Example: rondo run -n 4 --env NCCL_DEBUG=INFO -- build/perf/all_reduce_perf -b 8 -e 128M -f 2\n"
      "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, RONDO_JOB_NAME,\n"
      "RONDO_JOB_SECRET (on several hosts the caller's) and RONDO_RESTART_COUNT.  Rank 0 reads the standard input.\n"
      "The status is the first failing rank's, or 128 + the signal that killed it; 124: timed out; 127: no such\n"
      "program; 126: it cannot be executed.  The last line on stderr says what failed first.");
  // The order of complaints: a mistyped option is the cause of what then seems to be missing.
  command->callback([command, ranks, index, options] {
    if (const std::string wrong = mistyped(*command); !wrong.empty())
      throw CLI::ExtrasError("run: " + wrong, CLI::ExitCodes::ExtrasError);
    if (ranks->count() == 0) throw CLI::RequiredError("run: the number of ranks, -n RANKS,");
    if (options->command.empty()) throw CLI::RequiredError("run: the program to start, after --,");
    if (const std::string wrong = contradiction(*options, index->count() > 0); !wrong.empty())
      throw CLI::ValidationError("run", wrong);
    throw CLI::RuntimeError(run(*options));
  });
}
