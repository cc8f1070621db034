// Measures send-receive: nccl-tests' program of the same name on host memory.
#include "measure.h"

int main(int argument_count, char** arguments) {
  return rondo::perf::run(rondo::perf::send_receive, argument_count, arguments);
}
