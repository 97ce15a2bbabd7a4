// One decoder layer of the Llama family for all rows of a step, and the product of the head.
//
// torch needs about forty operators for such a layer, and on a small model each costs as much as its arithmetic.
// Here one call does it, in fp32 between the products. Weights, KV and hidden states are fp32 or bfloat16.
// Plain C at the border: it needs no header of torch, builds in seconds and works with every version of it.
// Compiled once for each instruction set (see build.py): vectors as wide as that one's, and tiles if it has AMX.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "attention.h"
#include "products.h"
#include "vectors.h"

#ifdef __AMX_BF16__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

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

template <typename To>
void gate(const float* gate_up, int64_t inner, To* to) {
  for (int64_t at = 0; at < inner; at += kLanes) {
    const Floats x = load(gate_up + at);
    store(to + at, x / (1.0f + exponential(-x)) * load(gate_up + inner + at));
  }
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
