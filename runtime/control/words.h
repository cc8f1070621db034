// How the control plane names ranks and times in sentences.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "control.h"

namespace rondo::control {

/// "10 s", "0.5 s".
std::string in_words(std::chrono::milliseconds time);
/// "rank 2", "ranks 2, 3", "ranks 0, 1, ... (40 in all)".
std::string in_words(const std::vector<int>& ranks);
/// "rank 2 (host X, pid 123)".
std::string in_words(const Member& member);
std::string host_name();

/// A deadline that arithmetic cannot overflow: at most a year from now.
Deadline bounded(Deadline deadline);
/// From now, not below zero.
std::chrono::milliseconds time_left(Deadline deadline);

}  // namespace rondo::control
