// What decides the weights of a run: what is another is named, and what an older rec did not write
// is not compared.
#include "runtime/internal.h"
#include "runtime/train/identity.h"
#include "tests/unit/unit.h"

static const char now[] =
    "{\"dtype\":\"f32\",\"model\":\"M(D = "
    "4)\",\"formulas\":{\"M.r\":\"12\"},\"settings\":{\"lr\":0.5}}";

static void refused(const char *was, const char *text) {
  assert_int_equal(identity_check("checkpoint", was, now), REC_ERROR_ARGUMENT);
  if (!strstr(rec_message(), text)) fail_msg("expected %s, found %s", text, rec_message());
}

TEST(what_changed_is_named) {
  assert_int_equal(identity_check("checkpoint", now, now), REC_OK);
  refused(
      "{\"dtype\":\"f32\",\"model\":\"M(D = "
      "4)\",\"formulas\":{\"M.r\":\"13\"},\"settings\":{\"lr\":0.5}}",
      "found another: the formulas of M.r; put it back");
  refused(
      "{\"dtype\":\"f64\",\"model\":\"M(D = "
      "4)\",\"formulas\":{\"M.r\":\"12\"},\"settings\":{\"lr\":0.25}}",
      "found another: dtype \"f64\", now \"f32\"; lr 0.25, now 0.5; put it back");
}

TEST(an_older_checkpoint_is_compared_as_far_as_it_goes) {
  static const char older[] =
      "{\"dtype\":\"f32\",\"model\":\"M(D = "
      "4)\",\"equations\":{\"M.r\":\"99\"},\"settings\":{\"lr\":0.5}}";
  assert_int_equal(identity_check("checkpoint", older, now), REC_OK);
  assert_int_equal(identity_check("checkpoint", NULL, now), REC_OK);
  refused(
      "{\"dtype\":\"f32\",\"model\":\"M(D = "
      "4)\",\"equations\":{\"M.r\":\"12\"},\"settings\":{\"lr\":0.1}}",
      "found another: lr 0.1, now 0.5; put it back");
}
