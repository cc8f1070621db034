// `rondo tune`: measures every algorithm of every collective on these ranks and writes the table of the fastest.
#pragma once

namespace CLI {
class App;
}

void add_tune_command(CLI::App& app);
