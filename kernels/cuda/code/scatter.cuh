// SPDX-License-Identifier: Apache-2.0
//
// Writes rows that indices select. Each of the kN positions has an index and a row of updates. If
// several positions select the same row, their updates are applied in order of position, no matter
// which block runs first.
//
// FindRows records the row of each position and, for each row, how many positions select it and
// which of them is the last. The block that handles the last position of a row updates the row,
// after it has searched all positions for others that select the row. This works well if few
// positions share a row, or with up to about ten thousand positions.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_SCATTER_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_SCATTER_CUH_

#include "move.cuh"

// Holds what FindRows records about kN positions and kRows rows, in scratch memory.
template <int64 kN, int64 kRows>
struct ScatterNotes {
  __device__ explicit ScatterNotes(char* scratch)
      : bad(reinterpret_cast<int*>(scratch)), row(bad + 1), last(row + kN), count(last + kRows) {}

  int* bad;    // whether an index is out of range; if so, nothing may be written
  int* row;    // row of each position, or -1
  int* last;   // last position that selects each row
  int* count;  // how many positions select each row
};

template <int64 kN, int64 kRows>
__device__ inline void ClearNotes(char* scratch) {
  const ScatterNotes<kN, kRows> notes(scratch);
  ForEach<kRows + 1>([&](auto i) {
    if (i == 0) *notes.bad = 0;
    if (i < kRows) {
      notes.last[i] = -1;
      notes.count[i] = 0;
    }
  });
}

// Fills the notes. row_at(position, fail) returns the position's row, or a negative number if it
// has none.
template <int64 kN, int64 kRows, typename R, typename F>
__device__ inline void FindRows(char* scratch, R row_at, F fail) {
  const ScatterNotes<kN, kRows> notes(scratch);
  ForEach<kN>([&](auto i) {
    const int64 row = row_at(i, [&](int64 value) {
      *notes.bad = 1;
      fail(value);
    });
    notes.row[i] = static_cast<int>(row);
    if (row < 0) return;
    atomicMax(notes.last + row, static_cast<int>(i));
    atomicAdd(notes.count + row, 1);
  });
}

// Sets out[row] to the row of `updates` at the last position that selects it. With kOne, `updates`
// is one scalar for all rows.
template <int64 kN, int64 kRows, int64 kSize, bool kOne, typename T>
__device__ inline void WriteLast(char* scratch, T* out, const T* updates) {
  const ScatterNotes<kN, kRows> notes(scratch);
  if (*notes.bad != 0) return;
  Move<kN * kSize, T>([&](auto i) { return updates[kOne ? 0 : i]; },
                      [&](auto i, T value) {
                        const int position = static_cast<int>(i / kSize);
                        const int row = notes.row[position];
                        if (row < 0 || notes.last[row] != position) return;
                        out[row * kSize + i % kSize] = value;
                      });
}

constexpr int kScatterWarps = kThreads / 32;
constexpr int kScatterPerThread = 4;
constexpr int kScatterChunk = kThreads * kScatterPerThread;

// Lists the positions in one chunk that select `row`, in order, and returns their number. Every
// thread of the block must call this function.
template <int64 kN>
__device__ inline int ListPositions(const int* rows, int row, int64 begin, int* list) {
  __shared__ int counts[kScatterPerThread * kScatterWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32 votes[kScatterPerThread];
#pragma unroll
  for (int k = 0; k < kScatterPerThread; ++k) {
    const int64 position = begin + k * kThreads + threadIdx.x;
    const bool names = position < kN && rows[position] == row;
    votes[k] = __ballot_sync(0xffffffffu, names);
    if (lane == 0) counts[k * kScatterWarps + warp] = __popc(votes[k]);
  }
  __syncthreads();
  int before = 0;
#pragma unroll
  for (int k = 0; k < kScatterPerThread; ++k) {
#pragma unroll
    for (int w = 0; w < kScatterWarps; ++w) {
      if (w == warp && (votes[k] >> lane & 1) != 0) {
        const int index = before + __popc(votes[k] & ((1u << lane) - 1));
        list[index] = static_cast<int>(begin + k * kThreads + threadIdx.x);
      }
      before += counts[k * kScatterWarps + w];
    }
  }
  __syncthreads();
  return before;
}

// Sets out[row] to fold(… fold(fold(out[row], first), second) …, last) over the rows of `updates`
// whose positions select it. With kOne, `updates` is one scalar for all rows. Blocks divide the
// positions among themselves; kSplit blocks share a row.
template <int64 kN, int64 kRows, int64 kSize, int64 kSplit, bool kOne, typename T, typename F>
__device__ inline void FoldRows(char* scratch, T* out, const T* updates, F fold) {
  const ScatterNotes<kN, kRows> notes(scratch);
  if (*notes.bad != 0) return;
  __shared__ int list[kScatterChunk];
  const int64 column = static_cast<int64>(blockIdx.x % kSplit) * kThreads + threadIdx.x;
  const auto update = [&](int64 position) {
    return Load(updates[kOne ? 0 : position * kSize + column]);
  };
  // All threads of a block take the same branches, except for columns beyond kSize.
  for (int64 position = blockIdx.x / kSplit; position < kN; position += gridDim.x / kSplit) {
    const int row = notes.row[position];
    if (row < 0 || notes.last[row] != position) continue;
    T* const at = out + row * kSize + column;
    Value<T> value = column < kSize ? Load(*at) : Value<T>();
    int left = notes.count[row];
    if (left == 1) {
      if (column < kSize) *at = Store<T>(fold(value, update(position)));
      continue;
    }
    for (int64 begin = 0; left > 0; begin += kScatterChunk) {
      const int found = ListPositions<kN>(notes.row, row, begin, list);
      constexpr int kAhead = 8;  // rows in flight
      for (int i = 0; i < found && column < kSize; i += kAhead) {
        Value<T> values[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          if (i + k < found) values[k] = update(list[i + k]);
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          if (i + k < found) value = fold(value, values[k]);
        }
      }
      left -= found;
      __syncthreads();  // the list has been read
    }
    if (column < kSize) *at = Store<T>(value);
  }
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_SCATTER_CUH_
