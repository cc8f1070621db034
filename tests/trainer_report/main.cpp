// The runner of the tests of the trainer's report.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
