// The device `reference`: the step-by-step interpreter in double precision, and modules of source
// text alone.
//
// A library's program is its embedded source, read again with the defines that it was compiled
// with.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "runtime/front.h"

// The module's front end, made at first use by any thread.
static rec_status front_of(rec_module *module, rec_front **front) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  rec_status status = REC_OK;
  if (!module->front) {
    status = rec_front_new(module->path, module->sources, module->source_count, module->from,
                           module->defines, module->define_count, NULL, &module->front);
  }
  *front = module->front;
  pthread_mutex_unlock(&lock);
  return status;
}

bool rec_module_knows(rec_module *module, const char *name) {
  rec_front *front;
  return !front_of(module, &front) && rec_front_find(front, name);
}

rec_status rec_program_of(const rec_recurrence *r, const recurrence **program) {
  rec_front *front;
  rec_status status = front_of(r->module, &front);
  if (status) return status;
  *program = rec_front_find(front, r->signature.name);
  if (!*program)
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: not among the recurrences of the embedded source",
                    r->signature.name);
  return REC_OK;
}

static rec_status check_sizes(const rec_recurrence *r, const recurrence *program,
                              const rec_call *call) {
  for (int i = 0; i < r->signature.axis_count; i++) {
    const rec_axis *axis = &r->signature.axes[i];
    int64_t size, least = program->body.axes.items[i].least;
    if (call->axis_sizes[i] < least) {
      return rec_fail(
          REC_ERROR_ARGUMENT,
          "%s: expected a size of at least %lld for axis %s, whose entry %lld is read, found %lld",
          r->signature.name, (long long)least, axis->name, (long long)(least - 1),
          (long long)call->axis_sizes[i]);
    }
    if (axis->size >= 0 || !axis->expression) continue;
    if (!rec_front_size(program, i, call->axis_sizes, &size) || size != call->axis_sizes[i]) {
      return rec_fail(REC_ERROR_ARGUMENT, "%s: expected %s = %s, found %lld", r->signature.name,
                      axis->name, axis->expression, (long long)call->axis_sizes[i]);
    }
  }
  return REC_OK;
}

// Tables of the interpreter, which has tensors and lag buffers apart, from a call's, where they
// follow each other.
static void fill_reference_tensors(reference_tensor *tensors, reference_tensor *lags,
                                   void **buffers, int tensor_count, int count) {
  for (int i = 0; i < count; i++) {
    reference_tensor *t = i < tensor_count ? &tensors[i] : &lags[i - tensor_count];
    t->data = buffers[i];
  }
}

rec_status rec_reference_run(const rec_recurrence *r, const rec_call *call,
                             const rec_run_options *options) {
  const recurrence *program;
  rec_status status = rec_program_of(r, &program);
  if (!status) status = check_sizes(r, program, call);
  if (status) return status;
  int tensors = program->body.tensors.count, all = r->signature.variable_count;
  if (tensors + program->body.lags.count != all)
    return rec_fail(REC_ERROR_INTERNAL,
                    "%s: the embedded source has other tensors than the library",
                    r->signature.name);
  reference_tensor *t = calloc(7 * ((size_t)all + 1), sizeof *t);
  if (!t) return rec_no_memory();
  reference_tensor *table[7];
  for (int i = 0; i < 7; i++) table[i] = t + (size_t)i * ((size_t)all + 1);
  reference_run run = {.batch = call->batch,
                       .time = call->time,
                       .cu_seqlens = call->cu_seqlens,
                       .sequences = call->sequences,
                       .axis_sizes = call->axis_sizes,
                       .single = options->single,
                       .prepared = options->prepared,
                       .tensors = table[0],
                       .lags = table[0] + tensors,
                       .final_states = table[1],
                       .final_lags = table[1] + tensors,
                       .d_tensors = table[2],
                       .d_final_states = table[3],
                       .d_final_lags = table[3] + tensors,
                       .d_initial_states = table[4],
                       .d_initial_lags = table[4] + tensors};
  fill_reference_tensors(run.tensors, run.lags, call->value, tensors, all);
  fill_reference_tensors(run.final_states, run.final_lags, call->final, tensors, all);
  fill_reference_tensors(run.d_tensors, table[5], call->gradient, tensors, all);
  fill_reference_tensors(run.d_initial_states, run.d_initial_lags, call->gradient, tensors, all);
  fill_reference_tensors(run.d_final_states, run.d_final_lags, call->d_final, tensors, all);
  // A state's gradient belongs to its initial value alone.
  for (int i = 0; i < tensors; i++)
    if (r->signature.variables[i].kind == REC_STATE)
      run.d_tensors[i].data = NULL;
    else
      run.d_initial_states[i].data = NULL;
  bool done = reference_execute(program, &run, options->backward);
  free(t);
  return done ? REC_OK : rec_no_memory();
}

// ---- Modules of source text ------------------------------------------------------------------

// A lag buffer's axes are in the order of the input it remembers; a let has none declared, so in
// header order.
static bool describe_lag(rec_module *module, const typed_body *body, const typed_lag *lag,
                         rec_variable *v) {
  size_t size = strlen(lag->name) + sizeof ".lag";
  char *name = rec_blocks_take(&module->blocks, size);
  int *axes = rec_blocks_take(&module->blocks, (size_t)body->axes.count * sizeof *axes);
  if (!name || !axes) return false;
  strcat(strcpy(name, lag->name), ".lag");
  *v = (rec_variable){
      .name = name, .kind = REC_LAG, .axes = axes, .complex = lag->complex, .depth = lag->depth};
  if (lag->input >= 0) {
    v->axes = body->tensors.items[lag->input].axes;
    v->axis_count = body->tensors.items[lag->input].axis_count;
    return true;
  }
  for (int i = 0; i < body->axes.count; i++)
    if (axis_in(lag->axes, i)) axes[v->axis_count++] = i;
  return true;
}

static bool describe_module(rec_module *module, const typed_body *body, rec_dtype dtype,
                            rec_signature *s) {
  static const rec_kind kinds[] = {[TENSOR_INPUT] = REC_INPUT,
                                   [TENSOR_PARAM] = REC_PARAM,
                                   [TENSOR_STATE] = REC_STATE,
                                   [TENSOR_OUTPUT] = REC_OUTPUT};
  int tensors = body->tensors.count, lags = body->lags.count;
  rec_axis *axes = rec_blocks_take(&module->blocks, (size_t)body->axes.count * sizeof *axes);
  rec_variable *variables =
      rec_blocks_take(&module->blocks, (size_t)(tensors + lags) * sizeof *variables);
  if (!axes || !variables) return false;
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    axes[i] = (rec_axis){axis->name, axis->size, NULL};
    if (axis->size == TYPED_RUNTIME_SIZE && axis->size_expr)
      axes[i].expression = rec_front_text(module->front, axis->size_expr);
  }
  for (int i = 0; i < tensors; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    variables[i] = (rec_variable){.name = t->name,
                                  .kind = kinds[t->kind],
                                  .axis_count = t->axis_count,
                                  .axes = t->axes,
                                  .complex = t->complex};
  }
  for (int i = 0; i < lags; i++)
    if (!describe_lag(module, body, &body->lags.items[i], &variables[tensors + i])) return false;
  *s = (rec_signature){body->name,       body->doc, dtype,          rec_carried_type(dtype),
                       body->axes.count, axes,      tensors + lags, variables};
  return true;
}

static rec_status describe_all(rec_module *module) {
  int count = rec_front_count(module->front);
  module->recurrences =
      rec_blocks_take(&module->blocks, (size_t)count * sizeof *module->recurrences);
  if (!module->recurrences) return rec_no_memory();
  for (int i = 0; i < count; i++) {
    rec_recurrence *r = &module->recurrences[module->count++];
    r->module = module;
    r->index = i;
    if (!describe_module(module, &rec_front_recurrence(module->front, i)->body, module->dtype,
                         &r->signature))
      return rec_no_memory();
  }
  return REC_OK;
}

rec_status rec_module_open_source(const char *path, const char *const *defines, int define_count,
                                  rec_dtype dtype, FILE *messages, rec_module **out) {
  *out = NULL;
  rec_module *module = rec_module_new(path);
  if (!module) return REC_ERROR_MEMORY;
  module->dtype = dtype;
  rec_status status =
      rec_front_new(path, NULL, 0, NULL, defines, define_count, messages, &module->front);
  if (!status) status = describe_all(module);
  if (status)
    rec_module_close(module);
  else
    *out = module;
  return status;
}
