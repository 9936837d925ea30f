// Sequences. The server keeps the state of a sequence in the one row of a table, and changes the row
// under a mutex of its own each time that the numbers in its memory are used up. A rollback must not
// give numbers back, and no snapshot may show an old state. So the row is read and changed in
// transactions of their own, each for one read or one change.

#include "handler.h"
#include "settings.h"

namespace millpond {

// Begins a transaction apart, where none runs.
int Handler::begin_apart() {
  // The server does not lock a temporary sequence before it uses it.
  if (session_ == nullptr) {
    if (int error = use_session(ha_thd())) return error;
  }
  if (apart_ == nullptr) {
    if (int rc = millpond_txn_new(database, &apart_)) return error_of(rc);
  }
  if (millpond_txn_is_active(apart_)) return 0;
  millpond_txn_options options{};
  options.isolation = MILLPOND_ISOLATION_READ_COMMITTED;
  options.lock_wait_ms = settings::lock_wait_ms(ha_thd());
  return error_of(millpond_txn_begin(apart_, &options));
}

// Ends a transaction apart that has only read.
void Handler::end_apart() {
  if (apart_) millpond_txn_rollback(apart_);
}

// Ends a transaction apart after a change with this result.
int Handler::commit_apart(int error) {
  if (error == 0) {
    table_->memory()->changed_at.store(time(nullptr), std::memory_order_relaxed);
    return error_of(session_->commit_apart(apart_));
  }
  millpond_txn_rollback(apart_);
  return error;
}

}  // namespace millpond
