// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/event_log.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/runtime/failure.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {

void EventLog::Restarted(int64_t count, absl::string_view reason) const {
  Append({{"event", "restarted"}, {"count", count}, {"reason", reason}});
}

void EventLog::Joined(int worker, absl::string_view host, int64_t process) const {
  Append({{"event", "joined"}, {"worker", worker}, {"host", host}, {"process", process}});
}

void EventLog::Started(int64_t step, int num_workers, int num_replicas) const {
  Append(
      {{"event", "started"}, {"step", step}, {"workers", num_workers}, {"replicas", num_replicas}});
}

void EventLog::Saved(int64_t step) const { Append({{"event", "saved"}, {"step", step}}); }

void EventLog::Lost(const absl::Status& failure) const {
  const Failure where = FailureOf(failure).value_or(Failure());
  Append({{"event", "lost"},
          {"worker", where.worker},
          {"rank", where.rank},
          {"step", where.step},
          {"message", failure.message()}});
}

void EventLog::Append(const nlohmann::ordered_json& event) const {
  nlohmann::ordered_json line = {
      {"time", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone())}};
  line.update(event);
  const absl::StatusOr<int> file = OpenForAppending(path_, {.mode = 0644});
  absl::Status status = file.status();
  if (file.ok()) {
    status = AppendTo(*file, path_, JsonText(line) + "\n");
    close(*file);
  }
  if (status.ok() || has_warned_.exchange(true)) return;
  LogWarning(absl::StrCat("events are not recorded: ", status.message()));
}

}  // namespace mirrorflow
