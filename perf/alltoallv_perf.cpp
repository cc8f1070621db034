// Measures all-to-all-v: nccl-tests' program of the same name on host memory.
#include "measure.h"

int main(int argument_count, char** arguments) {
  return rondo::perf::run(rondo::perf::all_to_all_v, argument_count, arguments);
}
