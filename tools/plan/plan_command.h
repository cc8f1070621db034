// `rondo plan`: prints, verifies, costs and draws any plan.
#pragma once

namespace CLI {
class App;
}

/// Adds the sub-command `plan`.  Ends the parse with CLI::RuntimeError(1) when a plan is rejected or cannot be written.
void add_plan_command(CLI::App& app);
