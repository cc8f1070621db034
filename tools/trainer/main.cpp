// rondo-train: trains a ResNet on the ranks that a launcher started.  Its exit status is 0, or 2 for a wrong command
// line, or 1 with a sentence for what fails later; a signal that asked it to end is what ends it.
#include <cstdio>
#include <exception>

#include "tools/printed.h"
#include "tools/trainer/options.h"
#include "tools/trainer/stop.h"
#include "tools/trainer/training.h"

int main(int argc, char** argv) {
  const rondo::trainer::CommandLine line = rondo::trainer::read_options(argc, argv);
  if (line.done) return rondo::status_when_printed("rondo-train", line.status);
  try {
    const rondo::trainer::Ending ending = rondo::trainer::train(line.options);
    if (ending.signal != 0) {
      std::fflush(stdout);
      rondo::trainer::end_by(ending.signal);
    }
    return rondo::status_when_printed("rondo-train", ending.status);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rondo-train: %s\n", error.what());
    return 1;
  }
}
