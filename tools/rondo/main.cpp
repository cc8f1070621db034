// The `rondo` command: one sub-command a purpose, each in its own folder beside this one.  Statuses: a sub-command's
// own (CLI::RuntimeError carries it), 2 for a wrong command line, 1 where what it printed could not be written.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/closest.h"
#include "base/descriptor.h"
#include "rondo.h"
#include "tools/doctor/doctor_command.h"
#include "tools/plan/plan_command.h"
#include "tools/plot/plot_command.h"
#include "tools/printed.h"
#include "tools/rondo/info.h"
#include "tools/run/run_command.h"
#include "tools/tune/tune_command.h"

namespace {

// CLI11 would say of an unknown sub-command only that one is required.
void check_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string_view> names;
  std::string known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (word.starts_with("-") || command->check_name(word)) return;
    names.push_back(command->get_name());
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw CLI::ExtrasError(
      "rondo: '" + word + "' is no sub-command" + rondo::did_you_mean(word, names) + "  There are: " + known,
      CLI::ExitCodes::ExtrasError);
}

// The words behind the program's name, backwards, as CLI11 takes them.  `help run` is `run --help`, and `-np` is `-n`
// as with mpirun, which CLI11 would take for "-n p".
std::vector<std::string> words_of(int argument_count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + argument_count);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (!words.empty() && words.front() == "run")
    std::replace(words.begin(), std::find(words.begin(), words.end(), "--"), std::string("-np"), std::string("-n"));
  return {words.rbegin(), words.rend()};
}

int run(CLI::App& app, int argument_count, char** arguments) {
  try {
    std::vector<std::string> words = words_of(argument_count, arguments);
    if (!words.empty()) check_word(app, words.back());
    app.parse(words);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  rondo::keep_standard_descriptors();
  CLI::App app("Rondo, a collective-communication runtime");
  app.name("rondo");
  app.require_subcommand(1);
  app.set_version_flag("--version", rondoGetVersion(), "Print the version and exit");
  add_run_command(app);
  add_info_command(app);
  add_plan_command(app);
  add_plot_command(app);
  add_tune_command(app);
  add_doctor_command(app);
  return rondo::status_when_printed("rondo", run(app, argument_count, arguments));
}
