// GPU: banks of shared memory, and layouts that spread the numbers of a warp over them.
//
// Shared memory has 32 banks of 4 bytes. An access of a warp takes a wavefront for each word that a
// bank must give. Rows of 32 numbers, or of a multiple, lie bank under bank: lanes that read
// several rows at once wait for each other. A layout moves the numbers of a line by its own number,
// within 32 numbers.
//
//   PATTERN_LINES, rows of 32 numbers      row 0:  0 .. 7    8 .. 15   16 .. 23  24 .. 31
//                                          row 1:  8 .. 15   0 .. 7    24 .. 31  16 .. 23
//                                          row 2:  16 .. 23  24 .. 31  0 .. 7    8 .. 15
//
// All numbers stay in vectors of 16 bytes.
#include <string.h>

#include "compiler/plan/plan.h"

enum { BANKS = PLAN_BANKS, BANK_BYTES = 4, LANES = 32 };

// ---- patterns ----

plan_layout plan_layout_of_rows(number_type stored, int64_t row) {
  if (!number_is_narrow(stored) || row < 8 || (row & (row - 1))) return (plan_layout){0};
  int bits = 6;  // 64 elements of 16 bits: all banks once
  while ((int64_t)1 << bits < row) bits++;
  return (plan_layout){.pattern = PATTERN_PIECES, .line = bits};
}

int plan_swaps_of(plan_layout layout, number_type stored, plan_swap swaps[PLAN_MOST_SWAPS]) {
  enum { OF_EIGHTS = 3 * 8 };
  const int line = layout.line;
  const plan_swap lines = {line - 3, OF_EIGHTS}, pairs = {line - 2, OF_EIGHTS}, fours = {line, 4};
  const plan_swap groups = {line + layout.group - 3, OF_EIGHTS};
  const plan_swap pieces =
      number_is_narrow(stored) ? (plan_swap){line - 3, 7 * 8} : (plan_swap){line - 2, 7 * 4};
  const plan_swap all[PATTERN_COUNT][PLAN_MOST_SWAPS] = {
      [PATTERN_PIECES] = {pieces},
      [PATTERN_LINES] = {lines},
      [PATTERN_PAIRS] = {pairs},
      [PATTERN_GRAY] = {lines, pairs},
      [PATTERN_MATRICES] = {lines, pairs, fours},
      [PATTERN_GROUPS] = {groups},
      [PATTERN_LINES_AND_GROUPS] = {lines, groups},
      [PATTERN_GRAY_AND_GROUPS] = {lines, pairs, groups},
  };
  int count = 0;
  while (count < PLAN_MOST_SWAPS && all[layout.pattern][count].bits) {
    swaps[count] = all[layout.pattern][count];
    count++;
  }
  return count;
}

int64_t plan_offset_in(plan_layout layout, number_type stored, int64_t offset) {
  plan_swap swaps[PLAN_MOST_SWAPS];
  int64_t to = offset;
  for (int i = plan_swaps_of(layout, stored, swaps) - 1; i >= 0; i--)
    to ^= (offset >> swaps[i].down) & swaps[i].bits;
  return to;
}

// ---- wavefronts ----

// Words of the banks in one turn: those of a bank that differ come one after another.
typedef struct bank_turn {
  int64_t words[BANKS][LANES];
  int counts[BANKS], most;
} bank_turn;

static void ask_bank(bank_turn *turn, int64_t word) {
  int bank = (int)(word % BANKS);
  for (int i = 0; i < turn->counts[bank]; i++)
    if (turn->words[bank][i] == word) return;
  turn->words[bank][turn->counts[bank]++] = word;
  if (turn->counts[bank] > turn->most) turn->most = turn->counts[bank];
}

// Hardware takes vectors of 8 and 16 bytes by halves and quarters of a warp. Lanes that read the
// same word read it together.
int plan_wavefronts(const int64_t addresses[LANES], int bytes) {
  int words = bytes > BANK_BYTES ? bytes / BANK_BYTES : 1, lanes = LANES / words, wavefronts = 0;
  for (int first = 0; first < LANES; first += lanes) {
    bank_turn turn;
    turn.most = 0;
    memset(turn.counts, 0, sizeof turn.counts);
    for (int lane = first; lane < first + lanes; lane++)
      for (int i = 0; addresses[lane] >= 0 && i < words; i++)
        ask_bank(&turn, addresses[lane] / BANK_BYTES + i);
    wavefronts += turn.most;
  }
  return wavefronts;
}
