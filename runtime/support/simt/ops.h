// The executor's body of every abstract op (compiler/emit/gpu_ops.def): op `rec.NAME` is simt_NAME.
// Results of several registers come back through a leading pointer.
#pragma once

#include <stdint.h>

#include "compiler/abi/simt_cost.h"

int32_t simt_thread_x(void);
int32_t simt_opaque(int32_t x);
int32_t simt_block_x(void);
int32_t simt_block_count(void);
void *simt_shared(void);

void simt_barrier(void);
void simt_warp_barrier(void);

float simt_shfl_bfly_f32(float x, int32_t mask);
float simt_shfl_idx_f32(float x, int32_t lane);
float simt_shfl_down_f32(float x, int32_t distance);
float simt_shfl_up_f32(float x, int32_t distance);

float simt_exp2_f32(float x);
float simt_log2_f32(float x);
float simt_rcp_f32(float x);
float simt_sqrt_f32(float x);
float simt_rsqrt_f32(float x);
float simt_div_f32(float x, float y);

uint32_t simt_cvt_bf16x2(float low, float high);
uint32_t simt_cvt_f16x2(float low, float high);
uint32_t simt_cvt_tf32(float x);

void simt_ldmatrix_x2(uint32_t to[2], const void *row);
void simt_ldmatrix_x4(uint32_t to[4], const void *row);
void simt_ldmatrix_x2_trans(uint32_t to[2], const void *row);
void simt_ldmatrix_x4_trans(uint32_t to[4], const void *row);

void simt_mma_m16n8k16_bf16(float d[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                            uint32_t b0, uint32_t b1, float c0, float c1, float c2, float c3);
void simt_mma_m16n8k16_f16(float d[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                           uint32_t b0, uint32_t b1, float c0, float c1, float c2, float c3);
void simt_mma_m16n8k8_tf32(float d[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                           uint32_t b0, uint32_t b1, float c0, float c1, float c2, float c3);

void simt_cp_async16(void *to, const void *from, int32_t bytes);
void simt_cp_async4(void *to, const void *from, int32_t bytes);
void simt_cp_async_commit(void);
void simt_cp_async_wait_0(void);
void simt_cp_async_wait_1(void);

int32_t simt_shared_address(const void *at);
void simt_fence_async(void);

#define SIMT_WGMMA(n)                                                                              \
  void simt_wgmma_fence_n##n(float d[n / 2], const float c[n / 2]);                                \
  void simt_wgmma_wait_n##n(float d[n / 2], const float c[n / 2]);                                 \
  void simt_wgmma_n##n##_bf16(float d[n / 2], const float c[n / 2], uint64_t a, uint64_t b,        \
                              int32_t scale, int32_t trans_a, int32_t trans_b);                    \
  void simt_wgmma_n##n##_f16(float d[n / 2], const float c[n / 2], uint64_t a, uint64_t b,         \
                             int32_t scale, int32_t trans_a, int32_t trans_b);                     \
  void simt_wgmma_registers_n##n##_bf16(float d[n / 2], const float c[n / 2], const uint32_t a[4], \
                                        uint64_t b, int32_t scale, int32_t trans_b);               \
  void simt_wgmma_registers_n##n##_f16(float d[n / 2], const float c[n / 2], const uint32_t a[4],  \
                                       uint64_t b, int32_t scale, int32_t trans_b);
SIMT_WGMMA(8)
SIMT_WGMMA(16)
SIMT_WGMMA(32)
SIMT_WGMMA(64)
#undef SIMT_WGMMA
void simt_wgmma_commit(void);

// No ops: calls that simt.c puts before loads and stores of shared and of global memory.
void simt_check_shared(const void *at, int32_t bytes, int32_t alignment, int32_t write);
void simt_check_global(const void *at, int32_t bytes, int32_t alignment, int32_t write);
// No ops either: what stands in code that is counted (recc --count). A site is the number of an
// instruction.
void simt_count_segment(const simt_segment *segment);
void simt_count_place(const simt_place *place);
void simt_count_access(const void *at, int32_t bytes, int32_t alignment, int32_t global,
                       int32_t site);
