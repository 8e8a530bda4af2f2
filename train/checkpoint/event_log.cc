// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/event_log.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/terminal.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

void EventLog::Restarted(int64_t count, absl::string_view reason) const {
  Append("restarted", absl::StrCat("\"count\":", count, ",\"reason\":", JsonQuote(reason)));
}

void EventLog::Joined(int worker, absl::string_view host, int64_t process) const {
  Append("joined", absl::StrCat("\"worker\":", worker, ",\"host\":", JsonQuote(host),
                                ",\"process\":", process));
}

void EventLog::Started(int64_t step, int num_workers, int num_replicas) const {
  Append("started", absl::StrCat("\"step\":", step, ",\"workers\":", num_workers,
                                 ",\"replicas\":", num_replicas));
}

void EventLog::Saved(int64_t step) const { Append("saved", absl::StrCat("\"step\":", step)); }

void EventLog::Lost(const absl::Status& failure) const {
  const Failure where = FailureOf(failure).value_or(Failure());
  Append("lost", absl::StrCat("\"worker\":", where.worker, ",\"rank\":", where.rank, ",\"step\":",
                              where.step, ",\"message\":", JsonQuote(failure.message())));
}

void EventLog::Append(absl::string_view event, absl::string_view fields) const {
  const std::string time =
      absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  const std::string line =
      absl::StrCat("{\"time\":\"", time, "\",\"event\":\"", event, "\",", fields, "}\n");
  const absl::StatusOr<int> file = OpenForAppending(path_, {.mode = 0644});
  absl::Status status = file.status();
  if (file.ok()) {
    status = AppendTo(*file, path_, line);
    close(*file);
  }
  if (status.ok() || has_warned_.exchange(true)) return;
  PrintErrorLine(absl::StrCat("WARNING: events are not recorded: ", status.message()));
}

}  // namespace mirrorflow
