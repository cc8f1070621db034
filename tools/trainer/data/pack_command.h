// `rondo-train pack`: a set of images into one file that ranks map into memory.
#pragma once

namespace CLI {
class App;
}

namespace rondo::data {

void add_pack_command(CLI::App& app);

}  // namespace rondo::data
