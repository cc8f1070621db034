// The `rondo` command: one sub-command a purpose, each in its own folder beside this one.  Statuses: a sub-command's
// own (CLI::RuntimeError carries it), 2 for a wrong command line.
#include <CLI/CLI.hpp>

#include "tools/doctor/doctor_command.h"
#include "tools/plan/plan_command.h"
#include "tools/plot/plot_command.h"
#include "tools/rondo/info.h"
#include "tools/run/run_command.h"
#include "tools/tune/tune_command.h"

int main(int argument_count, char** arguments) {
  CLI::App app("Rondo, a collective-communication runtime");
  app.name("rondo");
  app.require_subcommand(1);
  add_run_command(app);
  add_info_command(app);
  add_plan_command(app);
  add_plot_command(app);
  add_tune_command(app);
  add_doctor_command(app);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : 2;
  }
  return 0;
}
