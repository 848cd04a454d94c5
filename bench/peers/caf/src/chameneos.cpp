// Chameneos. Messages carry a colour as its number.
#include <array>
#include <utility>

#include "program.hpp"

namespace {

using Start = caf::atom_constant<caf::atom("start")>;
using Meet = caf::atom_constant<caf::atom("meet")>;
using Change = caf::atom_constant<caf::atom("change")>;
using Count = caf::atom_constant<caf::atom("count")>;
using Exit = caf::atom_constant<caf::atom("exit")>;

using Colour = uint8_t;

const std::array<const char*, 4> colours{"Red", "Yellow", "Blue", "Faded"};
constexpr Colour faded = 3;

// What a creature of this colour becomes when it meets one of another.
Colour complement(Colour own, Colour other) {
  if (own == other)
    return own;
  if (own == faded || other == faded)
    return faded;
  // The numbers of the three lively ones add up to 3.
  return static_cast<Colour>(3 - own - other);
}

class Chameneos : public Program {
public:
  explicit Chameneos(const Parameters& parameters)
    : creatures_(parameters.at("creatures")), meetings_(parameters.at("meetings")) {}

  void start(caf::actor_system& system) override {
    const auto mall = system.spawn(mall_actor, this);
    for (size_t id = 0; id < creatures_; ++id)
      caf::anon_send(system.spawn(creature_actor, this, mall, static_cast<Colour>(id % 3)), Start::value);
  }

  nlohmann::json found() override {
    return {{"sum", sum_.only()}, {"ends", ends_.all()}};
  }

private:
  struct MallState {
    uint64_t left = 0;
    caf::actor waiting;
    size_t reported = 0;
    uint64_t met = 0;
  };

  static caf::behavior mall_actor(caf::stateful_actor<MallState>* self, Chameneos* run) {
    self->state.left = run->meetings_;
    return {
      [=](Meet, Colour colour, const caf::actor& sender) {
        auto& state = self->state;
        if (state.left == 0) {
          self->send(sender, Exit::value);
        } else if (!state.waiting) {
          state.waiting = sender;
        } else {
          --state.left;
          self->send(std::exchange(state.waiting, nullptr), Meet::value, colour, sender);
        }
      },
      [=](Count, uint64_t meetings) {
        auto& state = self->state;
        state.met += meetings;
        if (++state.reported == run->creatures_) {
          run->sum_.give(state.met);
          self->quit();
        }
      },
    };
  }

  struct CreatureState {
    Colour colour = faded;
    uint64_t met = 0;
  };

  static caf::behavior creature_actor(caf::stateful_actor<CreatureState>* self, Chameneos* run, const caf::actor& mall,
                                      Colour colour) {
    self->state.colour = colour;
    const auto arrive = [=] { self->send(mall, Meet::value, self->state.colour, caf::actor{self}); };
    return {
      [=](Meet, Colour others, const caf::actor& other) {
        self->state.colour = complement(self->state.colour, others);
        ++self->state.met;
        self->send(other, Change::value, self->state.colour);
        arrive();
      },
      [=](Change, Colour now) {
        self->state.colour = now;
        ++self->state.met;
        arrive();
      },
      [=](Start) { arrive(); },
      [=](Exit) {
        self->state.colour = faded;
        self->send(mall, Count::value, self->state.met);
        run->ends_.give({colours.at(self->state.colour), self->state.met});
        self->quit();
      },
    };
  }

  size_t creatures_;
  uint64_t meetings_;
  Reports<uint64_t> sum_;
  Reports<std::pair<std::string, uint64_t>> ends_;
};

} // namespace

std::unique_ptr<Program> chameneos(const Parameters& parameters) {
  return std::make_unique<Chameneos>(parameters);
}
