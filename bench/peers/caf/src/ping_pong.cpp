// Ping pong.
#include "program.hpp"

namespace {

using Ping = caf::atom_constant<caf::atom("ping")>;
using Pong = caf::atom_constant<caf::atom("pong")>;
using Exit = caf::atom_constant<caf::atom("exit")>;

class PingPong : public Program {
public:
  explicit PingPong(const Parameters& parameters) : pings_(parameters.at("pings")) {}

  void start(caf::actor_system& system) override {
    const auto pong = system.spawn(pong_actor, this);
    const auto ping = system.spawn(ping_actor, this, pong);
    caf::anon_send(ping, Ping::value);
  }

  nlohmann::json found() override {
    return {received_pings_.only(), received_pongs_.only()};
  }

private:
  struct PingState {
    uint64_t left = 0;
    uint64_t received = 0;
  };

  static caf::behavior ping_actor(caf::stateful_actor<PingState>* self, PingPong* run, const caf::actor& pong) {
    self->state.left = run->pings_;
    return {
      [=](Ping) {
        --self->state.left;
        self->send(pong, Ping::value, caf::actor{self});
      },
      [=](Pong) {
        ++self->state.received;
        if (self->state.left > 0) {
          self->send(self, Ping::value);
          return;
        }
        self->send(pong, Exit::value);
        run->received_pongs_.give(self->state.received);
        self->quit();
      },
    };
  }

  struct PongState {
    uint64_t received = 0;
  };

  static caf::behavior pong_actor(caf::stateful_actor<PongState>* self, PingPong* run) {
    return {
      [=](Ping, const caf::actor& sender) {
        ++self->state.received;
        self->send(sender, Pong::value);
      },
      [=](Exit) {
        run->received_pings_.give(self->state.received);
        self->quit();
      },
    };
  }

  uint64_t pings_;
  Reports<uint64_t> received_pings_;
  Reports<uint64_t> received_pongs_;
};

} // namespace

std::unique_ptr<Program> ping_pong(const Parameters& parameters) {
  return std::make_unique<PingPong>(parameters);
}
