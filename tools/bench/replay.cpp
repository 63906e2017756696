// replay TRACE: a trace of `rec plan --trace` in SimGrid (Debian: libsimgrid-dev), beside what rec plan predicts.
//
//   g++ -O2 tools/bench/replay.cpp -lsimgrid -o replay && ./replay TRACE
//
// Each rank has a host and a link of its own to the others. A message takes the link of its sender; SimGrid shares it between
// messages that are under way at one time, where rec plan sends one after another.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

struct event {
  char kind;
  int beside;
  long tag;
  double amount;  // seconds or bytes
};

static std::vector<event> events;
static std::vector<std::vector<std::pair<int, int>>> runs;  // by rank: from one event to another
static int ranks;

static s4u::Mailbox *mailbox(int from, int to, long tag) {
  return s4u::Mailbox::by_name(std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(tag));
}

static bool exists(int rank) { return rank >= 0 && rank < ranks; }

static void run(int rank, const event &e) {
  int other = rank + e.beside;
  if (!exists(other))
    return;
  else if (e.kind == 'c')
    s4u::this_actor::execute(e.amount * 1e9);
  else if (e.kind == 's')
    mailbox(rank, other, e.tag)->put_init(new int(0), static_cast<uint64_t>(e.amount))->detach();
  else
    delete mailbox(other, rank, e.tag)->get<int>();
}

// Receives are posted before the run: messages leave when they are sent.
static void run_all(int rank) {
  for (const event &e : events)
    if (e.kind == 'w' && exists(rank + e.beside)) mailbox(rank + e.beside, rank, e.tag)->set_receiver(s4u::Actor::self());
  for (auto [first, end] : runs.at(rank))
    for (int i = first; i < end; i++) run(rank, events.at(i));
}

int main(int count, char **words) {
  s4u::Engine engine(&count, words);
  std::ifstream file(count > 1 ? words[1] : "");
  double latency, bandwidth, predicted;
  if (!(file >> ranks >> latency >> bandwidth >> predicted)) return std::fprintf(stderr, "expected TRACE\n"), 2;
  for (std::string kind; file >> kind;) {
    if (kind == "#") {  // who wrote the file
      break;
    } else if (kind == "rank") {
      runs.emplace_back();
    } else if (kind == "run") {
      int first, end;
      file >> first >> end;
      runs.back().emplace_back(first, end);
    } else {
      event e = {kind[0], 0, 0, 0};
      file >> e.beside;
      if (e.kind != 'c') file >> e.tag;
      if (e.kind != 'w') file >> e.amount;
      events.push_back(e);
    }
  }
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/TCP-gamma:0");
  s4u::Engine::set_config("network/bandwidth-factor:1");
  s4u::Engine::set_config("network/latency-factor:1");
  s4u::Engine::set_config("network/weight-S:0");
  auto *zone = s4u::create_full_zone("job");
  std::vector<s4u::Host *> hosts;
  std::vector<const s4u::Link *> links;
  for (int i = 0; i < ranks; i++) {
    hosts.push_back(zone->create_host("rank" + std::to_string(i), 1e9));
    links.push_back(zone->create_link("link" + std::to_string(i), bandwidth)->set_latency(latency)->seal());
  }
  for (int i = 0; i < ranks; i++)
    for (int beside : {-1, 1})
      if (exists(i + beside))
        zone->add_route(hosts[i]->get_netpoint(), hosts[i + beside]->get_netpoint(), nullptr, nullptr, {s4u::LinkInRoute(links[i])},
                        false);
  zone->seal();
  for (int i = 0; i < ranks; i++) s4u::Actor::create("rank", hosts[i], run_all, i);
  engine.run();
  double found = s4u::Engine::get_clock();
  std::printf("%d ranks: SimGrid %.6f s, rec plan %.6f s, %.4f\n", ranks, found, predicted, predicted / found);
  return predicted < 1.1 * found && predicted > 0.9 * found ? 0 : 1;
}
