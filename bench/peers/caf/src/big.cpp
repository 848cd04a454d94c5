// Big.
#include <algorithm>
#include <tuple>

#include "program.hpp"

namespace {

using Join = caf::atom_constant<caf::atom("join")>;
using Ping = caf::atom_constant<caf::atom("ping")>;
using Pong = caf::atom_constant<caf::atom("pong")>;
using Exit = caf::atom_constant<caf::atom("exit")>;

// Whose pong comes first: nobody's.
constexpr uint64_t nobody = UINT64_MAX;

class Big : public Program {
public:
  explicit Big(const Parameters& parameters) : pings_(parameters.at("pings")), workers_(parameters.at("workers")) {}

  void start(caf::actor_system& system) override {
    const auto sink = system.spawn(sink_actor);
    std::vector<caf::actor> workers;
    for (uint64_t id = 0; id < workers_; ++id)
      workers.push_back(system.spawn(worker_actor, this, id));
    // One message for all: they share it.
    const auto join = caf::make_message(Join::value, workers, sink);
    caf::anon_send(sink, Join::value, workers);
    for (const auto& worker : workers)
      caf::anon_send(worker, join);
    for (const auto& worker : workers)
      caf::anon_send(worker, Pong::value, nobody);
  }

  nlohmann::json found() override {
    auto all = reports_.all();
    std::sort(all.begin(), all.end());
    return all;
  }

private:
  // Ends with its actor, and with it the circle.
  struct WorkerState {
    Lcg16 draws;
    uint64_t left = 0;
    uint64_t expected = nobody;
    uint64_t received = 0;
    uint64_t unexpected = 0;
    std::vector<caf::actor> workers;
    caf::actor sink;
  };

  static caf::behavior worker_actor(caf::stateful_actor<WorkerState>* self, Big* run, uint64_t id) {
    self->state.draws = Lcg16{id};
    self->state.left = run->pings_;
    return {
      [=](Ping, uint64_t sender) {
        ++self->state.received;
        self->send(self->state.workers[sender], Pong::value, id);
      },
      [=](Pong, uint64_t sender) {
        auto& state = self->state;
        if (sender != state.expected)
          ++state.unexpected;
        if (state.left == 0) {
          self->send(state.sink, Exit::value);
          return;
        }
        --state.left;
        state.expected = state.draws.below(state.workers.size());
        self->send(state.workers[state.expected], Ping::value, id);
      },
      [=](Join, const std::vector<caf::actor>& workers, const caf::actor& sink) {
        self->state.workers = workers;
        self->state.sink = sink;
      },
      [=](Exit) {
        run->reports_.give({id, self->state.received, self->state.unexpected});
        self->quit();
      },
    };
  }

  struct SinkState {
    size_t exits = 0;
    std::vector<caf::actor> workers;
  };

  static caf::behavior sink_actor(caf::stateful_actor<SinkState>* self) {
    return {
      [=](Join, const std::vector<caf::actor>& workers) { self->state.workers = workers; },
      [=](Exit) {
        auto& state = self->state;
        if (++state.exits < state.workers.size())
          return;
        for (const auto& worker : state.workers)
          self->send(worker, Exit::value);
        self->quit();
      },
    };
  }

  uint64_t pings_;
  size_t workers_;
  Reports<std::tuple<uint64_t, uint64_t, uint64_t>> reports_;
};

} // namespace

std::unique_ptr<Program> big(const Parameters& parameters) {
  return std::make_unique<Big>(parameters);
}
