// SPDX-License-Identifier: Apache-2.0
#include "tests/support/strangers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/collective/tcp/frame.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(2);
constexpr size_t kMaxOpen = 200;

// Returns the IPv4 ports that this process listens on.
std::vector<int> ListeningPorts() {
  std::set<std::string> own;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    own.insert(std::filesystem::read_symlink(file.path(), error));
  }
  std::vector<int> ports;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::array<std::string, 10> word;  // number, local address, remote address, state, …, inode
    for (std::string& w : word) words >> w;
    int port = 0;
    if (word[3] == "0A" && own.contains(absl::StrCat("socket:[", word[9], "]")) &&
        absl::SimpleHexAtoi(word[1].substr(word[1].find(':') + 1), &port)) {
      ports.push_back(port);
    }
  }
  return ports;
}

std::string Garbage(size_t size) {
  std::mt19937 random(1);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string HelloWithAnotherSecret(Handshake::Purpose purpose) {
  return Handshake::Connecting({.secret = "another secret..", .purpose = purpose},
                               {.connecting = 1, .accepting = 0})
      .TakeOutput();
}

std::string LongFrame() {
  const FrameHeaderBytes header =
      PackFrameHeader({.message_bytes = ~uint64_t{0}, .payload_bytes = ~uint32_t{0}});
  return std::string(reinterpret_cast<const char*>(header.data()), header.size());
}

}  // namespace

Strangers::Strangers() {
  const std::string four_gibibytes(4, '\xff');
  greetings_ = {"",
                Garbage(10000),
                four_gibibytes + Garbage(500),
                HelloWithAnotherSecret(Handshake::Purpose::kData) + Garbage(32),
                HelloWithAnotherSecret(Handshake::Purpose::kCoordination) + Garbage(32),
                LongFrame() + Garbage(5000),
                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + four_gibibytes + Garbage(500),
                std::string("\x16\x03\x01\x02\x00\x01", 6) + Garbage(600)};  // TLS
  thread_ = std::thread([this] { Work(); });
}

Strangers::~Strangers() {
  stop_ = true;
  thread_.join();
}

void Strangers::Work() {
  MonotonicTime next_byte = MonotonicTime::Now();
  while (!stop_) {
    for (const int port : ListeningPorts()) Call(port);
    if (MonotonicTime::Now() >= next_byte) {
      next_byte += absl::Seconds(1);
      for (const OwnedSocket& socket : open_)
        send(socket.fd(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    absl::SleepFor(kPause);
  }
}

void Strangers::Call(int port) {
  OwnedSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return;
  const std::string& greeting = greetings_[calls_ % greetings_.size()];
  send(socket.fd(), greeting.data(), greeting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ++calls_;
  ports_.insert(port);
  num_ports_ = static_cast<int>(ports_.size());
  if (calls_ % 3 == 0) return;  // hangs up
  open_.push_back(std::move(socket));
  if (open_.size() > kMaxOpen) open_.pop_front();
}

}  // namespace mirrorflow
