// `rondo doctor`: is this host, or are all ranks of a launch, fit for Rondo; each finding with its cause and its fix.
#pragma once

namespace CLI {
class App;
}

void add_doctor_command(CLI::App& app);
