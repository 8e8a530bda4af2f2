// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/row_shards.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/data/batch_provider.h"

namespace mirrorflow {

absl::StatusOr<RowShards> ShardRows(absl::Span<const Axis> axes,
                                    absl::Span<const int64_t> replica_rows, int world_size) {
  if (!replica_rows.empty() && static_cast<int>(replica_rows.size()) != world_size) {
    return absl::InvalidArgumentError(absl::StrCat("replica_rows: expected ", world_size,
                                                   " row counts, one for each replica, got ",
                                                   absl::StrJoin(replica_rows, ",")));
  }
  RowShards rows;
  for (const Axis& axis : axes) {
    if (axis.of_replicas) {
      rows.emplace_back(world_size, 1);
      continue;
    }
    std::vector<int64_t>& shards = rows.emplace_back(replica_rows.begin(), replica_rows.end());
    if (shards.empty()) {
      for (int r = 0; r < world_size; ++r) {
        shards.push_back(FirstRowOf(r + 1, axis.size, world_size) -
                         FirstRowOf(r, axis.size, world_size));
      }
      continue;
    }
    int64_t sum = 0;
    for (int64_t shard : shards) {
      sum += shard < 0 || shard > axis.size ? axis.size + 1 : shard;  // cannot overflow
    }
    if (sum == axis.size) continue;
    return absl::InvalidArgumentError(absl::StrCat("replica_rows: expected ", world_size,
                                                   " row counts >= 0 with the sum ", axis.size,
                                                   ", got ", absl::StrJoin(shards, ",")));
  }
  return rows;
}

}  // namespace mirrorflow
