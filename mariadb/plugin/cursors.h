// The cursors of one open instance of a table: one for its rows and one for each further index.
#pragma once

#include "table.h"

#include <memory>

namespace millpond {

class Cursors {
 public:
  Cursors() = default;
  Cursors(const Cursors &) = delete;
  Cursors &operator=(const Cursors &) = delete;

  // Makes room for the cursors of a table. Returns an error number of the server, or 0.
  int open(const Table *table);
  void close();

  // Makes the cursor of an index the present one; MAX_KEY is the rows. A cursor is made at its
  // first use. Returns a return code of the engine.
  int choose(uint index);

  // Returns the present cursor, or null.
  millpond_cursor *present() const { return present_; }

  // Leaves the present cursor where it is. The next read chooses one.
  void leave() { present_ = nullptr; }

  // Makes the present cursor forget its place, and leaves it.
  void reset() {
    if (present_) millpond_cursor_reset(present_);
    present_ = nullptr;
  }

  // Frees all cursors, because the trees are replaced by others.
  void forget();

 private:
  const Table *table_ = nullptr;
  std::unique_ptr<millpond_cursor *[]> all_;  // That of the rows is the last one.
  millpond_cursor *present_ = nullptr;
};

}  // namespace millpond
