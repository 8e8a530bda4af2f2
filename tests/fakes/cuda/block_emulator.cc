// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda/block_emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace mirrorflow {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr int kWarp = 32;

// The order in which threads or warps run. It starts at any index and continues in either
// direction.
class Order {
 public:
  explicit Order(uint64_t seed) : first_(seed / 2 % 1021), backwards_(seed % 2 == 1) {}
  int Nth(int i, int count) const {
    const int t = (first_ + i) % count;
    return backwards_ ? count - 1 - t : t;
  }

 private:
  const int first_;
  const bool backwards_;
};

// The state of a thread: running or able to continue (kNot), waiting at a barrier, or done.
enum class Waits : int8_t { kNot, kForBlock, kForWarp, kDone };

// The threads of one block as coroutines.
class Block {
 public:
  Block(void (*kernel)(void**), void** args, EmulatedHere* here, dim3 size)
      : kernel_(kernel), args_(args), here_(*here), size_(size), count_(size.x * size.y * size.z) {}

  void Run(uint64_t seed) {
    current_block = this;
    // Most kernels have no barriers: if the first thread does not wait, no thread waits.
    threads_.resize(count_);
    waits_.assign(count_, Waits::kNot);
    Prepare(0);
    Resume(0);
    if (waits_[0] != Waits::kDone) return TakeTurns(seed);
    for (int t = 1; t < count_; ++t) {
      here_.thread = IndexOf(t);
      waited_ = false;
      kernel_(args_);
      if (waited_) Die("a thread waits at a barrier that other threads of its block skip");
    }
  }

  static void Wait(int kind) {
    Block& block = *current_block;
    if (block.running_ < 0) {
      block.waited_ = true;
      return;
    }
    const int self = block.running_;
    block.waits_[self] = kind == 0 ? Waits::kForBlock : Waits::kForWarp;
    swapcontext(&block.threads_[self], &block.scheduler_);
  }

 private:
  static void Enter() {
    Block& block = *current_block;
    block.kernel_(block.args_);
    block.waits_[block.running_] = Waits::kDone;
    setcontext(&block.scheduler_);
  }
  [[noreturn]] static void Die(const char* what) {
    std::fprintf(stderr, "the emulated GPU: %s\n", what);
    std::abort();
  }

  // Returns the stack of thread t, which consecutive blocks reuse.
  static char* StackOf(int t) {
    static thread_local std::vector<std::unique_ptr<char[]>> stacks;
    while (static_cast<int>(stacks.size()) <= t) stacks.emplace_back(new char[kStackBytes]);
    return stacks[t].get();
  }

  uint3 IndexOf(int t) const {
    return {static_cast<unsigned>(t) % size_.x, static_cast<unsigned>(t) / size_.x % size_.y,
            static_cast<unsigned>(t) / (size_.x * size_.y)};
  }

  void Prepare(int t) {
    ucontext_t& context = threads_[t];
    getcontext(&context);
    context.uc_stack.ss_sp = StackOf(t);
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, Enter, 0);
  }
  void Resume(int t) {
    running_ = t;
    waits_[t] = Waits::kNot;
    here_.thread = IndexOf(t);
    swapcontext(&scheduler_, &threads_[t]);
    running_ = -1;
  }

  // Returns whether every thread in [begin, end) is done or waits for `kind`.
  bool AllWait(int begin, int end, Waits kind) const {
    for (int t = begin; t < end; ++t) {
      if (waits_[t] != kind && waits_[t] != Waits::kDone) return false;
    }
    return true;
  }
  bool IsDone(int begin, int end) const { return AllWait(begin, end, Waits::kDone); }

  // Runs the threads in [begin, end), a warp, until they wait again. Returns whether any ran.
  bool RunWarp(int begin, int end, const Order& order) {
    const auto first = waits_.begin() + begin, last = waits_.begin() + end;
    if (std::find(first, last, Waits::kNot) == last) {
      if (IsDone(begin, end) || !AllWait(begin, end, Waits::kForWarp)) return false;
      std::replace(first, last, Waits::kForWarp, Waits::kNot);
    }
    for (int i = 0; i < end - begin; ++i) {
      const int t = begin + order.Nth(i, end - begin);
      if (waits_[t] == Waits::kNot) Resume(t);
    }
    return true;
  }

  void TakeTurns(uint64_t seed) {
    for (int t = 1; t < count_; ++t) Prepare(t);
    const int num_warps = (count_ + kWarp - 1) / kWarp;
    while (true) {
      // Three times out of four, a warp runs up to the next barrier before the next warp starts.
      // Otherwise all warps take turns.
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const Order order(seed >> 32);
      const bool ahead = (seed >> 60) % 4 != 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < num_warps; ++i) {
          const int begin = order.Nth(i, num_warps) * kWarp, end = std::min(begin + kWarp, count_);
          while (RunWarp(begin, end, order)) {
            moved = true;
            if (!ahead) break;
          }
        }
      }
      if (IsDone(0, count_)) return;
      if (!AllWait(0, count_, Waits::kForBlock)) {
        Die("the threads of a block wait for each other forever");
      }
      std::replace(waits_.begin(), waits_.end(), Waits::kForBlock, Waits::kNot);
    }
  }

  static thread_local Block* current_block;

  void (*const kernel_)(void**);
  void** const args_;
  EmulatedHere& here_;
  const dim3 size_;
  const int count_;
  std::vector<ucontext_t> threads_;
  std::vector<Waits> waits_;
  ucontext_t scheduler_;
  int running_ = -1;  // the running coroutine; -1 if none
  bool waited_ = false;
};

thread_local Block* Block::current_block = nullptr;

}  // namespace

void RunGrid(void (*kernel)(void**), void** args, EmulatedHere* here, dim3 grid, dim3 block,
             uint64_t seed) {
  here->wait = Block::Wait;
  here->block_dim = {block.x, block.y, block.z};
  here->grid_dim = {grid.x, grid.y, grid.z};
  for (unsigned int z = 0; z < grid.z; ++z) {
    for (unsigned int y = 0; y < grid.y; ++y) {
      for (unsigned int x = 0; x < grid.x; ++x) {
        here->block = {x, y, z};
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        Block(kernel, args, here, block).Run(seed >> 16);
      }
    }
  }
}

}  // namespace mirrorflow
