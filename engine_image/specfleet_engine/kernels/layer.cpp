// One decoder layer of the Llama family for all rows of a step, and the product of the head.
//
// torch needs about forty operators for such a layer, and on a small model each costs as much as its arithmetic.
// Here one call does it, in fp32 between the products. Weights, KV and hidden states are fp32 or bfloat16.
// Plain C at the border: it needs no header of torch, builds in seconds and works with every version of it.
// Compiled once for each instruction set (see native.py): vectors as wide as that one's, and tiles if it has AMX.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __AMX_BF16__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16, kColumns = 4;
#else
constexpr int kLanes = 8, kColumns = 2;  // 16 registers: 2 columns times 4 rows, and what feeds them
#endif
constexpr int kRows = 4;
constexpr int64_t kTile = 16;  // rows that products are padded to
constexpr int64_t kBlock = 16;  // tokens of a KV block

typedef float Floats __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));
typedef uint16_t bfloat16;

Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
Floats load(const bfloat16* from) {
  Words wide = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16;
  return reinterpret_cast<Floats>(wide);
}
void store(float* to, Floats values) { *reinterpret_cast<Floats*>(to) = values; }
void store(bfloat16* to, Floats values) {
  Words bits = reinterpret_cast<Words>(values);
  Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
  Words whole = bits >> 16 | 64;  // a NaN stays one
  auto nan = values != values;
  rounded = reinterpret_cast<Words>(nan) & whole | ~reinterpret_cast<Words>(nan) & rounded;
  *reinterpret_cast<Halves*>(to) = __builtin_convertvector(rounded, Halves);
}

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
float sum(Eight values) {
  Four four = __builtin_shufflevector(values, values, 0, 1, 2, 3) + __builtin_shufflevector(values, values, 4, 5, 6, 7);
  four += __builtin_shufflevector(four, four, 2, 3, 0, 1);
  return four[0] + four[1];
}
#ifdef __AVX512F__
float sum(Floats values) {
  return sum(__builtin_shufflevector(values, values, 0, 1, 2, 3, 4, 5, 6, 7) +
             __builtin_shufflevector(values, values, 8, 9, 10, 11, 12, 13, 14, 15));
}
#endif

// e^x, since libm's takes one number at a time: 2^n times the series of the rest, which is at most ln 2 / 2.
// 0 below the smallest normal number; a NaN stays one.
Floats exponential(Floats x) {
  const Floats low = Floats{} - 87.0f, high = Floats{} + 88.0f;
  const Floats within = x > high ? high : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  const Floats n = (within * 1.44269504f + magic) - magic;
  const Floats rest = (within - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts, the first short
  Floats series = Floats{} + 1.0f / 5040;
  for (float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) series = series * rest + factor;
  Words scale = reinterpret_cast<Words>(__builtin_convertvector(n, Ints) + 127) << 23;
  return x < low ? Floats{} : series * reinterpret_cast<Floats>(scale);
}

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

struct Layer {
  int64_t hidden, heads, kv_heads, head_size, inner;
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

template <typename To>
void norm(const float* from, const float* weight, int64_t size, float epsilon, To* to) {
  Floats squares = {};
  for (int64_t at = 0; at < size; at += kLanes) squares += load(from + at) * load(from + at);
  const float scale = 1.0f / std::sqrt(sum(squares) / size + epsilon);
  for (int64_t at = 0; at < size; at += kLanes) store(to + at, load(from + at) * scale * load(weight + at));
}

void rotate(float* head, const float* cosines, const float* sines, int64_t half) {
#pragma omp simd
  for (int64_t at = 0; at < half; ++at) {
    const float first = head[at], second = head[half + at];
    head[at] = first * cosines[at] - second * sines[at];
    head[half + at] = second * cosines[at] + first * sines[at];
  }
}

template <typename T>
void place(const Layer& layer, const Step& step, int64_t row, float* qkv, T* keys, T* values) {
  const int64_t size = layer.head_size, half = size / 2, turning = layer.heads + layer.kv_heads;
  for (int64_t head = 0; head < turning; ++head) {
    float* own = qkv + head * size;
    const float* weight = head < layer.heads ? layer.of_queries : layer.of_keys;
    if (weight) norm(own, weight, size, static_cast<float>(layer.epsilon), own);
    rotate(own, step.cosines + row * half, step.sines + row * half, half);
  }
  const int64_t width = layer.kv_heads * size, slot = step.slots[row] * width;
  for (int64_t at = 0; at < width; at += kLanes) {
    store(keys + slot + at, load(qkv + layer.heads * size + at));
    store(values + slot + at, load(qkv + turning * size + at));
  }
}

// The queries of ``count`` neighbouring rows of one sequence that share a KV head.
template <typename T, typename To>
void look(const Layer& layer, const Step& step, int64_t row, int64_t count, int64_t kv_head, const float* qkv,
          const T* keys, const T* values, To* seen) {
  const int64_t size = layer.head_size, group = layer.heads / layer.kv_heads, queries = count * group;
  const int64_t width = (layer.heads + 2 * layer.kv_heads) * size, stride = layer.kv_heads * size;
  const int64_t tokens = step.positions[row + count - 1] + 1, padded = (tokens + kBlock - 1) / kBlock * kBlock;
  const int64_t* table = step.tables[row];
  static thread_local std::vector<float> scores, sums;
  scores.resize(queries * padded);
  sums.assign(queries * size, 0.0f);
  std::vector<const float*> asked(queries);
  for (int64_t q = 0; q < queries; ++q)
    asked[q] = qkv + (row + q / group) * width + (kv_head * group + q % group) * size;
  for (int64_t token = 0; token < tokens; ++token) {
    const T* key = keys + (table[token / kBlock] * kBlock + token % kBlock) * stride + kv_head * size;
    for (int64_t q = 0; q < queries; ++q) {
      Floats total = {};
      for (int64_t at = 0; at < size; at += kLanes) total += load(key + at) * load(asked[q] + at);
      scores[q * padded + token] = sum(total) * static_cast<float>(layer.scaling);
    }
  }
  std::vector<float> shares(queries);
  for (int64_t q = 0; q < queries; ++q) {
    float* score = scores.data() + q * padded;
    std::fill(score + step.positions[row + q / group] + 1, score + padded, -INFINITY);
    Floats peaks = load(score), total = {};
    for (int64_t at = 0; at < padded; at += kLanes) peaks = load(score + at) > peaks ? load(score + at) : peaks;
    float peak = peaks[0];
    for (int lane = 1; lane < kLanes; ++lane) peak = std::max(peak, peaks[lane]);
    for (int64_t at = 0; at < padded; at += kLanes) {
      const Floats share = exponential(load(score + at) - peak);
      store(score + at, share);
      total += share;
    }
    shares[q] = 1.0f / sum(total);
  }
  for (int64_t token = 0; token < tokens; ++token) {
    const T* value = values + (table[token / kBlock] * kBlock + token % kBlock) * stride + kv_head * size;
    for (int64_t q = 0; q < queries; ++q) {
      const float score = scores[q * padded + token];
      float* to = sums.data() + q * size;
      for (int64_t at = 0; at < size; at += kLanes) store(to + at, load(to + at) + load(value + at) * score);
    }
  }
  for (int64_t q = 0; q < queries; ++q) {
    To* to = seen + ((row + q / group) * layer.heads + kv_head * group + q % group) * size;
    for (int64_t at = 0; at < size; at += kLanes) store(to + at, load(sums.data() + q * size + at) * shares[q]);
  }
}

template <typename To>
void gate(const float* gate_up, int64_t inner, To* to) {
  for (int64_t at = 0; at < inner; at += kLanes) {
    const Floats x = load(gate_up + at);
    store(to + at, x / (1.0f + exponential(-x)) * load(gate_up + inner + at));
  }
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

template <typename T>
void run(const Layer& layer, const Step& step, const T* from, T* keys, T* values, T* to) {
  typedef typename Inputs<T>::Type Input;
  const int64_t rows = step.rows, padded = (rows + 2 * kTile - 1) / (2 * kTile) * 2 * kTile;
  const int64_t seen = layer.heads * layer.head_size, qkv = seen + 2 * layer.kv_heads * layer.head_size;
  static thread_local std::vector<float> hidden, wide;
  static thread_local std::vector<Input> inputs;
  hidden.resize(rows * layer.hidden);
  wide.resize(rows * std::max(qkv, 2 * layer.inner));
  inputs.resize(padded * std::max({layer.hidden, seen, layer.inner}));
  float *state = hidden.data(), *scratch = wide.data();
  Input* input = inputs.data();
  const float epsilon = static_cast<float>(layer.epsilon);
  const auto runs = runs_of(step);
  const int64_t lookups = static_cast<int64_t>(runs.size()) * layer.kv_heads;
#pragma omp parallel num_threads(static_cast<int>(step.threads))
  {
    configure_tiles();
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      float* own = state + row * layer.hidden;
      for (int64_t at = 0; at < layer.hidden; at += kLanes) store(own + at, load(from + row * layer.hidden + at));
      norm(own, layer.before_attention, layer.hidden, epsilon, input + row * layer.hidden);
    }
    product(input, rows, static_cast<const T*>(layer.qkv), layer.qkv_bias, qkv, layer.hidden, false, scratch);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) place(layer, step, row, scratch + row * qkv, keys, values);
#pragma omp for schedule(dynamic)
    for (int64_t one = 0; one < lookups; ++one) {
      const auto& [row, count] = runs[one / layer.kv_heads];
      look(layer, step, row, count, one % layer.kv_heads, scratch, keys, values, input);
    }
    product(input, rows, static_cast<const T*>(layer.out), nullptr, layer.hidden, seen, true, state);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row)
      norm(state + row * layer.hidden, layer.before_mlp, layer.hidden, epsilon, input + row * layer.hidden);
    product(input, rows, static_cast<const T*>(layer.gate_up), nullptr, 2 * layer.inner, layer.hidden, false, scratch);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) gate(scratch + row * 2 * layer.inner, layer.inner, input + row * layer.inner);
    product(input, rows, static_cast<const T*>(layer.down), nullptr, layer.hidden, layer.inner, true, state);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t at = row * layer.hidden; at < (row + 1) * layer.hidden; at += kLanes)
        store(to + at, load(state + at));
#ifdef __AMX_BF16__
    _tile_release();
#endif
  }
}

template <typename T>
void project(const T* from, int64_t rows, const T* weights, int64_t n, int64_t k, int64_t threads, float* to) {
  typedef typename Inputs<T>::Type Input;
  static thread_local std::vector<Input> inputs;
  inputs.resize((rows + 2 * kTile - 1) / (2 * kTile) * 2 * kTile * k);
  Input* input = inputs.data();
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    configure_tiles();
#pragma omp for schedule(static)
    for (int64_t at = 0; at < rows * k; at += kLanes) store(input + at, load(from + at));
    product(input, rows, weights, nullptr, n, k, false, to);
#ifdef __AMX_BF16__
    _tile_release();
#endif
  }
}

}  // namespace

extern "C" {

// Whether the system lets this process use what the library was compiled for.
int specfleet_permitted() {
#ifdef __AMX_BF16__
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
#else
  return 1;
#endif
}

void specfleet_layer_float32(const Layer* layer, const Step* step, const void* from, void* keys, void* values, void* to) {
  run(*layer, *step, static_cast<const float*>(from), static_cast<float*>(keys), static_cast<float*>(values),
      static_cast<float*>(to));
}

void specfleet_layer_bfloat16(const Layer* layer, const Step* step, const void* from, void* keys, void* values, void* to) {
  run(*layer, *step, static_cast<const bfloat16*>(from), static_cast<bfloat16*>(keys),
      static_cast<bfloat16*>(values), static_cast<bfloat16*>(to));
}

void specfleet_project_float32(const void* from, int64_t rows, const void* weights, int64_t n, int64_t k, int64_t threads, float* to) {
  project(static_cast<const float*>(from), rows, static_cast<const float*>(weights), n, k, threads, to);
}

void specfleet_project_bfloat16(const void* from, int64_t rows, const void* weights, int64_t n, int64_t k, int64_t threads, float* to) {
  project(static_cast<const bfloat16*>(from), rows, static_cast<const bfloat16*>(weights), n, k, threads, to);
}
}
