// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/predict_exchange.h"

#include <algorithm>
#include <vector>

#include "distribute/collective/shard_pieces.h"

namespace mirrorflow {
namespace {

// The data that one domain sends for a collective, according to distribute/ALGORITHMS.md.
struct Traffic {
  double bytes = 0;
  int rounds = 1;
};

Traffic TrafficOf(const PlannedCollective& c, int domains) {
  const auto bytes = static_cast<double>(c.bytes());
  const auto* update = std::get_if<PlannedUpdate>(&c.operation);
  if (update != nullptr && !update->reduction.has_value()) return {};  // every domain has the bytes
  if (c.is<PlannedAllReduce>() || update != nullptr) {
    if (RouteOf(domains, c.bytes(), {}) == ShardRoute::kOneRound) {
      return {.bytes = bytes * (domains - 1)};
    }
    return {.bytes = 2 * bytes * (domains - 1) / domains, .rounds = 2};
  }
  if (c.is<Barrier>()) return {};
  return {.bytes = bytes * (domains - 1) / domains};  // each domain sends its part to all others
}

}  // namespace

ExchangePrediction PredictExchange(const Plan& plan, absl::Span<const double> costs,
                                   const Topology& topology, const LinkCosts& link) {
  const int domains = topology.num_domains();
  ExchangePrediction prediction;
  for (const PlannedCollective& c : plan.collectives) {
    const double bytes = TrafficOf(c, domains).bytes;
    prediction.sent_bytes += static_cast<int64_t>(bytes);
    prediction.network_ns += bytes * link.byte_ns;
  }
  std::vector<double> arrival(plan.collectives.size(), 0);
  double now = 0, link_is_free = 0;
  // The second step represents all later steps.
  for (int step = 0; step < 2; ++step) {
    const double begin = now;
    prediction.exposed_ns = 0;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& instruction = plan.instructions[i];
      double cost = costs[i];
      if (Finishes(instruction.kind)) {
        const double wait = std::max(arrival[instruction.index] - now, 0.0);
        prediction.exposed_ns += wait;
        now += wait;
        // Each domain computes the products of all domains.
        if (plan.collectives[instruction.index].is<PlannedProductUpdate>()) cost *= domains;
      }
      now += cost;
      if (instruction.kind != InstructionKind::kStart) continue;
      const Traffic traffic = TrafficOf(plan.collectives[instruction.index], domains);
      link_is_free = std::max(link_is_free, now) + traffic.bytes * link.byte_ns;
      arrival[instruction.index] = link_is_free + traffic.rounds * link.message_ns;
    }
    prediction.step_ns = now - begin;
  }
  return prediction;
}

}  // namespace mirrorflow
