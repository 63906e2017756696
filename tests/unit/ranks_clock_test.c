// Virtual time: clocks of two ranks with given processor times, and messages between them.
#include <unistd.h>

#include "runtime/ranks/clock.h"

#include "tests/unit/unit.h"

static char path[] = "/tmp/rec-clock-XXXXXX";

static int write_network(void **state) {
  (void)state;
  int file = mkstemp(path);
  FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
  if (!out) return 1;
  // 80 Mbit/s between nodes: a byte takes 0.1 us.
  fprintf(out,
          "{\"ranks_per_node\": 2, \"within\": {\"latency_us\": 1, \"bandwidth_gbit\": 8},\n"
          " \"between\": {\"latency_us\": 100, \"bandwidth_gbit\": 0.08}}\n");
  return fclose(out);
}

static int remove_network(void **state) {
  (void)state;
  return unlink(path);
}

static double processor(void *context) { return *(double *)context; }

static rank_clock *clock_of(int64_t rank, double *seconds) {
  rank_clock *c;
  assert_int_equal(clock_open(rank, processor, seconds, &c), REC_OK);
  return c;
}

static void assert_near(double found, double expected) {
  if (found < expected - 1e-12 || found > expected + 1e-12)
    fail_msg("expected %.12g, found %.12g", expected, found);
}

TEST(it_is_off_without_a_network) {
  unsetenv("REC_VIRTUAL_NETWORK");
  assert_null(clock_of(0, NULL));
  assert_null(clock_times_file(NULL));
  assert_near(clock_send(NULL, 1, 100), 0);
  clock_arrived(NULL, 5);
}

TEST(a_message_sets_the_receiver_forward) {
  double first = 1e-3, third = 2e-4;
  setenv("REC_VIRTUAL_NETWORK", path, 1);
  unsetenv("REC_VIRTUAL_TIMES");
  rank_clock *a = clock_of(0, &first), *c = clock_of(2, &third);
  double arrival = clock_send(a, 2, 1000);
  assert_near(arrival, 1e-3 + 1e-4 + 1e-4);
  assert_near(clock_now(a), 1e-3);  // the link sends while the rank computes
  clock_arrived(c, arrival);
  assert_near(clock_now(c), arrival);
  third += 5e-4;  // computing goes on from there
  assert_near(clock_now(c), arrival + 5e-4);
  clock_arrived(c, arrival);  // of a message that has been there
  assert_near(clock_now(c), arrival + 5e-4);
  clock_close(a);
  clock_close(c);
}

TEST(messages_leave_one_after_another) {
  double seconds = 0;
  rank_clock *c = clock_of(0, &seconds);
  assert_near(clock_send(c, 2, 1000), 2e-4);
  assert_near(clock_send(c, 3, 1000), 3e-4);
  assert_near(clock_send(c, 1, 1000), 2e-4 + 1e-6 + 1e-6);  // within the node, behind the other two
  assert_near(clock_send(c, 0, 1000), 0);                   // to itself
  clock_close(c);
}

TEST(given_times_stand_in_place_of_the_processor) {
  double seconds = 0;
  rank_clock *by_processor = clock_of(0, &seconds);
  setenv("REC_VIRTUAL_TIMES", "times.json", 1);
  rank_clock *given = clock_of(0, &seconds);
  assert_string_equal(clock_times_file(given), "times.json");
  seconds = 5;
  clock_spend(given, 1e-3);
  clock_spend(by_processor, 1e-3);
  assert_near(clock_now(given), 1e-3);
  assert_near(clock_now(by_processor), 5);
  clock_close(given);
  clock_close(by_processor);
}

TEST_AROUND(write_network, remove_network)
