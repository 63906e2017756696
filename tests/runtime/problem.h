// A recurrence with numbers for everything it reads, and after a run for everything it writes: what
// the tests of the runtime pass around. All numbers are doubles here, whatever the device computes
// in.
#pragma once

#include "runtime/rec.h"
#include "tests/random/draw.h"

// The tables run over the signature's variables and mean what they mean in rec_call.
typedef struct problem {
  const rec_signature *signature;
  int64_t batch, time, sequences;
  int32_t *cu_seqlens;
  int64_t *axis_sizes;
  double **value, **final, **gradient, **d_final;
} problem;

// An empty problem: axis sizes as compiled, `run_time_size` for the others; no numbers.
problem *problem_new(const rec_signature *signature, int64_t batch, int64_t time,
                     int64_t run_time_size);
void problem_free(problem *p);
// An empty problem of packed sequences of these lengths.
problem *problem_packed(const rec_signature *signature, const int32_t *lengths, int64_t sequences,
                        int64_t run_time_size);
// The same inputs without results.
problem *problem_copy(const problem *p);

int64_t problem_numbers(const problem *p, int variable);  // of the whole tensor
bool is_token(const rec_variable *v);
bool is_carried(const rec_variable *v);

// Fills inputs, parameters, initial states and cotangents with draws that their types hold exactly,
// float at most.
void problem_draw(problem *p, uint64_t seed, double scale);
// The same problem for a library of another token type: what it reads is rounded to it.
void problem_retype(problem *p, const rec_signature *signature);
// From a file as `rec apply` takes it.
problem *problem_load(const rec_recurrence *recurrence, const char *path, bool backward);

// Steps [first, last) alone, without initial states and final cotangents.
problem *problem_part(const problem *p, int64_t first, int64_t last);
// One sequence of a packed problem as a problem of its own.
problem *problem_sequence(const problem *p, int64_t sequence);
// Hands the state after `before` to `after`, and after a backward run of `after` its gradient back
// to `before`.
void hand_state_on(const problem *before, problem *after);
void hand_gradient_back(problem *before, const problem *after);
// Results of two parts side by side against the whole's tables: a problem as if run whole.
problem *problem_join(const problem *whole, const problem *before, const problem *after);

// Runs and keeps the results. False: the run failed; rec_message() says why.
bool problem_run(problem *p, const rec_recurrence *recurrence, const char *device,
                 const rec_run_options *options);
// The results of two calls, the second from step `at` on: the state is handed on, and its gradient
// back. `options` are those of the second call, the first has no steps. NULL: a run failed.
problem *problem_run_split(const problem *whole, int64_t at, const rec_recurrence *recurrence,
                           const char *device, const rec_run_options *options);

// The same on a device that is none of librec's table.
struct rec_device;
bool problem_run_on(problem *p, const rec_recurrence *recurrence, const struct rec_device *device,
                    const rec_run_options *options);

// On the host: `use` calls entry points of the library by itself.
struct rec_host_session;
typedef rec_status problem_session(void *context, const struct rec_host_session *session);
bool problem_use(problem *p, const rec_recurrence *recurrence, const char *device,
                 const rec_run_options *options, problem_session *use, void *context);

// The largest error of any result beyond the rounding to a 16-bit type, measured as tests/golden
// does, with `floor` 1e-4. A tensor that is nearly zero is measured against this share of the
// largest of its kind. `where` gets "d.h0.S[7]: 1.5, expected 1.25".
double problem_compare(const problem *expected, const problem *got, bool backward, double floor,
                       char *where, size_t size);
// Are the outputs and final states of one sequence of a packed problem those of `alone` to the last
// bit?
bool sequence_equal(const problem *packed, int64_t sequence, const problem *alone);
// Without states before the run and gradients of those after it: they are zero.
void problem_drop_states(problem *p);
// The largest absolute value, of gradients too if `backward`; infinity if one is no number.
double problem_largest(const problem *p, bool backward);
// Is a number of a last state below the smallest normal one of f32? There f32 and f64 compare
// otherwise with 0.
bool problem_underflows(const problem *p);
// Are all results the same to the last bit?
bool problem_equal(const problem *a, const problem *b, bool backward);

// The largest error of results whose inputs differ by `shake`, of so many draws.
double problem_movement(const problem *inputs, const problem *exact,
                        const rec_recurrence *recurrence, double shake, bool backward, int draws);
// How far results may lie from the exact ones: `least`, or more where numbers that differ by
// `shake` already move them. `exact` holds the results of the reference for `inputs`.
double problem_tolerance(const problem *inputs, const problem *exact,
                         const rec_recurrence *recurrence, double least, double shake,
                         bool backward);
// The same where products round their operands to 16 bits, by `rounding` of their size.
double problem_rounded_tolerance(const problem *inputs, const problem *exact,
                                 const rec_recurrence *recurrence, double least, double rounding,
                                 bool backward);

// The largest error of a plain f32 loop: the interpreter that rounds every number to f32. Or of a
// loop that is given the values of parameters alone, rounded once (tests/README.md says why). Or of
// so many more, whose inputs differ by half a digit. A loop that leaves the range of f32 gives 0.
double problem_plain_error(const problem *inputs, const problem *exact,
                           const rec_recurrence *recurrence, bool backward, int draws);

double next_uniform(uint64_t *state);  // in [0, 1)
