// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes both ends of the handshake that data connections and connections to the coordination
// service use, with all bytes that arrive before the other end has proved that it knows the secret.
// The first input byte selects the scenario. The other bytes modify the messages of two honest ends
// in transit, or replace them. Neither end may complete if a message that it depends on is not
// genuine.
#include <array>
#include <string>

#include "distribute/cluster/connections/handshake.h"
#include "framework/core/status.h"
#include "tests/fuzz/fuzz_input.h"

namespace mirrorflow {
namespace {

Handshake::Cluster ClusterFor(Handshake::Purpose purpose) {
  return {.secret = "0123456789abcdef", .job = "a", .incarnation = 5, .purpose = purpose};
}

absl::Status Admit(const Handshake::Ranks& ranks) {
  if (ranks.connecting == 3 && ranks.accepting == 1) return absl::OkStatus();
  return absl::PermissionDeniedError("no such ranks");
}

void CheckStatus(const absl::Status& status) {
  MF_CHECK(status.ok() || absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status));
}

// Runs a handshake between two honest ends and XORs the input into their messages.
void ChangeMessages(FuzzInput& input, const Handshake::Cluster& cluster) {
  auto connecting = Handshake::Connecting(cluster, {.connecting = 3, .accepting = 1});
  auto accepting = Handshake::Accepting(cluster, Admit);
  bool genuine = true;  // whether all messages so far were unmodified
  for (int turn = 0; turn < 4; ++turn) {
    Handshake &from = turn % 2 == 0 ? connecting : accepting,
              &to = turn % 2 == 0 ? accepting : connecting;
    std::string message = from.TakeOutput();
    MF_CHECK(message.size() == to.wanted() && message.size() <= Handshake::kMaxMessageBytes);
    const std::string mask = input.TakeBytes(message.size());
    for (size_t i = 0; i < mask.size(); ++i) {
      genuine &= mask[i] == 0;
      message[i] = static_cast<char>(message[i] ^ mask[i]);
    }
    const absl::Status status = to.Receive(message);
    CheckStatus(status);
    MF_CHECK(genuine || !to.done());
    if (!status.ok()) return;
  }
  MF_CHECK(!genuine || (connecting.done() && accepting.done() &&
                        connecting.SessionKey() == accepting.SessionKey()));
}

// Sends the input to one end. The input cannot contain a valid proof, because the fuzzer does not
// know the secret.
void SendInput(FuzzInput& input, Handshake end) {
  while (!input.empty()) {
    end.TakeOutput();
    MF_CHECK(!end.done() && end.wanted() > 0 && end.wanted() <= Handshake::kMaxMessageBytes);
    std::string message = input.TakeBytes(end.wanted());
    message.resize(end.wanted());
    const absl::Status status = end.Receive(message);
    CheckStatus(status);
    if (!status.ok()) return;
  }
}

}  // namespace
}  // namespace mirrorflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  FuzzInput input(data, size);
  const auto choice = input.Take<uint8_t>();
  const Handshake::Cluster cluster =
      ClusterFor(choice & 0x80 ? Handshake::Purpose::kCoordination : Handshake::Purpose::kData);
  switch ((choice & 0x7f) % 3) {
    case 0:
      ChangeMessages(input, cluster);
      break;
    case 1:
      SendInput(input, Handshake::Accepting(cluster, Admit));
      break;
    default:
      SendInput(input, Handshake::Connecting(cluster, {.connecting = 3, .accepting = 1}));
      break;
  }
  return 0;
}
