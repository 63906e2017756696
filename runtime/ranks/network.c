#include "runtime/ranks/network.h"

#include <math.h>

#include "compiler/abi/json.h"
#include "runtime/json_file.h"

static const double GBIT = 1e9 / 8;  // bytes a second

static rec_status read_link(const char *path, const cJSON *json, network_link *link) {
  double latency, bandwidth;
  rec_status status = json_real(path, json, "latency_us", 0, 1e9, &latency);
  if (!status) status = json_real(path, json, "bandwidth_gbit", 1e-6, 1e9, &bandwidth);
  if (!status) *link = (network_link){latency * 1e-6, bandwidth * GBIT};
  return status;
}

static rec_status read_levels(const char *path, const cJSON *json, network *n) {
  double node;
  rec_status status = json_real(path, json, "ranks_per_node", 1, 1e6, &node);
  if (!status && node != floor(node))
    status = rec_fail(REC_ERROR_FORMAT,
                      "%s: expected a whole number in \"ranks_per_node\", found %g", path, node);
  if (!status) n->node = (int64_t)node;
  if (!status) status = read_link(path, json_get(json, "within"), &n->within);
  return status ? status : read_link(path, json_get(json, "between"), &n->between);
}

rec_status network_read(const char *path, network *n) {
  cJSON *json;
  *n = (network){.node = 1};
  rec_status status = json_read_file(path, &json);
  if (status) return status;
  if (json_get(json, "ranks_per_node")) {
    status = read_levels(path, json, n);
  } else {
    status = read_link(path, json, &n->between);
    n->within = n->between;
  }
  cJSON_Delete(json);
  return status;
}

static void describe_link(const network_link *link, cJSON *object) {
  cJSON_AddNumberToObject(object, "latency_us", link->latency * 1e6);
  cJSON_AddNumberToObject(object, "bandwidth_gbit", link->bandwidth / GBIT);
}

void network_describe(const network *n, cJSON *object) {
  if (n->node == 1) {
    describe_link(&n->between, object);
    return;
  }
  cJSON_AddNumberToObject(object, "ranks_per_node", (double)n->node);
  describe_link(&n->within, cJSON_AddObjectToObject(object, "within"));
  describe_link(&n->between, cJSON_AddObjectToObject(object, "between"));
}
