// The transactions of a sequence. The server keeps the state of a sequence in the one row of a
// table, and changes the row under a mutex of its own each time that the numbers in its memory are
// used up. A rollback must not give numbers back, and no snapshot may show an old state. So the row
// is read and changed in transactions of their own, each for one read or one change.
#pragma once

#include "engine.h"

namespace millpond {

class SequenceTxn {
 public:
  SequenceTxn() = default;
  SequenceTxn(const SequenceTxn &) = delete;
  SequenceTxn &operator=(const SequenceTxn &) = delete;

  // Begins a transaction where none runs. Returns a return code of the engine.
  int begin(THD *thd);

  // Ends a transaction that has only read, or whose change has failed.
  void rollback();

  void close();

  // Returns the place for transactions; null if there was none yet.
  millpond_txn *get() const { return txn_; }

 private:
  millpond_txn *txn_ = nullptr;
};

}  // namespace millpond
