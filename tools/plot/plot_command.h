// `rondo plot`: draws what the performance programs wrote with --csv.
#pragma once

namespace CLI {
class App;
}

void add_plot_command(CLI::App& app);
