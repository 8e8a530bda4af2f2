// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_DATA_PARALLEL_ROWS_H_
#define MIRRORFLOW_TRAIN_DATA_PARALLEL_ROWS_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// Threads that read rows: the caller's thread and `num_threads - 1` others, or as many as can be
// started.
class ParallelRows {
 public:
  using Function = absl::FunctionRef<absl::Status(int64_t)>;

  explicit ParallelRows(int num_threads);
  ~ParallelRows();

  int num_threads() const { return 1 + static_cast<int>(threads_.size()); }

  // Calls f(0), …, f(count - 1) on all threads and waits for them. Returns the error with the
  // lowest index. After an error, higher indices may be skipped.
  absl::Status Run(int64_t count, Function f);

 private:
  void Work();
  void Loop();

  std::vector<std::thread> threads_;
  Mutex mu_;
  CondVar begin_, end_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  int64_t round_ ABSL_GUARDED_BY(mu_) = 0;  // how many times Run() has been called
  const Function* f_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;    // the first index that no thread has taken
  int working_ ABSL_GUARDED_BY(mu_) = 0;     // how many threads are in f
  int64_t failed_ ABSL_GUARDED_BY(mu_) = 0;  // the index that returned error_
  absl::Status error_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_PARALLEL_ROWS_H_
