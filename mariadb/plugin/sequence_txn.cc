// The transactions of a sequence.

#include "sequence_txn.h"
#include "settings.h"

namespace millpond {

int SequenceTxn::begin(THD *thd) {
  if (txn_ == nullptr) {
    if (int rc = millpond_txn_new(database, &txn_)) return rc;
  }
  if (millpond_txn_is_active(txn_)) return MILLPOND_RC_OK;
  millpond_txn_options options{};
  options.isolation = MILLPOND_ISOLATION_READ_COMMITTED;
  options.lock_wait_ms = settings::lock_wait_ms(thd);
  return millpond_txn_begin(txn_, &options);
}

void SequenceTxn::rollback() {
  if (txn_) millpond_txn_rollback(txn_);
}

void SequenceTxn::close() {
  millpond_txn_free(txn_);
  txn_ = nullptr;
}

}  // namespace millpond
