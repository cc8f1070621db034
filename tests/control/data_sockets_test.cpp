// Data sockets between two sides of one loop: all come, proved, in any order; strangers get nowhere; failures are told.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/data_sockets.h"

using namespace rondo;
using namespace rondo::control;
using std::chrono::milliseconds;

namespace {

/// Both sides of a set-up, and what they said.
struct Setup {
  explicit Setup(int sockets) : count(sockets) {
    listener = std::make_unique<DataListener>(loop, count, Clock::now() + patience, events(0));
  }
  void call(const DataOffer& offer) {
    caller = std::make_unique<DataCaller>(loop, offer, count, Clock::now() + patience, events(1));
  }
  DataEvents events(int side) {
    return {[this, side](int index, Descriptor socket) {
              CHECK_FALSE(sockets[side].contains(index));
              sockets[side][index] = std::move(socket);
              if (sockets[0].size() + sockets[1].size() == 2 * static_cast<std::size_t>(count)) loop.stop();
            },
            [this, side](const std::string& why) {
              failures[side] += why;
              loop.stop();
            }};
  }

  milliseconds patience{20'000};
  int count;
  Loop loop;
  std::map<int, Descriptor> sockets[2];
  std::string failures[2];
  std::unique_ptr<DataListener> listener;
  std::unique_ptr<DataCaller> caller;
};

/// A blocking socket to the port, or an empty one.
Descriptor connect_to(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return socket;
}

Descriptor stranger(std::uint16_t port, const Bytes& says) {
  Descriptor socket = connect_to(port);
  REQUIRE(socket);
  if (!says.empty()) REQUIRE(::send(socket.get(), says.data(), says.size(), 0) == static_cast<ssize_t>(says.size()));
  return socket;
}

}  // namespace

TEST_CASE("data sockets come in pairs") {
  for (const int count : {1, 3, 64}) {
    Setup setup(count);
    setup.call(setup.listener->offer());
    setup.loop.run();
    REQUIRE(setup.failures[0] + setup.failures[1] == "");
    REQUIRE(setup.sockets[0].size() == static_cast<std::size_t>(count));
    REQUIRE(setup.sockets[1].size() == static_cast<std::size_t>(count));
    for (int index = 0; index < count; ++index) {
      const auto word = static_cast<unsigned char>(index);
      unsigned char heard[2] = {0xff, 0xff};
      REQUIRE(::send(setup.sockets[1][index].get(), &word, 1, 0) == 1);
      // The word is all there is: nothing of the set-up is left in the stream.
      REQUIRE(::recv(setup.sockets[0][index].get(), heard, 2, 0) == 1);
      CHECK(heard[0] == word);
      CHECK((::fcntl(setup.sockets[0][index].get(), F_GETFD) & FD_CLOEXEC) != 0);
      CHECK((::fcntl(setup.sockets[1][index].get(), F_GETFL) & O_NONBLOCK) != 0);
    }
    CHECK_FALSE(connect_to(setup.listener->offer().port));  // nobody listens any more
  }
}

TEST_CASE("strangers at the port of data sockets get no answer and harm nothing") {
  Setup setup(2);
  const DataOffer offer = setup.listener->offer();
  const auto words = [](const Secret& token, std::uint32_t index) {
    return ByteWriter().raw(token).number(index).bytes();
  };
  std::vector<Descriptor> strangers;
  strangers.push_back(stranger(offer.port, {}));
  strangers.push_back(stranger(offer.port, ByteWriter().text("GET / HTTP/1.0\r\n\r\n").bytes()));
  strangers.push_back(stranger(offer.port, Bytes(100'000)));
  strangers.push_back(stranger(offer.port, words(random_secret(), 0)));
  strangers.push_back(stranger(offer.port, words(offer.answer, 0)));
  strangers.push_back(stranger(offer.port, words(offer.call, 2)));
  stranger(offer.port, Bytes(10));  // and goes
  for (int i = 0; i < 200; ++i) strangers.push_back(stranger(offer.port, Bytes(1)));
  setup.call(offer);
  setup.loop.run();
  REQUIRE(setup.failures[0] + setup.failures[1] == "");
  CHECK(setup.sockets[0].size() == 2);
  CHECK(setup.sockets[1].size() == 2);
  for (const Descriptor& one : strangers) {
    char heard = 0;
    CHECK(::recv(one.get(), &heard, 1, 0) <= 0);  // closed, without a word
  }
}

TEST_CASE("a stranger in the listener's place is not believed") {
  Setup setup(1);
  setup.patience = milliseconds(300);
  DataOffer offer = setup.listener->offer();
  offer.answer = random_secret();
  setup.call(offer);
  setup.loop.run();
  CHECK(setup.sockets[1].empty());
  CHECK(setup.failures[1].find("could not be connected") != std::string::npos);
}

TEST_CASE("data sockets that never come are told when time is up") {
  Setup setup(3);
  setup.listener = std::make_unique<DataListener>(setup.loop, 3, Clock::now() + milliseconds(20), setup.events(0));
  setup.loop.run();
  CHECK(setup.failures[0] == "3 of 3 data sockets did not come");
}

TEST_CASE("an offer of data sockets survives its frame, and garbage does not pass for one") {
  DataOffer offer;
  offer.port = 4711;
  offer.call = random_secret();
  offer.answer = random_secret();
  const Bytes bytes = encode(offer);
  const auto decoded = decode_data_offer(bytes);
  REQUIRE(decoded);
  CHECK(decoded->port == offer.port);
  CHECK(decoded->call == offer.call);
  CHECK(decoded->answer == offer.answer);
  CHECK_FALSE(decode_data_offer(View(bytes).first(bytes.size() - 1)));
  CHECK_FALSE(decode_data_offer({}));
}
