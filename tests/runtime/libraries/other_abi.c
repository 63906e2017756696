// A library as a later recc might make it: librec must refuse it with one line.
const char rec_manifest[] = "{\"rec\": \"9.0.0\", \"abi\": \"2.0\"}";
const char *rec_error(void);
const char *rec_error(void) { return ""; }
