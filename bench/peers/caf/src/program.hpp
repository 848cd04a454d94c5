// What a benchmark is, and what they share.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <caf/all.hpp>
#include <nlohmann/json.hpp>

// One run of a benchmark.
class Program {
public:
  virtual ~Program() = default;

  // Makes the first actors and sends the first messages, on a thread that is no actor.
  virtual void start(caf::actor_system& system) = 0;

  // What the actors have reported, once all of them have ended; the same as the actors of Enact report.
  virtual nlohmann::json found() = 0;
};

using Parameters = nlohmann::json;

std::unique_ptr<Program> ping_pong(const Parameters&);
std::unique_ptr<Program> counting(const Parameters&);
std::unique_ptr<Program> fork_join_throughput(const Parameters&);
std::unique_ptr<Program> fork_join_creation(const Parameters&);
std::unique_ptr<Program> thread_ring(const Parameters&);
std::unique_ptr<Program> chameneos(const Parameters&);
std::unique_ptr<Program> big(const Parameters&);

// What actors have reported.
template <class T>
class Reports {
public:
  void give(T value) {
    std::lock_guard<std::mutex> guard{lock_};
    all_.push_back(std::move(value));
  }

  const std::vector<T>& all() const {
    return all_;
  }

  // The only report; null if there is none, or another.
  nlohmann::json only() const {
    return all_.size() == 1 ? nlohmann::json(all_.front()) : nlohmann::json();
  }

private:
  std::mutex lock_;
  std::vector<T> all_;
};

// The sine of a constant, squared: volatile, so that nobody computes it beforehand.
inline void sine() {
  static volatile double angle = 37.2;
  const double sine = std::sin(angle);
  if (sine * sine <= 0.0)
    throw std::logic_error("a square is not negative, and this one not zero");
}

// The suite's own generator.
class Lcg16 {
public:
  explicit Lcg16(uint64_t seed = 0) : state_(seed) {}

  uint64_t below(uint64_t bound) {
    state_ = (state_ * 1309 + 13849) % 65536;
    return state_ % bound;
  }

private:
  uint64_t state_;
};
