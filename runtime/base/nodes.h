// Memory nodes (NUMA): which there are, to which a thread belongs, and asking the kernel for memory of a node.
//
// Where there is one node nothing is asked.  What the kernel refuses (a filter of system calls, a control group without
// that node) is given up for good after one try, and logged once: placing is an optimisation, and every caller goes on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::nodes {

inline constexpr int none = -1;  // no node: memory comes from where the kernel takes it

/// The numbers of a list as the kernel writes it: "0-1,4".  What is no such list gives none.
std::vector<int> numbers_in(std::string_view list);

/// The nodes of a machine, as a folder tells them in the way of /sys/devices/system/node.
class Machine {
 public:
  explicit Machine(const std::string& folder);
  /// Whether memory lies on more than one node.
  bool several() const noexcept { return with_memory_.size() > 1; }
  /// The node of a processor; none where that has no memory, or is not known.
  int of_processor(int processor) const noexcept;
  /// The nodes with memory, as the kernel writes them.
  const std::string& names() const noexcept { return names_; }

 private:
  std::string names_;
  std::vector<int> with_memory_;
  std::vector<int> of_processor_;
};
const Machine& machine();  // this one; read once

/// The node of the processor that the calling thread runs on: the node of all that it may run on, if they are of one.
/// None: there is one node only, RONDO_NUMA=off, the thread has a policy of its own (numactl), or that node has no
/// memory.  Throws Error for a wrong RONDO_NUMA.
int of_this_thread();

/// From now on memory of this range comes from the node as long as it has some; what is committed stays.  Whole pages.
/// For none does nothing.
void place(void* data, std::size_t bytes, int node) noexcept;

/// What the kernel says to placing: "" if it does it.
std::string trouble();

}  // namespace rondo::nodes
