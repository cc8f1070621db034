// `rondo run`: the command line of the launcher.
#pragma once

namespace CLI {
class App;
}

/// Adds the sub-command `run`.  When chosen it runs the job and ends the parse with CLI::RuntimeError(status), which
/// App::exit turns into the process's status without a word.
void add_run_command(CLI::App& app);
