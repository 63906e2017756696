// A library whose manifest lacks what this version describes.
const char rec_manifest[] =
    "{\"rec\": \"0.1.0\", \"abi\": \"1.0\", \"dtype\": \"f32\", \"recurrences\": [{\"name\": "
    "\"r\", \"doc\": null}]}";
const char *rec_error(void);
const char *rec_error(void) { return ""; }
