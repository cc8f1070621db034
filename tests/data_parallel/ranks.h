// Ranks as threads of one process, each with a model of a few named vectors, for tests of the data-parallel layer.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rondo.h"
#include "tools/trainer/data_parallel/layer.h"

namespace dp = rondo::data_parallel;

/// Runs `body(rank, comm)` in a thread a rank and returns what each threw ("" if nothing).  Catch's assertions are not
/// for several threads: bodies throw std::runtime_error instead.
inline std::vector<std::string> as_ranks(int ranks, const std::function<void(int, ncclComm_t)>& body) {
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  if (ncclCommInitAll(comms.data(), ranks, nullptr) != ncclSuccess) return {ncclGetLastError(nullptr)};
  std::vector<std::string> errors(comms.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      try {
        body(rank, comms[index]);
      } catch (const std::exception& error) {
        errors[index] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ncclGroupStart();
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  ncclGroupEnd();
  return errors;
}

inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("expected " + what);
}

/// A model whose parameters are vectors of one C++ type.
template <class Element>
struct Model {
  std::vector<dp::Parameter> parameters;
  std::vector<std::unique_ptr<std::vector<Element>>> values;

  void add(const std::string& name, std::size_t count, ncclDataType_t type, Element value, bool trainable = true) {
    values.push_back(std::make_unique<std::vector<Element>>(count, value));
    parameters.push_back({name, type, {static_cast<std::int64_t>(count)}, {}, values.back()->data(), trainable});
  }
};

template <class Element>
Element* gradient(const dp::Layer& layer, std::size_t parameter) {
  return reinterpret_cast<Element*>(layer.gradient(parameter).data());
}
/// Stores or adds `value` to every element of a gradient, then tells the layer.
template <class Element>
void give(dp::Layer& layer, std::size_t parameter, Element value, bool adding = false) {
  const std::size_t count = layer.gradient(parameter).size() / sizeof(Element);
  for (std::size_t i = 0; i < count; ++i) {
    Element& element = gradient<Element>(layer, parameter)[i];
    element = adding ? element + value : value;
  }
  layer.ready(parameter);
}
template <class Element>
bool all_are(const dp::Layer& layer, std::size_t parameter, Element value) {
  const std::size_t count = layer.gradient(parameter).size() / sizeof(Element);
  for (std::size_t i = 0; i < count; ++i) {
    if (gradient<Element>(layer, parameter)[i] != value) return false;
  }
  return true;
}
