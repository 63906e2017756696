#include "runtime/train/model/chain.h"

#include <stdlib.h>

const char *chain_why_not(const train_model *model, const model_op *op, const kernel_sizes *sizes) {
  for (int i = 0; i < op->state_count; i++)
    if (model->states[op->states[i]].lag) return "it has lags";
  if (!sizes->summary[false]) return "its states have no summary";
  return sizes->summary[true] ? NULL : "the cotangents of its states have no summary";
}

// Smaller messages would take longer to begin than to pass.
int chain_blocks(int64_t instances, int64_t bytes) {
  enum { LEAST_BYTES = 1 << 15 };
  int64_t blocks = bytes / LEAST_BYTES;
  if (blocks > CHAIN_BLOCKS) blocks = CHAIN_BLOCKS;
  if (blocks > instances) blocks = instances;
  return blocks < 1 ? 1 : (int)blocks;
}

int64_t chain_instance(int64_t instances, int blocks, int block) {
  return instances * block / blocks;
}

int64_t *chain_instances(const trained_model *of, int64_t steps) {
  const train_model *m = of->model;
  int64_t *instances = calloc((size_t)m->op_count + 1, sizeof *instances);
  for (int i = 0; instances && i < m->op_count; i++) {
    const model_op *op = &m->ops[i];
    kernel_sizes sizes;
    if (op->kind != OP_CALL || !op->state_count ||
        of->kernels[op->kernel].sizes(&of->kernels[op->kernel], 1, steps, &sizes))
      continue;
    if (!chain_why_not(m, op, &sizes)) instances[i] = sizes.instances;
  }
  return instances;
}

int64_t chain_state_elements(const train_model *model, const model_op *op) {
  int64_t elements = 0;
  for (int i = 0; i < op->state_count; i++) elements += model->states[op->states[i]].elements;
  return elements;
}

// ---- for people ---------------------------------------------------------------------------------

static bool op_has_states(const train_model *m, const model_op *op) {
  bool has = false;
  for (int i = 0; i < op->state_count; i++) has |= !m->states[op->states[i]].lag;
  return has;
}

// Has an earlier operation called the same recurrence?
static bool is_repeated_call(const train_model *m, int number) {
  for (int i = 0; i < number; i++)
    if (m->ops[i].kind == OP_CALL && m->ops[i].kernel == m->ops[number].kernel) return true;
  return false;
}

// Those that go by a chain, or the others.
static void announce_chains(FILE *out, const trained_model *of, int64_t steps, bool chained) {
  const train_model *m = of->model;
  int count = 0;
  for (int i = 0; i < m->op_count; i++) {
    const model_op *op = &m->ops[i];
    kernel_sizes sizes;
    if (op->kind != OP_CALL || !op_has_states(m, op) || is_repeated_call(m, i)) continue;
    const train_kernel *k = &of->kernels[op->kernel];
    const char *why = k->sizes(k, 1, steps, &sizes) ? rec_message() : chain_why_not(m, op, &sizes);
    if (chained != !why) continue;
    fprintf(out, "%s%s",
            count++   ? ", "
            : chained ? "  states of segments by chain: "
                      : "  states of segments by pipeline: ",
            k->signature->name);
    if (why) fprintf(out, " (%s)", why);
  }
  if (count) fprintf(out, "\n");
}

void chain_announce(FILE *out, const trained_model *of, const train_block *block) {
  if (block->exchange != EXCHANGE_CHAIN || block->segments == 1) return;
  for (int chained = 1; chained >= 0; chained--)
    announce_chains(out, of, block->context / block->segments, chained);
}
