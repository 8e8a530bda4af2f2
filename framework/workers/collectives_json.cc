// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/collectives_json.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "framework/core/json.h"
#include "framework/runtime/failure.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {

std::string CollectivesJson(const RunProgress& progress, const Topology& topology, int worker,
                            const absl::Status& failure) {
  using Json = nlohmann::ordered_json;
  // By rank: the number of collectives that it has started.
  std::map<int, uint64_t> started;
  for (const auto& [other, count] : CollectivesOf(failure)) {
    if (other < 0 || other >= topology.num_workers() || other == worker) continue;
    for (const int rank : topology.RanksOfWorker(other)) started[rank] = count;
  }
  const std::vector<int> own = topology.RanksOfWorker(worker);
  for (size_t r = 0; r < own.size(); ++r) {
    started[own[r]] = progress.log(static_cast<int>(r))->started();
  }
  const auto latest = std::max_element(own.begin(), own.end(),
                                       [&](int a, int b) { return started[a] < started[b]; });
  Json entries = Json::array();
  for (const CollectiveLog::Entry& entry :
       progress.log(static_cast<int>(latest - own.begin()))->Latest()) {
    Json missing = Json::array();
    for (const auto& [rank, count] : started) {
      if (count < entry.number) missing.push_back(rank);
    }
    entries.push_back({{"step", entry.step},
                       {"sequence", entry.sequence},
                       {"name", entry.name},
                       {"finished", entry.finished},
                       {"missing_ranks", std::move(missing)}});
  }
  return JsonText(entries);
}

}  // namespace mirrorflow
