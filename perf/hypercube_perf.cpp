// Measures hypercube: nccl-tests' program of the same name on host memory.
#include "measure.h"

int main(int argument_count, char** arguments) {
  return rondo::perf::run(rondo::perf::hypercube, argument_count, arguments);
}
