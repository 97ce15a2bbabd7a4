// Attention of the rows of a step over the blocks of their sequences. Softmax and sums are in fp32.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "vectors.h"

namespace {

constexpr int64_t kBlock = 16;  // tokens of a KV block

struct Layer {
  int64_t hidden, heads, kv_heads, head_size, inner;
  int64_t window;  // tokens that a row sees at most, its own included
  const void *qkv, *out, *gate_up, *down;
  const float *qkv_bias, *before_attention, *before_mlp, *of_queries, *of_keys;
  double epsilon, scaling;
};

struct Step {
  int64_t rows, threads;
  const int64_t *positions, *slots;
  const int64_t* const* tables;  // for each row the blocks of its sequence
  const float *cosines, *sines;  // [rows, head_size / 2]
};

int64_t slot_of(const int64_t* table, int64_t token) { return table[token / kBlock] * kBlock + token % kBlock; }

// Calls ``work(first, how many)`` for up to four of ``count`` things at a time; how many is known to the compiler.
template <typename Work>
void by_fours(int64_t count, Work work) {
  for (int64_t first = 0; first < count; first += 4) switch (count - first) {
    case 1: work(first, std::integral_constant<int, 1>()); break;
    case 2: work(first, std::integral_constant<int, 2>()); break;
    case 3: work(first, std::integral_constant<int, 3>()); break;
    default: work(first, std::integral_constant<int, 4>());
  }
}

// Asks for what kLanes tokens have of a head. Blocks lie anywhere, so that no prefetcher knows the next one.
template <typename T>
void fetch(const T* from, int64_t stride, int64_t size) {
  for (int token = 0; token < kLanes; ++token)
    for (int64_t at = 0; at < size; at += 64 / sizeof(T)) __builtin_prefetch(from + token * stride + at);
}

// Scores of Q queries for kLanes tokens, whose keys lie ``stride`` apart.
template <int Q, typename T>
void score(const T* keys, int64_t stride, const float* const* asked, int64_t size, float scaling,
           float* const* scores, int64_t token) {
  Floats totals[Q][kLanes];
  for (int first = 0; first < kLanes; first += 4) {
    Floats four[Q][4] = {};
    for (int64_t at = 0; at < size; at += kLanes)
      for (int one = 0; one < 4; ++one) {
        const Floats key = load(keys + (first + one) * stride + at);
        for (int q = 0; q < Q; ++q) four[q][one] += key * load(asked[q] + at);
      }
    for (int q = 0; q < Q; ++q) std::copy(four[q], four[q] + 4, totals[q] + first);
  }
  for (int q = 0; q < Q; ++q) store(scores[q] + token, sums(totals[q]) * scaling);
}

// Scores of ``count`` tokens to shares, which still have to be divided by the sum that is given.
float spread(float* scores, int64_t count) {
  Floats peaks = load(scores), total = {};
  for (int64_t at = 0; at < count; at += kLanes) peaks = load(scores + at) > peaks ? load(scores + at) : peaks;
  float peak = peaks[0];
  for (int lane = 1; lane < kLanes; ++lane) peak = std::max(peak, peaks[lane]);
  for (int64_t at = 0; at < count; at += kLanes) {
    const Floats share = exponential(load(scores + at) - peak);
    store(scores + at, share);
    total += share;
  }
  return sum(total);
}

// Two vectors of the answers to Q queries: all values by their shares, which begin with token ``first``.
template <int Q, typename T, typename To>
void gather(const T* values, int64_t stride, const int64_t* table, int64_t first, int64_t tokens,
            const float* const* shares, const float* wholes, To* const* answers, int64_t at) {
  Floats found[Q][2] = {};
  for (int64_t token = first; token < tokens; ++token) {
    const T* value = values + slot_of(table, token) * stride + at;
    const Floats left = load(value), right = load(value + kLanes);
    for (int q = 0; q < Q; ++q) {
      found[q][0] += left * shares[q][token - first];
      found[q][1] += right * shares[q][token - first];
    }
  }
  for (int q = 0; q < Q; ++q)
    for (int half = 0; half < 2; ++half) store(answers[q] + at + half * kLanes, found[q][half] / wholes[q]);
}

// The queries of ``count`` neighbouring rows of one sequence that share a KV head.
template <typename T, typename To>
void look(const Layer& layer, const Step& step, int64_t row, int64_t count, int64_t kv_head, const float* qkv,
          const T* keys, const T* values, To* seen) {
  const int64_t size = layer.head_size, group = layer.heads / layer.kv_heads, queries = count * group;
  const int64_t width = (layer.heads + 2 * layer.kv_heads) * size, stride = layer.kv_heads * size;
  const int64_t tokens = step.positions[row + count - 1] + 1, padded = (tokens + kBlock - 1) / kBlock * kBlock;
  // The first block that the window of the first row reaches; scores are kept from there on.
  const int64_t first = std::max<int64_t>(step.positions[row] + 1 - layer.window, 0) / kBlock * kBlock;
  const int64_t kept = padded - first;
  const int64_t* table = step.tables[row];
  static thread_local std::vector<float> room, wholes;
  static thread_local std::vector<const float*> asked;
  static thread_local std::vector<float*> scores;
  static thread_local std::vector<To*> answers;
  room.resize(queries * kept);
  wholes.resize(queries);
  asked.resize(queries);
  scores.resize(queries);
  answers.resize(queries);
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t own = row + q / group, head = kv_head * group + q % group;
    asked[q] = qkv + own * width + head * size;
    scores[q] = room.data() + q * kept;
    answers[q] = seen + (own * layer.heads + head) * size;
  }
  keys += kv_head * size;
  values += kv_head * size;
  for (int64_t token = first; token < padded; token += kLanes) {
    const T* key = keys + slot_of(table, token) * stride;
    if (token + kLanes < padded) fetch(keys + slot_of(table, token + kLanes) * stride, stride, size);
    fetch(values + slot_of(table, token) * stride, stride, size);
    by_fours(queries, [&](int64_t q, auto some) {
      score<some>(key, stride, &asked[q], size, static_cast<float>(layer.scaling), &scores[q], token - first);
    });
  }
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t after = step.positions[row + q / group] + 1 - first;
    std::fill(scores[q] + after, scores[q] + kept, -INFINITY);
    std::fill(scores[q], scores[q] + std::max<int64_t>(after - layer.window, 0), -INFINITY);
    wholes[q] = spread(scores[q], kept);
  }
  for (int64_t at = 0; at < size; at += 2 * kLanes)
    by_fours(queries, [&](int64_t q, auto some) {
      gather<some>(values, stride, table, first, tokens, &scores[q], &wholes[q], &answers[q], at);
    });
}

// Rows of one sequence that attention takes together: each key is read once for all of them.
std::vector<std::pair<int64_t, int64_t>> runs_of(const Step& step) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (int64_t row = 0; row < step.rows; ++row) {
    const bool same = row && step.tables[row] == step.tables[row - 1] && runs.back().second < 4;
    if (same) ++runs.back().second;
    else runs.emplace_back(row, 1);
  }
  return runs;
}

}  // namespace
