// `rondo info`: what this Rondo is, where it runs, and which environment variables it knows.
#pragma once

namespace CLI {
class App;
}

/// Adds the sub-command `info`, which runs when it is chosen.
void add_info_command(CLI::App& app);
