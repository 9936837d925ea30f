// Sorts entries of a tree by their keys: in memory, and by merging runs in a temporary file where
// there are too many of them.
#pragma once

#include "engine.h"

#include <vector>

namespace millpond {

class Sorter {
 public:
  // `memory` is about how many bytes of entries are kept in memory.
  explicit Sorter(size_t memory) : memory_(memory) {}
  ~Sorter();
  Sorter(const Sorter &) = delete;
  Sorter &operator=(const Sorter &) = delete;

  // Adds an entry. Returns false if the memory is full: then spill(), or read what there is.
  bool add(millpond_bytes key, millpond_bytes value);

  // Tells whether each key so far was greater than the one before.
  bool ascending() const { return ascending_; }

  // Sorts the entries in memory and moves them to the temporary file. Returns 0 or an errno.
  int spill();

  // Prepares the reading of all entries in the order of their keys. Returns 0 or an errno.
  int sort();

  // Goes to the next entry. Its bytes live until the next call. Returns 0 or an errno. At the end
  // `key` has no pointer.
  int next(millpond_bytes *key, millpond_bytes *value);

  // Forgets all entries in memory. REQUIRES: nothing was spilled.
  void clear();

 private:
  // An entry in memory: the first bytes of its key, in an order that integers have, and its place.
  struct Item {
    uint64_t prefix;
    size_t at;
  };
  // A part of the temporary file whose entries are sorted, and what has been read of it.
  struct Run {
    uint64_t from, end;
    std::vector<unsigned char> read;
    size_t at = 0;
    millpond_bytes key{nullptr, 0}, value{nullptr, 0};
  };
  // Orders the heap of runs: the one with the least key comes first.
  struct Later {
    bool operator()(const Run *a, const Run *b) const;
  };

  millpond_bytes key_at(size_t at) const;
  millpond_bytes value_at(size_t at) const;
  void sort_memory();
  int advance(Run &run);
  int fill(Run &run, size_t needed);

  size_t memory_;
  bool ascending_ = true;
  std::vector<unsigned char> bytes_;  // lengths, key, value of each entry
  std::vector<Item> items_;
  size_t shown_ = 0;
  int file_ = -1;
  uint64_t file_bytes_ = 0;
  std::vector<Run> runs_;
  std::vector<Run *> heap_;
  size_t read_bytes_ = 0;
};

}  // namespace millpond
