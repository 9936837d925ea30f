// The C interface of Millpond. Generated from crates/ffi by cbindgen; do not edit.
// `cargo xtask header --write` writes it again.

#ifndef MILLPOND_H
#define MILLPOND_H

#include <stddef.h>
#include <stdint.h>

// The number of this interface. It grows with every change that breaks callers.
#define MILLPOND_ABI 1

// What a call returns. The numbers never change; new ones are added at the end.
typedef enum {
  // Done.
  MILLPOND_RC_OK = 0,
  // There is no such row, or no further row. No text.
  MILLPOND_RC_NOT_FOUND = 1,
  // Another transaction has the row, and the caller skips such rows. No text.
  MILLPOND_RC_SKIPPED = 2,
  // A row to be inserted exists. Nothing of the row change was done.
  MILLPOND_RC_KEY_EXISTS = 3,
  // Victim of a deadlock: the transaction has been rolled back.
  MILLPOND_RC_DEADLOCK = 4,
  // A lock did not become free in time. Only this call has failed.
  MILLPOND_RC_LOCK_TIMEOUT = 5,
  // The row was changed after the snapshot: the transaction has been rolled back.
  MILLPOND_RC_WRITE_CONFLICT = 6,
  // The transaction was cancelled from another thread. Only this call has failed.
  MILLPOND_RC_CANCELLED = 7,
  // An earlier error has rolled the transaction back.
  MILLPOND_RC_ABORTED = 8,
  // There is no such table, or it has been dropped.
  MILLPOND_RC_NO_SUCH_TABLE = 9,
  // A table of that name exists.
  MILLPOND_RC_TABLE_EXISTS = 10,
  // The table was made after the transaction's snapshot.
  MILLPOND_RC_TABLE_CHANGED = 11,
  // The key is longer than a page can index.
  MILLPOND_RC_KEY_TOO_LONG = 12,
  // The call makes no sense as it was made.
  MILLPOND_RC_MISUSE = 13,
  // The engine cannot do that yet.
  MILLPOND_RC_NOT_SUPPORTED = 14,
  // The database is closed.
  MILLPOND_RC_CLOSED = 15,
  // The database stopped after a failed write or sync; opening it again recovers it.
  MILLPOND_RC_POISONED = 16,
  // The database is open elsewhere.
  MILLPOND_RC_IN_USE = 17,
  // The versions that the snapshot needs are gone.
  MILLPOND_RC_SNAPSHOT_TOO_OLD = 18,
  // The operating system refused an operation on a file.
  MILLPOND_RC_IO = 19,
  // A limit was reached; the text names it.
  MILLPOND_RC_LIMIT = 20,
  // No space is left.
  MILLPOND_RC_DISK_FULL = 21,
  // A file is damaged; the text names file and place.
  MILLPOND_RC_CORRUPT = 22,
  // A file belongs to another program or format.
  MILLPOND_RC_FOREIGN = 23,
  // No memory is left for a result.
  MILLPOND_RC_NO_MEMORY = 24,
  // A failure without a code of its own; see the text.
  MILLPOND_RC_OTHER = 25,
  // The database was opened by the process from which `fork` has made this one. Only that one
  // can use it.
  MILLPOND_RC_FORKED = 26,
} millpond_rc;

// What a transaction sees of others.
typedef enum {
  // Each statement has a snapshot of its own.
  MILLPOND_ISOLATION_READ_COMMITTED = 0,
  // One snapshot for all plain reads.
  MILLPOND_ISOLATION_REPEATABLE_READ = 1,
  // As if transactions ran one after the other.
  MILLPOND_ISOLATION_SERIALIZABLE = 2,
} millpond_isolation;

// What is durable when a commit returns.
typedef enum {
  // The commit is on disk.
  MILLPOND_DURABILITY_SYNC = 0,
  // The commit survives the end of the process; for the end of the machine it is as
  // `MILLPOND_DURABILITY_BOUNDED`.
  MILLPOND_DURABILITY_WRITTEN = 1,
  // The commit is on disk within `bounded_ms` milliseconds and `bounded_bytes` bytes of redo.
  MILLPOND_DURABILITY_BOUNDED = 2,
  // Nothing.
  MILLPOND_DURABILITY_NONE = 3,
} millpond_durability;

// The lock that a read leaves on what it has read.
typedef enum {
  // None: a consistent read by the transaction's snapshot.
  MILLPOND_LOCK_NONE = 0,
  // Shared; the newest committed row is read.
  MILLPOND_LOCK_SHARED = 1,
  // Exclusive; the newest committed row is read.
  MILLPOND_LOCK_EXCLUSIVE = 2,
} millpond_lock;

// What a locking read does with a row that another transaction has locked.
typedef enum {
  // It waits, as long as the transaction's options say.
  MILLPOND_WAIT_WAIT = 0,
  // It fails with `MILLPOND_RC_LOCK_TIMEOUT` at once.
  MILLPOND_WAIT_NO_WAIT = 1,
  // It skips the row.
  MILLPOND_WAIT_SKIP_LOCKED = 2,
  // A cursor shows the row as it was last committed and does not lock it: see
  // `millpond_row.peeked`. Where ranges are locked it waits.
  MILLPOND_WAIT_PEEK = 3,
} millpond_wait;

// Which of a transaction's views has an index entry. While a transaction has not changed rows that
// others had changed after its snapshot, it is `MILLPOND_VIEW_ANY`.
typedef enum {
  // The entry is shown, whatever its row.
  MILLPOND_VIEW_ANY = 0,
  // The snapshot alone: `millpond_shows` tells whether the entry is shown.
  MILLPOND_VIEW_SNAPSHOT = 1,
  // The newest rows alone: `millpond_shows` tells whether the entry is shown.
  MILLPOND_VIEW_PRESENT = 2,
} millpond_view;

// Where a seek looks for the first row.
typedef enum {
  // The first row at `key` or after it.
  MILLPOND_SEEK_AT_OR_AFTER = 0,
  // The first row after `key`.
  MILLPOND_SEEK_AFTER = 1,
  // The first row after all keys that begin with `key`.
  MILLPOND_SEEK_AFTER_PREFIX = 2,
  // The last row at `key` or before it.
  MILLPOND_SEEK_AT_OR_BEFORE = 3,
  // The last row before `key`, and so before all keys that begin with it.
  MILLPOND_SEEK_BEFORE = 4,
  // The last row whose key begins with `key` or lies before it.
  MILLPOND_SEEK_PREFIX_OR_BEFORE = 5,
  // The first row.
  MILLPOND_SEEK_FIRST = 6,
  // The last row.
  MILLPOND_SEEK_LAST = 7,
} millpond_seek;

// What the change of an entry does.
typedef enum {
  // Inserts an entry; there must be none with this key.
  MILLPOND_ROW_OP_INSERT = 0,
  // Inserts an entry, or replaces it.
  MILLPOND_ROW_OP_PUT = 1,
  // Deletes an entry. If there is none, nothing happens.
  MILLPOND_ROW_OP_DELETE = 2,
  // Replaces an entry. If there is none, nothing happens.
  MILLPOND_ROW_OP_UPDATE = 3,
} millpond_row_op;

// What a change of the set of tables does.
typedef enum {
  // Creates the empty table `name`, with `metadata`.
  MILLPOND_TABLE_OP_CREATE = 0,
  // Drops the table `name`.
  MILLPOND_TABLE_OP_DROP = 1,
  // Gives the table `name` the name `new_name`.
  MILLPOND_TABLE_OP_RENAME = 2,
  // Puts a new, empty table with `metadata` in place of the table `name`.
  MILLPOND_TABLE_OP_REPLACE = 3,
  // Gives the table `name` other `metadata`.
  MILLPOND_TABLE_OP_SET_METADATA = 4,
} millpond_table_op;

// How a transaction shares a table's counter with others.
typedef enum {
  // It locks the counter only if another transaction has locked it or wants to.
  MILLPOND_COUNTER_LOCK_KIND_IF_LOCKED = 0,
  // It locks the counter: until the end of its statement, no other transaction that does so too,
  // or that asks with `IF_LOCKED`, takes values.
  MILLPOND_COUNTER_LOCK_KIND_ALWAYS = 1,
} millpond_counter_lock_kind;

// What a lock is of.
typedef enum {
  // The whole table.
  MILLPOND_LOCK_PLACE_TABLE = 0,
  // The table's counter.
  MILLPOND_LOCK_PLACE_COUNTER = 1,
  // A key, with a row or without one.
  MILLPOND_LOCK_PLACE_ROW = 2,
  // The rows of adjacent keys.
  MILLPOND_LOCK_PLACE_ROWS = 3,
  // The rows of adjacent keys and the gaps between them.
  MILLPOND_LOCK_PLACE_ROWS_AND_GAPS = 4,
  // No lock: a scan lets transactions go first that have waited for its range.
  MILLPOND_LOCK_PLACE_TURN = 5,
} millpond_lock_place;

// A position in a table. It survives changes of the transaction, and its end.
typedef struct millpond_cursor millpond_cursor;

// An open database.
typedef struct millpond_db millpond_db;

// A table that is being filled. Others do not see it before its commit.
typedef struct millpond_load millpond_load;

// A table of an open database: an ordered map of byte keys to byte values. It is one tree; an
// SQL table is several of them.
typedef struct millpond_table millpond_table;

// A session's place for transactions: it has one transaction after the other.
typedef struct millpond_txn millpond_txn;

// Memory of the caller for a result, made by `malloc` or empty (all zero). A call makes it longer
// where needed and sets `len`. The caller frees it with `millpond_buffer_free`.
typedef struct {
  // The first byte; null if there is no memory yet.
  uint8_t *ptr;
  // How many bytes the last call has put into it.
  size_t len;
  // How many bytes it has room for.
  size_t capacity;
} millpond_buffer;

// Bytes that are read. With `len` 0 the pointer is not looked at; where the bytes are optional, a
// null pointer means that they are left out.
typedef struct {
  // The first byte.
  const uint8_t *ptr;
  // How many there are.
  size_t len;
} millpond_bytes;

// Where a cursor goes, and how it reads from there on. Fill with zeros first.
typedef struct {
  // A `millpond_seek`.
  uint32_t seek;
  // The key that the seek is about.
  millpond_bytes key;
  // The cursor has no rows before this key; null: no such bound.
  millpond_bytes lower;
  // The cursor has no rows at this key or after it; null: no such bound.
  millpond_bytes upper;
  // The cursor has only rows whose keys begin with this; null: all.
  millpond_bytes prefix;
  // A `millpond_lock`: each row that the cursor returns is locked so.
  uint32_t lock;
  // A `millpond_wait`.
  uint32_t wait;
  // About how many rows will be read; 0: unknown. A hint.
  uint32_t rows;
} millpond_seek_to;

// A row. Its bytes stay as they are until the next call with the cursor.
typedef struct {
  // Its key.
  millpond_bytes key;
  // Its value.
  millpond_bytes value;
  // For a cursor that locks: 1 if the transaction did not have the row's lock before.
  uint32_t newly_locked;
  // 1 if another transaction has the row, which is shown as it was last committed. The cursor
  // has not locked it.
  uint32_t peeked;
  // A `millpond_view`.
  uint32_t view;
} millpond_row;

// Is told of a deadlock: its number, and the tags of its members. It must not call the database.
typedef void (*millpond_on_deadlock_fn)(void *context,
                                        uint64_t number,
                                        const uint64_t *tags,
                                        size_t count);

// How a database is opened. A zero takes the engine's default. Fill with zeros first.
typedef struct {
  // Its directory. Null: a database in memory, which ends with the process.
  const char *dir;
  // Another directory for the redo log, or null.
  const char *redo_dir;
  // Another directory for the doublewrite, or null.
  const char *doublewrite_dir;
  // Page size, 4096, 8192 or 16384 bytes; only when the database is created.
  uint64_t page_bytes;
  // Memory for cached pages.
  uint64_t buffer_pool_bytes;
  // Redo capacity; 0: as the recovery target says.
  uint64_t redo_capacity_bytes;
  // How long recovery may take, milliseconds.
  uint64_t recovery_target_ms;
  // Memory for the undo of transactions and for old versions.
  uint64_t history_memory_bytes;
  // Disk space for old versions.
  uint64_t history_disk_bytes;
  // Other than 0: pages are written without a copy in the doublewrite, and a power cut may tear
  // them for good (`millpond_set_doublewrite`).
  uint32_t unsafe_no_doublewrite;
  // Other than 0: the process is there for the database. Opening may raise its limit of open
  // files, and freed memory goes back to the system by `malloc_trim`.
  uint32_t own_process;
  // Memory for the locks of rows and ranges.
  uint64_t lock_memory_bytes;
  // Is told of each deadlock while its transactions still wait, by any thread; or null.
  millpond_on_deadlock_fn on_deadlock;
  // The context of `on_deadlock`.
  void *on_deadlock_context;
} millpond_options;

// One change of the set of tables.
typedef struct {
  // A `millpond_table_op`.
  uint32_t op;
  // The table.
  millpond_bytes name;
  // Its new name, for a rename.
  millpond_bytes new_name;
  // Bytes of the caller that are kept with the table.
  millpond_bytes metadata;
} millpond_table_change;

// Gets a name, or other bytes, of a list. A result other than 0 ends the list.
typedef int (*millpond_name_fn)(void *context, millpond_bytes name);

// Sizes of a table.
typedef struct {
  // About how many rows it has.
  uint64_t rows;
  // About how many pages its tree has, without those of long values.
  uint64_t pages;
  // About how many pages its long values have.
  uint64_t value_pages;
  // Free pages that only this table will use.
  uint64_t free_pages;
  // The bytes of a page.
  uint64_t page_bytes;
} millpond_table_stats;

// Gets a key of a sample, and 1 if it follows the key before without a gap, else 0.
typedef void (*millpond_key_fn)(void *context, millpond_bytes key, int follows);

// What a key range has.
typedef struct {
  // About how many rows, with deleted ones that are not purged yet.
  uint64_t rows;
  // About how many leaf pages it touches.
  uint64_t leaves;
  // 1 if all these pages were counted, so that `rows` is no estimate.
  uint32_t exact;
} millpond_range_stats;

// A wish for values of a table's counter (auto-increment), and what came of it.
typedef struct {
  // Values are `offset` plus a multiple of `increment`. An offset above the increment counts as
  // 0.
  uint64_t offset;
  // The distance of two values; 0 counts as 1.
  uint64_t increment;
  // How many values are wanted, at least 1.
  uint64_t count;
  // The greatest value that the column can hold.
  uint64_t max;
  // Result: the first value.
  uint64_t first;
  // Result: how many values there are. 0: the next value would exceed `max`.
  uint64_t granted;
} millpond_counter;

// Gets a line of text for the log of the program: that the database has stopped, and why; or what
// failed, just before the process aborts. It must not call the database.
typedef void (*millpond_log_fn)(void *context, const char *text);

// A lock, or a request for one.
typedef struct {
  // The number of the transaction.
  uint64_t transaction;
  // The transaction's `tag`.
  uint64_t tag;
  // The name of the table; empty for one that is being made or was dropped.
  millpond_bytes table;
  // A `millpond_lock_place`.
  uint32_t place;
  // Not 0: exclusive, else shared.
  uint32_t exclusive;
  // Not 0: the request waits.
  uint32_t waits;
  // The key, or the first key of several.
  millpond_bytes key;
  // The first key beyond several, or left out: to the end of the table.
  millpond_bytes to;
} millpond_lock_info;

// A transaction that has locked or changed something.
typedef struct {
  // Its number.
  uint64_t transaction;
  // Its `tag`.
  uint64_t tag;
  // Changes of rows that it would lose if it were rolled back.
  uint64_t rows_changed;
  // Locks that it holds. Rows that it has changed count only if another transaction has waited
  // for them.
  uint64_t locks;
  // Bytes of its undo.
  uint64_t undo_bytes;
  // Its xid, if it is prepared; else left out.
  millpond_bytes xid;
  // The lock for which it waits, or null.
  const millpond_lock_info *waits_for;
} millpond_txn_info;

// Gets a transaction. A result other than 0 ends the list.
typedef int (*millpond_txn_info_fn)(void *context, const millpond_txn_info *txn);

// Gets a lock. A result other than 0 ends the list.
typedef int (*millpond_lock_fn)(void *context, const millpond_lock_info *lock);

// Gets a request that waits, and a transaction for which it waits: its number and its tag. A
// result other than 0 ends the list.
typedef int (*millpond_wait_fn)(void *context,
                                const millpond_lock_info *request,
                                uint64_t blocker,
                                uint64_t blocker_tag);

// A transaction of a deadlock. Each member waits for the next one, and the last for the first.
typedef struct {
  // The number of the deadlock, from 1 on since the database was opened.
  uint64_t deadlock;
  // Its place in the cycle, from 0 on.
  uint32_t place;
  // Not 0: the one that was rolled back.
  uint32_t victim;
  // The transaction as it was then; its undo is not counted.
  millpond_txn_info transaction;
  // Its lock for which the member before it waits, or null: it only stands before that one in
  // the queue of a lock.
  const millpond_lock_info *holds;
} millpond_deadlock_member;

// Gets a member of a deadlock. A result other than 0 ends the list.
typedef int (*millpond_deadlock_fn)(void *context, const millpond_deadlock_member *member);

// Gets one figure: its name, its value, whether it is a counter (else a level), and its meaning;
// of a figure of a family, that of its label. A result other than 0 ends the list.
typedef int (*millpond_metric_fn)(void *context,
                                  millpond_bytes name,
                                  double value,
                                  uint32_t is_counter,
                                  millpond_bytes help);

// Syncs of one kind of file for one reason.
typedef struct {
  // Which kind of file.
  millpond_bytes file;
  // Why it was synced.
  millpond_bytes reason;
  // What the reason means, a sentence.
  millpond_bytes help;
  // How many syncs there were.
  uint64_t count;
  // Callers that waited, summed over the syncs.
  uint64_t waiters;
  // The time that they took together, microseconds.
  uint64_t us_total;
  // Half of them took no longer, microseconds; at most a quarter too high, as the next two.
  uint64_t p50_us;
  // 95 of 100 took no longer.
  uint64_t p95_us;
  // 99 of 100 took no longer.
  uint64_t p99_us;
  // The longest.
  uint64_t max_us;
} millpond_fsync;

// Gets the syncs of one kind of file for one reason. A result other than 0 ends the list.
typedef int (*millpond_fsync_fn)(void *context, const millpond_fsync *fsync);

// The change of one entry of one tree.
typedef struct {
  // The tree.
  const millpond_table *table;
  // A `millpond_row_op`.
  uint32_t op;
  // The entry's key.
  millpond_bytes key;
  // Its new value; not looked at for a delete.
  millpond_bytes value;
} millpond_row_change;

// The change of one row: of its entry in the clustered index, and of those in all others.
typedef struct {
  // The entries, in the order in which they are changed.
  const millpond_row_change *changes;
  // How many there are, at least one.
  size_t count;
  // A `millpond_lock`: how an existing entry is locked that an insert finds.
  uint32_t lock_existing;
  // Not 0: if the row is changed, the counter of the first entry's table becomes at least this,
  // and that is logged before the transaction's commit.
  uint64_t counter;
} millpond_row_changes;

// What an insert found.
typedef struct {
  // The place in the list of changes of the insert that found an entry.
  size_t index;
  // The value of that entry. Memory of the caller.
  millpond_buffer value;
} millpond_conflict;

// Is told that something is done. Any thread may call it.
typedef void (*millpond_done_fn)(void *context);

// How a transaction begins. Fill with zeros first.
typedef struct {
  // A `millpond_isolation`.
  uint32_t isolation;
  // Not 0: changes and locking reads are refused, and only durable rows are shown.
  uint32_t read_only;
  // Not 0, at `MILLPOND_ISOLATION_REPEATABLE_READ`: changes and locking reads use the newest
  // committed row, and never get `MILLPOND_RC_WRITE_CONFLICT`; locking scans lock their gaps.
  uint32_t current_reads;
  // How long a call waits for a lock, milliseconds; 0: not at all.
  uint64_t lock_wait_ms;
  // The name by which `millpond_observe_waits` knows the transaction. 0: it has none.
  uint64_t observed_as;
  // A number by which the caller knows the transaction: `millpond_transactions`,
  // `millpond_locks` and others show it.
  uint64_t tag;
} millpond_txn_options;

// A point of a transaction, for `millpond_savepoint_rollback`. Memory of the caller.
typedef struct {
  // The engine's; not for the caller.
  uint64_t opaque[4];
} millpond_savepoint;

// Is told that a named transaction waits for another (`millpond_observe_waits`). Returns not 0 if
// it will have `blocker` rolled back.
typedef int (*ObserverFn)(void *context, uint64_t waiter, uint64_t blocker);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Frees the memory of a buffer and makes it empty.
void millpond_buffer_free(millpond_buffer *buffer);

// Makes a cursor of a table. `rows` is the table of the rows that its entries name; null: it has
// rows itself.
int millpond_cursor_new(const millpond_table *table,
                        const millpond_table *rows,
                        millpond_cursor **out);

// Frees a cursor. Locks of its rows stay.
void millpond_cursor_free(millpond_cursor *cursor);

// Forgets the cursor's place and the rows that it has copied.
void millpond_cursor_reset(millpond_cursor *cursor);

// Goes to a row and returns it. `MILLPOND_RC_NOT_FOUND`: there is none.
int millpond_cursor_seek(millpond_cursor *cursor,
                         const millpond_txn *txn,
                         const millpond_seek_to *to,
                         millpond_row *row);

// Goes to the next row in key order and returns it. `MILLPOND_RC_NOT_FOUND`: there is none; the
// cursor stays where it is.
int millpond_cursor_next(millpond_cursor *cursor, const millpond_txn *txn, millpond_row *row);

// Goes to the row before in key order and returns it. `MILLPOND_RC_NOT_FOUND`: there is none; the
// cursor stays where it is.
int millpond_cursor_prev(millpond_cursor *cursor, const millpond_txn *txn, millpond_row *row);

// Returns 1 if the transaction has changed rows of one of these tables that others had changed
// after its snapshot, else 0. If it has, the entry of a key in the index `table` of `rows` may
// belong to one row in the snapshot and to another one now, and cursors find both.
int millpond_has_overtaken(const millpond_txn *txn,
                           const millpond_table *table,
                           const millpond_table *rows);

// Tells whether an index entry is to be shown that a plain read has found in `view`, a
// `millpond_view`. `key` is the key of its row in `rows`. `MILLPOND_RC_NOT_FOUND`: it is not.
int millpond_shows(const millpond_txn *txn,
                   const millpond_table *rows,
                   millpond_bytes key,
                   uint32_t view);

// Returns `MILLPOND_ABI` of the library.
uint32_t millpond_abi_version(void);

// Returns the version of the library as text, such as "0.1.0".
const char *millpond_version(void);

// Puts into `text` why the database has stopped after a failed write or sync, and what to do; one
// sentence, or nothing if it goes on. The function of `millpond_set_log` gets the same at once.
// Works after closing too.
int millpond_failure(const millpond_db *db, millpond_buffer *text);

// Opens the database in a directory, or creates it; recovers it if it was not closed.
int millpond_open(const millpond_options *options, millpond_db **out);

// Closes the database: open transactions roll back, the log is synced, all pages are written.
// Later calls return `MILLPOND_RC_CLOSED`. The handle must still be freed.
int millpond_close(const millpond_db *db);

// Frees the handle. Closes the database if it is still open and no transaction uses it.
void millpond_db_free(millpond_db *db);

// Waits until every commit so far is durable.
int millpond_sync(const millpond_db *db);

// Writes every dirty page and moves the checkpoint.
int millpond_checkpoint(const millpond_db *db);

// Sets how many bytes the redo log may hold.
int millpond_set_redo_capacity(const millpond_db *db, uint64_t bytes);

// Sets how long recovery may take, milliseconds. The redo capacity follows from it.
int millpond_set_recovery_target(const millpond_db *db, uint64_t ms);

// Gives the buffer pool another size, bytes, while others use the database. Returns when that is
// done; after an error the size is as before.
int millpond_set_buffer_pool_bytes(const millpond_db *db, uint64_t bytes);

// Sets how much memory the locks of rows and ranges may take, bytes; 0: the default. Locks that
// transactions have stay.
int millpond_set_lock_memory_bytes(const millpond_db *db, uint64_t bytes);

// Switches the doublewrite on (other than 0) or off (0) while others use the database. Without it
// a power cut may tear pages, and they are lost. After an error pages are protected as before, or
// better.
int millpond_set_doublewrite(const millpond_db *db, int on);

// Moves the redo log to another directory, which exists and is empty, while others use the
// database. New files of the log are made there from now on. After an error the log is where it
// was.
int millpond_set_redo_dir(const millpond_db *db, const char *dir);

// Moves the doublewrite to another directory, as `millpond_set_redo_dir` moves the log.
int millpond_set_doublewrite_dir(const millpond_db *db, const char *dir);

// Puts the directory in which files of the redo log are made into `dir`. Puts into `before` the
// one that `millpond_set_redo_dir` has left while files there are still needed, else nothing.
int millpond_redo_dir(const millpond_db *db, millpond_buffer *dir, millpond_buffer *before);

// Puts the directory of the doublewrite into `dir`.
int millpond_doublewrite_dir(const millpond_db *db, millpond_buffer *dir);

// Checks every page and every tree. Returns `MILLPOND_RC_CORRUPT` if something is wrong. Puts the
// report, one line or one for each problem, into `report`, which may be null.
int millpond_check(const millpond_db *db, millpond_buffer *report);

// Makes changes of the set of tables, in their order: all or none, durable when the call returns.
// It waits until no transaction uses the tables, at most `lock_wait_ms`.
//
// `MILLPOND_RC_NO_SUCH_TABLE` and `MILLPOND_RC_TABLE_EXISTS` name the table in the text.
int millpond_change_tables(const millpond_db *db,
                           const millpond_table_change *changes,
                           size_t count,
                           uint64_t lock_wait_ms);

// Returns a handle of a table.
int millpond_table_open(const millpond_db *db, millpond_bytes name, millpond_table **out);

// Frees a handle of a table. The table stays.
void millpond_table_free(millpond_table *table);

// Shows the names of all tables, sorted.
int millpond_table_names(const millpond_db *db, millpond_name_fn show, void *context);

// Shows the names of the tables that begin with `prefix`, sorted. What it costs depends on how
// many these are, not on how many there are of all tables.
int millpond_table_names_with_prefix(const millpond_db *db,
                                     millpond_bytes prefix,
                                     millpond_name_fn show,
                                     void *context);

// Returns the present name of a table.
int millpond_table_name(const millpond_table *table, millpond_buffer *out);

// Returns the metadata of a table.
int millpond_table_metadata(const millpond_table *table, millpond_buffer *out);

// Estimates the sizes of a table. It reads a few dozen pages.
int millpond_table_sizes(const millpond_db *db,
                         const millpond_table *table,
                         millpond_table_stats *out);

// Shows keys of a table in order: those of at most `leaves` leaf pages, which are spread evenly,
// each with the first key of the next page. A table that has no more leaves is shown whole.
int millpond_sample_keys(const millpond_db *db,
                         const millpond_table *table,
                         uint16_t leaves,
                         millpond_key_fn show,
                         void *context);

// Estimates what has keys from `lower` (inclusive; null: the first) to `upper` (exclusive; null:
// after the last). It reads about two pages a level of the tree, and up to eight leaves more,
// which it counts.
int millpond_estimate(const millpond_db *db,
                      const millpond_table *table,
                      millpond_bytes lower,
                      millpond_bytes upper,
                      millpond_range_stats *out);

// Takes values of a table's counter for rows that are about to be inserted. Other callers do not
// get them any more, whatever becomes of the rows. They are not logged: the insert that uses them
// says so in `millpond_row_changes.counter`.
int millpond_counter_take(const millpond_table *table, millpond_counter *counter);

// Locks the counter of a table as `lock`, a `millpond_counter_lock_kind`, says, until the end of
// the statement.
int millpond_counter_lock(const millpond_txn *txn, const millpond_table *table, uint32_t lock);

// As `millpond_counter_take`, after the counter has been locked as by `millpond_counter_lock`.
int millpond_counter_take_locked(const millpond_txn *txn,
                                 const millpond_table *table,
                                 uint32_t lock,
                                 millpond_counter *counter);

// Lets transactions read the table whose snapshots are older than the table. For a table that only
// one session uses, all of whose rows it has written itself.
int millpond_table_allow_older_snapshots(const millpond_table *table);

// Returns the next value of a table's counter: the least that was neither taken nor used.
int millpond_counter_next(const millpond_table *table, uint64_t *next);

// Makes the next value of a table's counter at least `next`, durably. To make it less, replace the
// table by a new one.
int millpond_counter_raise(const millpond_db *db, const millpond_table *table, uint64_t next);

// Sets the function that gets lines for the log of the program; null takes it away. Any thread may
// call it. Without it such lines go to the standard error stream.
void millpond_set_log(millpond_log_fn function, void *context);

// Begins to fill a new table with `metadata`.
int millpond_load_begin(const millpond_db *db,
                        millpond_bytes name,
                        millpond_bytes metadata,
                        millpond_load **out);

// Adds a row. Its key must be greater than that of the row before.
int millpond_load_row(millpond_load *load, millpond_bytes key, millpond_bytes value);

// Makes the table: it is durable and visible when the call returns. The handle must still be
// freed.
int millpond_load_commit(millpond_load *load);

// Frees the handle. A load that was not committed leaves nothing.
void millpond_load_free(millpond_load *load);

// Shows the transactions that have locked or changed something, by their numbers. It is no picture
// of one moment. Works after a failure and after closing too, as do the calls below.
int millpond_transactions(const millpond_db *db, millpond_txn_info_fn show, void *context);

// Shows locks and requests that wait, at most `most`. It is no picture of one moment. Of the rows
// that a transaction has changed it shows those for which another one has waited.
int millpond_locks(const millpond_db *db, size_t most, millpond_lock_fn show, void *context);

// Shows the requests that wait, at most `most`, once for each transaction for which they wait.
int millpond_lock_waits(const millpond_db *db, size_t most, millpond_wait_fn show, void *context);

// Shows the members of the last deadlocks whose numbers are greater than `after`, deadlock by
// deadlock. The engine remembers sixteen.
int millpond_deadlocks(const millpond_db *db,
                       uint64_t after,
                       millpond_deadlock_fn show,
                       void *context);

// Shows every figure. Works after closing too.
int millpond_metrics(const millpond_db *db, millpond_metric_fn show, void *context);

// Puts all figures as JSON into `out`.
int millpond_metrics_json(const millpond_db *db, millpond_buffer *out);

// Puts all figures as text for people into `out`, a line each.
int millpond_metrics_text(const millpond_db *db, millpond_buffer *out);

// Shows the syncs since the database was opened, by file and reason; pairs that never occurred are
// left out. Works after closing too.
int millpond_fsyncs(const millpond_db *db, millpond_fsync_fn show, void *context);

// Returns a sentence about the last failed call of this thread. It stays valid until the next
// failure in this thread.
const char *millpond_error_text(void);

// Returns the name of a code, such as "KEY_EXISTS", or "UNKNOWN".
const char *millpond_rc_name(int rc);

// Reads the row of a key into `value`. `lock` is a `millpond_lock`, `wait` a `millpond_wait`. Sets
// `newly_locked`, which may be null, to 1 if the transaction did not have the lock before.
//
// `MILLPOND_RC_NOT_FOUND`: there is no row; with a lock its key is locked all the same.
// `MILLPOND_RC_SKIPPED`: another transaction has it, and `wait` says to skip it.
int millpond_get(const millpond_txn *txn,
                 const millpond_table *table,
                 millpond_bytes key,
                 uint32_t lock,
                 uint32_t wait,
                 millpond_buffer *value,
                 uint32_t *newly_locked);

// Changes a row: all its entries or none of them.
//
// `MILLPOND_RC_KEY_EXISTS`: an insert found an entry. Nothing of this row was changed, and the
// transaction goes on. `conflict`, which may be null, gets the place of the insert and the value
// of the entry, which is locked as `lock_existing` says. After another error nothing of the row
// was changed either; the code says whether the transaction goes on.
int millpond_change_row(const millpond_txn *txn,
                        const millpond_row_changes *row,
                        millpond_conflict *conflict);

// Returns how many bytes of redo the changes of the calling thread have taken since it began: the
// difference around a call is what that call has written.
uint64_t millpond_redo_bytes_of_thread(void);

// Releases the lock of a row that a locking read of this transaction has just newly locked, and
// that it did not change. `MILLPOND_RC_NOT_FOUND`: the lock stays, which does no harm.
int millpond_unlock_row(const millpond_txn *txn, const millpond_table *table, millpond_bytes key);

// Prepares the transaction for two-phase commit. `millpond_commit_prepared` or
// `millpond_rollback_prepared` with `xid` ends it. The session has no transaction any more.
int millpond_txn_prepare(const millpond_txn *txn, millpond_bytes xid);

// Prepares the transaction for two-phase commit, as durably as `durability`, a
// `millpond_durability`, says. The session keeps it: `millpond_txn_commit` or
// `millpond_txn_rollback` ends it, perhaps after `millpond_txn_commit_ordered`.
// `millpond_txn_free` leaves it prepared. After an error the session has no transaction.
int millpond_txn_prepare_held(const millpond_txn *txn,
                              millpond_bytes xid,
                              uint32_t durability,
                              uint64_t bounded_ms,
                              uint64_t bounded_bytes);

// Prepares the transaction as `millpond_txn_prepare_held` does, for a coordinator whose record of
// the commit holds all its changes: `durability` only says how soon it is durable here. The call
// waits until all commits are durable that the transaction may have seen and that no coordinator
// has on record. The coordinator commits it by `millpond_txn_commit_ordered_at`, in the order of
// its records. After a crash it decides what is prepared, and then repeats its records after
// `millpond_bookmark` but for those decided just now, each by `millpond_txn_commit_at`.
int millpond_txn_prepare_repeatable(const millpond_txn *txn,
                                    millpond_bytes xid,
                                    uint32_t durability,
                                    uint64_t bounded_ms,
                                    uint64_t bounded_bytes);

// Commits a transaction that the session has prepared, and whose commit the coordinator has
// written down durably. Others see it from here on. Waits for nothing and syncs nothing: after a
// crash the transaction may be prepared again, and the coordinator commits it again.
// `millpond_sync_then` says when it need not any more. `millpond_txn_commit` is still to be
// called. Another thread may call this while the session's own thread waits for it. Fails only if
// the database is closed or has stopped; the transaction then stays prepared.
int millpond_txn_commit_ordered(const millpond_txn *txn);

// Commits as `millpond_txn_commit_ordered` does, and makes `mark`, up to 32 bytes, the database's
// bookmark.
int millpond_txn_commit_ordered_at(const millpond_txn *txn, millpond_bytes mark);

// Commits the running transaction, and makes `mark`, up to 64 KiB, the database's bookmark by the
// same record of the log.
int millpond_txn_commit_at(const millpond_txn *txn,
                           millpond_bytes mark,
                           uint32_t durability,
                           uint64_t bounded_ms,
                           uint64_t bounded_bytes);

// Shows the bookmark: what was kept with the last commit of those that have one. Shows nothing if
// there is none.
int millpond_bookmark(const millpond_db *db, millpond_name_fn show, void *context);

// Sets the bookmark apart from any commit; an empty one removes it. It is as durable as
// `durability`, a `millpond_durability`, says.
int millpond_set_bookmark(const millpond_db *db,
                          millpond_bytes mark,
                          uint32_t durability,
                          uint64_t bounded_ms,
                          uint64_t bounded_bytes);

// Shows the xid of each prepared transaction.
int millpond_prepared(const millpond_db *db, millpond_name_fn show, void *context);

// Commits the prepared transaction of this xid, durably.
int millpond_commit_prepared(const millpond_db *db, millpond_bytes xid);

// Rolls the prepared transaction of this xid back, durably.
int millpond_rollback_prepared(const millpond_db *db, millpond_bytes xid);

// Calls `done` once when every commit so far is durable: at once, or later by a thread of the
// database, which it must not keep waiting. It is never called if the database stops before.
int millpond_sync_then(const millpond_db *db, millpond_done_fn done, void *context);

// Makes a session's place for transactions.
int millpond_txn_new(const millpond_db *db, millpond_txn **out);

// Rolls back what runs, and frees the handle. A transaction that the session has prepared stays
// prepared: `millpond_commit_prepared` or `millpond_rollback_prepared` ends it.
void millpond_txn_free(millpond_txn *txn);

// Begins a transaction. The session must have none.
int millpond_txn_begin(const millpond_txn *txn, const millpond_txn_options *options);

// Returns 1 if the session has a transaction, else 0. A transaction that an error has rolled back
// counts until `millpond_txn_rollback`.
int millpond_txn_is_active(const millpond_txn *txn);

// Draws the transaction's snapshot now, if all its plain reads see one and it is not drawn yet.
int millpond_txn_snapshot(const millpond_txn *txn);

// Sets how long the transaction's calls wait for a lock from now on, milliseconds.
int millpond_txn_set_lock_wait(const millpond_txn *txn, uint64_t lock_wait_ms);

// Commits. When the call returns, the commit is as durable as `durability`, a
// `millpond_durability`, says. After an error other than a null pointer or no transaction, the
// session has no transaction any more.
int millpond_txn_commit(const millpond_txn *txn,
                        uint32_t durability,
                        uint64_t bounded_ms,
                        uint64_t bounded_bytes);

// Rolls the transaction back. Without one it does nothing. The end of a transaction that the
// session has prepared is not durable yet (`millpond_sync`): a crash may show it prepared again.
int millpond_txn_rollback(const millpond_txn *txn);

// Makes the present wait and all later calls of the session fail with `MILLPOND_RC_CANCELLED`,
// until `millpond_txn_clear_cancel`. Commit and rollback do not fail. Any thread may call it.
void millpond_txn_cancel(const millpond_txn *txn);

// Ends the effect of `millpond_txn_cancel`.
void millpond_txn_clear_cancel(const millpond_txn *txn);

// Returns 1 if the session's transaction waits for a lock of another transaction now, else 0. Any
// thread may call it.
int millpond_txn_is_waiting(const millpond_txn *txn);

// Begins a statement: the point to which `millpond_statement_rollback` returns, and at
// `MILLPOND_ISOLATION_READ_COMMITTED` the reads from here on have one snapshot.
int millpond_statement_begin(const millpond_txn *txn);

// Ends a statement and keeps what it did.
int millpond_statement_end(const millpond_txn *txn);

// Undoes what the statement did, and ends it. If that is not possible, the whole transaction has
// been rolled back, and the code says why. `MILLPOND_RC_OK` if an earlier error had rolled it
// back.
int millpond_statement_rollback(const millpond_txn *txn);

// Marks this point of the transaction.
int millpond_savepoint_set(const millpond_txn *txn, millpond_savepoint *out);

// Returns 1 if the transaction has locked or changed anything so far, else 0. Without a
// transaction it is 0. If it is 0, a rollback to a savepoint also ends the use of tables: they can
// be dropped then.
int millpond_txn_has_locks(const millpond_txn *txn);

// Ends the transaction's use of tables, so that they can be dropped and renamed, if it has locked
// and changed nothing. Later reads use tables again. Without a transaction it does nothing.
void millpond_txn_release_tables(const millpond_txn *txn);

// Undoes what the transaction did since the savepoint. The savepoint can be used again, later ones
// cannot.
int millpond_savepoint_rollback(const millpond_txn *txn, const millpond_savepoint *to);

// Calls `told` from now on when a transaction that has a name (`observed_as`) begins to wait for a
// lock of another that has one. Any thread of the database calls it, several at once, while the
// lock table is locked: it must not wait, nor call the database. During the call neither
// transaction ends, nor is its session freed. `context` must stay valid until the database is
// freed. `MILLPOND_RC_MISUSE` at the second call.
int millpond_observe_waits(const millpond_db *db, ObserverFn told, void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLPOND_H */
