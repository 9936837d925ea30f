// The cursors of one open instance of a table: one for its rows and one for each further index.

#include "cursors.h"

#include <new>

namespace millpond {

int Cursors::open(const Table *table) {
  table_ = table;
  all_.reset(new (std::nothrow) millpond_cursor *[table->indexes() + 1]());
  return all_ ? 0 : HA_ERR_OUT_OF_MEM;
}

void Cursors::close() {
  forget();
  all_.reset();
  table_ = nullptr;
}

int Cursors::choose(uint index) {
  const bool rows = index == MAX_KEY || index == table_->primary();
  millpond_cursor *&cursor = all_[rows ? table_->indexes() : index];
  if (cursor == nullptr) {
    millpond_table *tree = rows ? table_->rows() : table_->tree(index);
    if (int rc = millpond_cursor_new(tree, rows ? nullptr : table_->rows(), &cursor)) return rc;
  }
  present_ = cursor;
  return MILLPOND_RC_OK;
}

void Cursors::forget() {
  for (uint i = 0; all_ && i <= table_->indexes(); i++) {
    millpond_cursor_free(all_[i]);
    all_[i] = nullptr;
  }
  present_ = nullptr;
}

}  // namespace millpond
