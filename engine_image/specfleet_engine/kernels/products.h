// Rows times weights: dot products of vectors, and tiles for bfloat16 if the instruction set has AMX.

#pragma once

#include <algorithm>
#include <cstdint>

#include "vectors.h"

#ifdef __AMX_BF16__
#include <immintrin.h>
#endif

namespace {

#ifdef __AVX512F__
constexpr int kColumns = 4;
#else
constexpr int kColumns = 2;  // 16 registers: 2 columns times 4 rows, and what feeds them
#endif
constexpr int kRows = 4;
constexpr int64_t kTile = 16;  // rows that products are padded to

// Rows [rows, k] times weights [columns, k], both along k; each weight is read once for four rows.
template <int C, int R, typename T>
void dots(const float* rows, const T* weights, int64_t k, float out[C][R]) {
  Floats totals[C][R] = {};
  for (int64_t at = 0; at < k; at += kLanes) {
    Floats own[R];
    for (int r = 0; r < R; ++r) own[r] = load(rows + r * k + at);
    for (int c = 0; c < C; ++c) {
      Floats weight = load(weights + c * k + at);
      for (int r = 0; r < R; ++r) totals[c][r] += weight * own[r];
    }
  }
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r) out[c][r] = sum(totals[c][r]);
}

template <int C, int R, typename T>
void patch(const float* rows, const T* weights, int64_t k, int64_t n, const float* bias, bool add, float* out) {
  float found[C][R];
  dots<C, R>(rows, weights, k, found);
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) {
      float value = found[c][r] + (bias ? bias[c] : 0.0f);
      out[r * n + c] = add ? out[r * n + c] + value : value;
    }
}

// out [rows, n] (+)= rows · weightsᵀ + bias. Called by all threads of a team.
template <typename T>
void product(const float* rows, int64_t count, const T* weights, const float* bias, int64_t n, int64_t k,
             bool add, float* out) {
#pragma omp for schedule(static)
  for (int64_t column = 0; column < n; column += kColumns) {
    const T* own = weights + column * k;
    const float* shift = bias ? bias + column : nullptr;
    int64_t row = 0;
    for (; row + kRows <= count; row += kRows)
      patch<kColumns, kRows>(rows + row * k, own, k, n, shift, add, out + row * n + column);
    for (; row < count; ++row)
      patch<kColumns, 1>(rows + row * k, own, k, n, shift, add, out + row * n + column);
  }
}

#ifdef __AMX_BF16__
// Tiles 0..3 are sums, 4 and 5 rows, 6 and 7 weights; each 16 rows of 64 bytes.
void configure_tiles() {
  alignas(64) uint8_t config[64] = {1};
  for (int tile = 0; tile < 8; ++tile) {
    config[16 + 2 * tile] = 64;
    config[48 + tile] = 16;
  }
  _tile_loadconfig(config);
}

// Weights lie as tiles [n / 16][k / 32][16 pairs of k][16 columns][2]; rows are padded to 16.
void product(const bfloat16* rows, int64_t count, const bfloat16* weights, const float* bias, int64_t n,
             int64_t k, bool add, float* out) {
  const int64_t tiles = k / 32;
#pragma omp for schedule(static)
  for (int64_t pair = 0; pair < n / 16; pair += 2) {
    const bfloat16* left = weights + pair * tiles * 512;
    const bfloat16* right = left + (pair + 1 < n / 16 ? tiles * 512 : 0);
    for (int64_t row = 0; row < count; row += 2 * kTile) {
      const bool low = row + kTile < count;
      const bfloat16* own = rows + row * k;
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        if (row == 0)
          for (int line = 0; line < 16; ++line) {
            _mm_prefetch(reinterpret_cast<const char*>(left + (tile + 3) * 512) + line * 64, _MM_HINT_T0);
            _mm_prefetch(reinterpret_cast<const char*>(right + (tile + 3) * 512) + line * 64, _MM_HINT_T0);
          }
        _tile_loadd(4, own + tile * 32, k * 2);
        _tile_loadd(6, left + tile * 512, 64);
        _tile_loadd(7, right + tile * 512, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (low) {
          _tile_loadd(5, own + kTile * k + tile * 32, k * 2);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        }
      }
      alignas(64) float found[4][16][16];
      _tile_stored(0, found[0], 64);
      _tile_stored(1, found[1], 64);
      _tile_stored(2, found[2], 64);
      _tile_stored(3, found[3], 64);
      const int64_t rest = std::min<int64_t>(count - row, 2 * kTile);
      for (int side = 0; side < 2 && pair + side < n / 16; ++side) {
        const int64_t column = (pair + side) * 16;
        for (int64_t r = 0; r < rest; ++r) {
          Floats value = load(found[2 * (r / 16) + side][r % 16]);
          float* to = out + (row + r) * n + column;
          if (bias) value += load(bias + column);
          store(to, add ? load(to) + value : value);
        }
      }
    }
  }
}
#else
void configure_tiles() {}
#endif

template <typename T>
struct Inputs {
  typedef float Type;  // what products take as rows
};
#ifdef __AMX_BF16__
template <>
struct Inputs<bfloat16> {
  typedef bfloat16 Type;
};
#endif

}  // namespace
