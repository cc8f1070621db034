// Progress: what the line shows at any width; redrawn on a terminal (a pseudo-terminal here), now and then elsewhere.
#include "tools/trainer/report/progress.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/folder.h"
#include "tests/setting.h"

using namespace rondo::report;
using Catch::Contains;

TEST_CASE("The line fits any width, and leaves out what matters least") {
  CHECK(progress_line("epoch 1/3", 50, 100, 41, "12.3 images/s", 80) ==
        "epoch 1/3  [================>                ]  50/100  12.3 images/s  0:41 left");
  CHECK(progress_line("e", 0, 100, 41, "", 80) == "e  [>                                       ]  0/100  0:41");
  CHECK(progress_line("e", 100, 100, 7325, "", 80) ==
        "e  [========================================]  100/100  2:02:05");
  for (std::size_t columns = 0; columns < 100; ++columns) {
    CHECK(progress_line("epoch 1/3", 50, 100, 41, "12.3 images/s", columns).size() <= columns);
  }
  CHECK(progress_line("e", 7, 0, 1, "", 20).size() <= 20);
}

TEST_CASE("Without a terminal, a line every ten seconds, and at the end") {
  const rondo::test::Folder folder;
  double time = 100;
  {
    std::FILE* const file = std::fopen(folder.path("out").c_str(), "w");
    Progress progress(file, [&] { return time; });
    progress.begin("train", 50);
    for (std::uint64_t step = 1; step <= 50; ++step) {
      time += 1;
      progress.show(step, "loss 1.5");
    }
    progress.say("saved");
    std::fclose(file);
  }
  CHECK(folder.read("out") ==
        "train  10/50  loss 1.5  0:10\ntrain  20/50  loss 1.5  0:20\ntrain  30/50  loss 1.5  0:30\n"
        "train  40/50  loss 1.5  0:40\ntrain  50/50  loss 1.5  0:50\nsaved\n");
}

constexpr int patience_ms = 10'000;

TEST_CASE("On a terminal, a bar that is redrawn in place") {
  const int control = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(control >= 0);
  REQUIRE(::grantpt(control) == 0);
  REQUIRE(::unlockpt(control) == 0);
  const int terminal = ::open(::ptsname(control), O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 41;
  REQUIRE(::ioctl(terminal, TIOCSWINSZ, &size) == 0);
  const rondo::test::Setting kind("TERM", "xterm");
  std::FILE* const file = ::fdopen(terminal, "w");
  double time = 0;
  {
    Progress progress(file, [&] { return time; });
    progress.begin("train", 100, 40);
    time = 10;
    progress.show(50);
    time = 10.05;  // too soon
    progress.show(51);
    progress.say("saved");
    time = 20;
    progress.show(100);
  }
  const std::string expected =
      "train  [======>     ]  50/100  0:50 left"  // ten steps in ten seconds, fifty to go
      "\r\033[Ksaved\r\n"
      "train  [================]  100/100  0:20\r\n";
  // A terminal hands on what was written in pieces, when it likes.
  std::string drawn;
  char piece[4096];
  pollfd ready{control, POLLIN, 0};
  while (drawn.size() < expected.size() && ::poll(&ready, 1, patience_ms) > 0) {
    const ssize_t count = ::read(control, piece, sizeof piece);
    if (count <= 0) break;
    drawn.append(piece, static_cast<std::size_t>(count));
  }
  ::fclose(file);
  ::close(control);
  CHECK(drawn == expected);
}
