// Runs micro-benchmarks of the Savina suite on the C++ Actor Framework: LIBRARY WORKERS, or --version.
//
// A line such as ["pp", {"pings": 40000}] asks for a run; the line {"wall_ns": ..., "cpu_ns": ..., "found": ...} answers,
// where `found` is what the actors reported. The program ends with its input.
//
// Actors are event-based and dynamically typed, and share the work-stealing scheduler, whose threads live from run to run.
#include <chrono>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "program.hpp"

namespace {

const std::map<std::string, std::function<std::unique_ptr<Program>(const Parameters&)>> programs{
  {"pp", ping_pong},    {"count", counting},  {"fjt", fork_join_throughput}, {"fjc", fork_join_creation},
  {"thr", thread_ring}, {"cham", chameneos}, {"big", big},
};

// User and system time of all threads.
int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

nlohmann::json answer(caf::actor_system& system, const nlohmann::json& question) {
  const auto program = programs.at(question.at(0))(question.at(1));
  const auto cpu = cpu_ns();
  const auto started = std::chrono::steady_clock::now();
  program->start(system);
  system.await_all_actors_done();
  const std::chrono::nanoseconds wall = std::chrono::steady_clock::now() - started;
  return {{"wall_ns", wall.count()}, {"cpu_ns", cpu_ns() - cpu}, {"found", program->found()}};
}

} // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::string{arguments[1]} == "--version") {
    std::cout << CAF_MAJOR_VERSION << '.' << CAF_MINOR_VERSION << '.' << CAF_PATCH_VERSION << std::endl;
    return 0;
  }
  if (count != 3) {
    std::cerr << "usage: peer-caf LIBRARY WORKERS\n";
    return 2;
  }
  caf::actor_system_config config;
  config.set("scheduler.max-threads", static_cast<int64_t>(std::stoul(arguments[2])));
  caf::actor_system system{config};
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(system, nlohmann::json::parse(line)) << std::endl;
}
