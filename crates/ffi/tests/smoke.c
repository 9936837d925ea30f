/* Uses every part of the C interface once, from C. Prints nothing and returns 0 if all is right. */
#include "../include/millpond.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void check_rc(int line, int got, int wanted) {
  if (got != wanted) {
    fprintf(stderr, "smoke.c:%d: %s instead of %s: %s\n", line, millpond_rc_name(got), millpond_rc_name(wanted),
            millpond_error_text());
    failures++;
  }
}
#define RC(call, wanted) check_rc(__LINE__, (call), MILLPOND_RC_##wanted)
#define OK(call) RC(call, OK)
#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      fprintf(stderr, "smoke.c:%d: not true: %s\n", __LINE__, #condition); \
      failures++;                                                       \
    }                                                                   \
  } while (0)

static millpond_bytes text(const char *s) {
  millpond_bytes bytes = {(const uint8_t *)s, strlen(s)};
  return bytes;
}

static int is(millpond_bytes bytes, const char *s) {
  return bytes.len == strlen(s) && memcmp(bytes.ptr, s, bytes.len) == 0;
}

static int holds(const millpond_buffer *buffer, const char *s) {
  return buffer->len == strlen(s) && memcmp(buffer->ptr, s, buffer->len) == 0;
}

static int count_name(void *context, millpond_bytes name) {
  (void)name;
  ++*(int *)context;
  return 0;
}

static int find_commits(void *context, millpond_bytes name, double value, uint32_t is_counter, millpond_bytes help) {
  if (is(name, "commits") && is_counter && help.len > 0)
    *(double *)context = value;
  return 0;
}

/* A figure that is looked for, and its value. */
typedef struct {
  const char *name;
  double value;
} wanted_figure;

static int find_figure(void *context, millpond_bytes name, double value, uint32_t is_counter, millpond_bytes help) {
  wanted_figure *wanted = context;
  (void)help;
  if (is(name, wanted->name) && !is_counter)
    wanted->value = value;
  return 0;
}

static double figure(const millpond_db *db, const char *name) {
  wanted_figure wanted = {name, -1};
  OK(millpond_metrics(db, find_figure, &wanted));
  return wanted.value;
}

static double capacity(const millpond_db *db) { return figure(db, "redo_capacity_bytes"); }

static int find_lock(void *context, const millpond_lock_info *lock) {
  if (lock->tag == 7 && is(lock->table, "t") && lock->place == MILLPOND_LOCK_PLACE_ROW && lock->exclusive &&
      !lock->waits && is(lock->key, "none"))
    ++*(int *)context;
  return 0;
}

static int find_txn(void *context, const millpond_txn_info *txn) {
  if (txn->tag == 7 && txn->transaction > 0 && txn->locks == 1 && txn->xid.ptr == NULL && txn->waits_for == NULL)
    ++*(int *)context;
  return 0;
}

static int count_wait(void *context, const millpond_lock_info *request, uint64_t blocker, uint64_t tag) {
  (void)request, (void)blocker, (void)tag;
  ++*(int *)context;
  return 0;
}

static int count_member(void *context, const millpond_deadlock_member *member) {
  (void)member;
  ++*(int *)context;
  return 0;
}

static int count_syncs(void *context, const millpond_fsync *fsync) {
  if (fsync->reason.len > 0 && fsync->count > 0 && fsync->p50_us <= fsync->max_us)
    *(uint64_t *)context += fsync->count;
  return 0;
}

/* What an administrator looks at. */
static void locks(millpond_db *db, millpond_txn *txn, millpond_table **t, const millpond_txn_options *options) {
  millpond_txn_options tagged = *options;
  millpond_buffer value = {0};
  int found = 0, waits = 0, members = 0;
  uint64_t syncs = 0;
  tagged.tag = 7;
  OK(millpond_txn_begin(txn, &tagged));
  RC(millpond_get(txn, t[0], text("none"), MILLPOND_LOCK_EXCLUSIVE, MILLPOND_WAIT_WAIT, &value, NULL), NOT_FOUND);
  OK(millpond_locks(db, 100, find_lock, &found));
  OK(millpond_transactions(db, find_txn, &found));
  CHECK(found == 2);
  OK(millpond_lock_waits(db, 100, count_wait, &waits));
  OK(millpond_deadlocks(db, 0, count_member, &members));
  CHECK(waits == 0 && members == 0);
  OK(millpond_fsyncs(db, count_syncs, &syncs));
  CHECK(syncs > 0);
  RC(millpond_locks(db, 100, NULL, NULL), MISUSE);
  OK(millpond_txn_rollback(txn));
  millpond_buffer_free(&value);
}

static void *cancel_later(void *txn) {
  millpond_txn_cancel((millpond_txn *)txn);
  return NULL;
}

/* One row: an entry of the clustered table, and one of the unique index. */
static int insert(millpond_txn *txn, millpond_table **t, const char *id, const char *mail, millpond_conflict *found) {
  millpond_row_change entries[2] = {{t[0], MILLPOND_ROW_OP_INSERT, text(id), text(mail)},
                                    {t[1], MILLPOND_ROW_OP_INSERT, text(mail), text(id)}};
  millpond_row_changes row = {entries, 2, MILLPOND_LOCK_EXCLUSIVE, 0};
  return millpond_change_row(txn, &row, found);
}

static void rows(millpond_txn *txn, millpond_table **t) {
  millpond_conflict found = {0};
  millpond_buffer value = {0};
  OK(insert(txn, t, "1", "ada", &found));
  OK(insert(txn, t, "2", "bob", &found));
  RC(insert(txn, t, "3", "bob", &found), KEY_EXISTS);
  CHECK(found.index == 1 && holds(&found.value, "2"));
  RC(millpond_get(txn, t[0], text("3"), MILLPOND_LOCK_NONE, 0, &value, NULL), NOT_FOUND);
  OK(millpond_get(txn, t[0], text("2"), MILLPOND_LOCK_EXCLUSIVE, MILLPOND_WAIT_NO_WAIT, &value, NULL));
  CHECK(holds(&value, "bob"));
  uint32_t newly_locked = 9;
  OK(millpond_get(txn, t[0], text("1"), MILLPOND_LOCK_SHARED, MILLPOND_WAIT_WAIT, &value, &newly_locked));
  CHECK(newly_locked == 0);
  RC(millpond_get(txn, t[0], text("none"), MILLPOND_LOCK_SHARED, MILLPOND_WAIT_WAIT, &value, &newly_locked), NOT_FOUND);
  CHECK(newly_locked == 1);
  OK(millpond_unlock_row(txn, t[0], text("none")));
  OK(millpond_statement_begin(txn));
  OK(insert(txn, t, "4", "cy", &found));
  OK(millpond_statement_rollback(txn));
  millpond_savepoint point;
  OK(millpond_savepoint_set(txn, &point));
  OK(insert(txn, t, "5", "di", &found));
  OK(millpond_savepoint_rollback(txn, &point));
  millpond_row_change update = {t[0], MILLPOND_ROW_OP_UPDATE, text("1"), text("eve")};
  millpond_row_changes row = {&update, 1, MILLPOND_LOCK_NONE, 0};
  OK(millpond_change_row(txn, &row, NULL));
  millpond_buffer_free(&found.value);
  millpond_buffer_free(&value);
  CHECK(value.ptr == NULL);
}

static void cursors(millpond_txn *txn, millpond_table **t) {
  millpond_cursor *cursor;
  millpond_row row;
  millpond_seek_to to;
  memset(&to, 0, sizeof to);
  OK(millpond_cursor_new(t[0], NULL, &cursor));
  to.seek = MILLPOND_SEEK_AFTER;
  to.key = text("1");
  OK(millpond_cursor_seek(cursor, txn, &to, &row));
  CHECK(is(row.key, "2") && is(row.value, "bob"));
  RC(millpond_cursor_next(cursor, txn, &row), NOT_FOUND);
  OK(millpond_cursor_prev(cursor, txn, &row));
  CHECK(is(row.key, "1") && is(row.value, "eve"));
  to.seek = MILLPOND_SEEK_PREFIX_OR_BEFORE;
  to.lock = MILLPOND_LOCK_SHARED;
  OK(millpond_cursor_seek(cursor, txn, &to, &row));
  CHECK(is(row.key, "1"));
  to.prefix = text("9");
  to.seek = MILLPOND_SEEK_FIRST;
  RC(millpond_cursor_seek(cursor, txn, &to, &row), NOT_FOUND);
  to.seek = 99;
  RC(millpond_cursor_seek(cursor, txn, &to, &row), MISUSE);
  millpond_cursor_reset(cursor);
  millpond_cursor_free(cursor);
}

/* A cursor shows what another transaction has changed as it was last committed. */
static void peeks(millpond_db *db, millpond_txn *txn, millpond_table **t) {
  millpond_txn_options options = {MILLPOND_ISOLATION_READ_COMMITTED, 0, 0, 0};
  millpond_txn *holder;
  millpond_cursor *cursor;
  millpond_row row;
  millpond_seek_to to;
  millpond_row_change update = {t[0], MILLPOND_ROW_OP_UPDATE, text("2"), text("zoe")};
  millpond_row_changes changes = {&update, 1, MILLPOND_LOCK_NONE, 0};
  memset(&to, 0, sizeof to);
  to.seek = MILLPOND_SEEK_AT_OR_AFTER;
  to.key = text("1");
  to.lock = MILLPOND_LOCK_EXCLUSIVE;
  to.wait = MILLPOND_WAIT_PEEK;
  OK(millpond_txn_new(db, &holder));
  OK(millpond_txn_begin(holder, &options));
  CHECK(!millpond_txn_has_locks(holder));
  OK(millpond_change_row(holder, &changes, NULL));
  CHECK(millpond_txn_has_locks(holder));
  OK(millpond_txn_begin(txn, &options));
  OK(millpond_cursor_new(t[0], NULL, &cursor));
  OK(millpond_cursor_seek(cursor, txn, &to, &row));
  CHECK(is(row.key, "1") && row.newly_locked && !row.peeked);
  OK(millpond_cursor_next(cursor, txn, &row));
  CHECK(is(row.key, "2") && is(row.value, "bob") && !row.newly_locked && row.peeked);
  to.wait = MILLPOND_WAIT_WAIT;
  to.key = text("2");
  RC(millpond_cursor_seek(cursor, txn, &to, &row), LOCK_TIMEOUT);
  millpond_cursor_free(cursor);
  OK(millpond_txn_rollback(txn));
  millpond_txn_free(holder);
}

static void waits(millpond_db *db, millpond_txn *txn, millpond_table **t, const millpond_txn_options *options) {
  millpond_txn *holder;
  millpond_conflict found = {0};
  pthread_t thread;
  OK(millpond_txn_new(db, &holder));
  OK(millpond_txn_begin(holder, options));
  OK(insert(holder, t, "7", "gus", &found));
  OK(millpond_txn_begin(txn, options));
  CHECK(pthread_create(&thread, NULL, cancel_later, txn) == 0);
  RC(insert(txn, t, "7", "hal", &found), CANCELLED);
  pthread_join(thread, NULL);
  RC(insert(txn, t, "8", "hal", &found), CANCELLED);
  millpond_txn_clear_cancel(txn);
  OK(insert(txn, t, "8", "hal", &found));
  OK(millpond_txn_rollback(txn));
  CHECK(!millpond_txn_is_active(txn));
  millpond_txn_free(holder);
  millpond_buffer_free(&found.value);
}

static void count_key(void *context, millpond_bytes key, int follows) {
  size_t *counts = context;
  CHECK(key.len > 0);
  counts[follows ? 1 : 0]++;
}

static void counters(millpond_db *db, millpond_txn *txn, millpond_table **t, const millpond_txn_options *options) {
  size_t keys[2] = {0, 0};
  millpond_counter counter = {1, 1, 3, 100, 0, 0};
  uint64_t next = 0;
  millpond_table_stats sizes;
  millpond_range_stats range;
  millpond_bytes none = {NULL, 0};
  OK(millpond_counter_take(t[0], &counter));
  CHECK(counter.first == 1 && counter.granted == 3);
  OK(millpond_counter_raise(db, t[0], 50));
  OK(millpond_counter_next(t[0], &next));
  CHECK(next == 50);
  OK(millpond_txn_begin(txn, options));
  OK(millpond_statement_begin(txn));
  OK(millpond_counter_lock(txn, t[0], MILLPOND_COUNTER_LOCK_KIND_IF_LOCKED));
  CHECK(!millpond_txn_has_locks(txn));
  counter.count = 2;
  counter.max = 60;
  OK(millpond_counter_take_locked(txn, t[0], MILLPOND_COUNTER_LOCK_KIND_ALWAYS, &counter));
  CHECK(counter.first == 50 && counter.granted == 2 && millpond_txn_has_locks(txn));
  OK(millpond_statement_end(txn));
  OK(millpond_txn_rollback(txn));
  OK(millpond_estimate(db, t[0], none, none, &range));
  CHECK(range.rows >= 2 && range.leaves == 1 && range.exact == 1);
  OK(millpond_table_sizes(db, t[0], &sizes));
  CHECK(sizes.rows >= 2 && sizes.pages == 1 && sizes.page_bytes == 16384);
  CHECK(sizes.value_pages == 0);
  OK(millpond_sample_keys(db, t[0], 8, count_key, keys));
  CHECK(keys[0] == 1 && keys[0] + keys[1] == sizes.rows);
}

/* A table that was made after the snapshot. */
static void older_snapshot(millpond_db *db, millpond_txn *txn, const millpond_txn_options *options) {
  millpond_table_change create = {MILLPOND_TABLE_OP_CREATE, text("young"), {0}, {0}};
  millpond_table_change drop = {MILLPOND_TABLE_OP_DROP, text("young"), {0}, {0}};
  millpond_table *young;
  millpond_buffer value = {0};
  OK(millpond_txn_begin(txn, options));
  OK(millpond_txn_snapshot(txn));
  OK(millpond_change_tables(db, &create, 1, 1000));
  OK(millpond_table_open(db, text("young"), &young));
  RC(millpond_get(txn, young, text("1"), MILLPOND_LOCK_NONE, 0, &value, NULL), TABLE_CHANGED);
  OK(millpond_table_allow_older_snapshots(young));
  RC(millpond_get(txn, young, text("1"), MILLPOND_LOCK_NONE, 0, &value, NULL), NOT_FOUND);
  RC(millpond_change_tables(db, &drop, 1, 0), LOCK_TIMEOUT);
  millpond_txn_release_tables(txn);
  OK(millpond_change_tables(db, &drop, 1, 1000));
  OK(millpond_txn_rollback(txn));
  millpond_table_free(young);
}

static void tables(millpond_db *db) {
  millpond_table_change changes[3] = {{MILLPOND_TABLE_OP_RENAME, text("t"), text("u"), {0}},
                                      {MILLPOND_TABLE_OP_REPLACE, text("t by mail"), {0}, text("m2")},
                                      {MILLPOND_TABLE_OP_DROP, text("none"), {0}, {0}}};
  int names = 0;
  RC(millpond_change_tables(db, changes, 3, 1000), NO_SUCH_TABLE);
  OK(millpond_change_tables(db, changes, 2, 1000));
  OK(millpond_table_names(db, count_name, &names));
  CHECK(names == 2);
  names = 0;
  OK(millpond_table_names_with_prefix(db, text("u b"), count_name, &names));
  CHECK(names == 0);
  OK(millpond_table_names_with_prefix(db, text("t by"), count_name, &names));
  CHECK(names == 1);
  OK(millpond_table_names_with_prefix(db, (millpond_bytes){0}, count_name, &names));
  CHECK(names == 3);
  RC(millpond_table_names_with_prefix(db, text("t"), NULL, NULL), MISUSE);
  millpond_load *load;
  OK(millpond_load_begin(db, text("loaded"), text("m3"), &load));
  OK(millpond_load_row(load, text("a"), text("1")));
  RC(millpond_load_row(load, text("a"), text("2")), MISUSE);
  RC(millpond_load_commit(load), ABORTED);
  millpond_load_free(load);
}

/* A process made by fork gets one code from each call, and may free its handles. The transaction has changed rows. */
static void forked(millpond_db *db, millpond_table *table, millpond_txn *txn, const millpond_txn_options *options) {
  millpond_buffer buffer = {0};
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    failures = 0;
    alarm(120);
    RC(millpond_sync(db), FORKED);
    RC(millpond_checkpoint(db), FORKED);
    RC(millpond_get(txn, table, text("2"), 0, 0, &buffer, NULL), FORKED);
    RC(millpond_txn_commit(txn, MILLPOND_DURABILITY_SYNC, 0, 0), FORKED);
    RC(millpond_txn_begin(txn, options), FORKED);
    CHECK(strstr(millpond_error_text(), "fork") != NULL);
    millpond_txn_cancel(txn);
    millpond_txn_free(txn);
    millpond_table_free(table);
    RC(millpond_close(db), FORKED);
    millpond_db_free(db);
    _exit(failures != 0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  OK(millpond_get(txn, table, text("2"), 0, 0, &buffer, NULL));
  millpond_buffer_free(&buffer);
}

static int note_mark(void *context, millpond_bytes mark) {
  snprintf(context, 33, "%.*s", (int)mark.len, (const char *)mark.ptr);
  return 0;
}

static int has_mark(millpond_db *db, const char *wanted) {
  char mark[33] = "";
  OK(millpond_bookmark(db, note_mark, mark));
  return strcmp(mark, wanted) == 0;
}

/* Two-phase commit of transactions that a coordinator's own log holds, and where it stands. */
static void bookmarks(millpond_db *db, millpond_txn *txn, millpond_table *table, const millpond_txn_options *options) {
  millpond_buffer row = {0};
  millpond_row_change update = {table, MILLPOND_ROW_OP_UPDATE, text("1"), text("ida")};
  millpond_row_changes changes = {&update, 1, MILLPOND_LOCK_NONE, 0};
  CHECK(has_mark(db, ""));
  OK(millpond_txn_begin(txn, options));
  OK(millpond_get(txn, table, text("1"), MILLPOND_LOCK_EXCLUSIVE, MILLPOND_WAIT_WAIT, &row, NULL));
  OK(millpond_change_row(txn, &changes, NULL));
  OK(millpond_txn_prepare_repeatable(txn, text("x"), MILLPOND_DURABILITY_BOUNDED, 100, 1 << 20));
  RC(millpond_txn_commit_ordered_at(txn, text("longer than thirty-two bytes: 33.")), MISUSE);
  OK(millpond_txn_commit_ordered_at(txn, text("first")));
  CHECK(has_mark(db, "first"));
  OK(millpond_txn_commit(txn, MILLPOND_DURABILITY_NONE, 0, 0));
  OK(millpond_txn_begin(txn, options));
  OK(millpond_change_row(txn, &changes, NULL));
  OK(millpond_txn_commit_at(txn, text("second"), MILLPOND_DURABILITY_SYNC, 0, 0));
  CHECK(has_mark(db, "second"));
  RC(millpond_txn_commit_at(txn, text("third"), MILLPOND_DURABILITY_SYNC, 0, 0), MISUSE);
  OK(millpond_set_bookmark(db, text(""), MILLPOND_DURABILITY_SYNC, 0, 0));
  millpond_buffer_free(&row);
  CHECK(has_mark(db, ""));
}

int main(void) {
  millpond_options options;
  millpond_txn_options txn_options = {MILLPOND_ISOLATION_REPEATABLE_READ, 0, 0, 5000};
  millpond_db *db;
  millpond_table *t[2];
  millpond_txn *txn;
  millpond_buffer buffer = {0};
  double commits = -1;
  memset(&options, 0, sizeof options);
  options.page_bytes = 16384;
  /* The recovery target, which the server always gives, once hid the capacity. */
  options.redo_capacity_bytes = 32 << 20;
  options.recovery_target_ms = 10000;
  CHECK(millpond_abi_version() == MILLPOND_ABI);
  OK(millpond_open(&options, &db));
  CHECK(capacity(db) == 32 << 20);
  OK(millpond_set_redo_capacity(db, 48 << 20));
  CHECK(capacity(db) == 48 << 20);
  OK(millpond_set_doublewrite(db, 0));
  CHECK(figure(db, "doublewrite_off") == 1);
  OK(millpond_set_doublewrite(db, 1));
  CHECK(figure(db, "doublewrite_off") == 0);
  RC(millpond_set_redo_dir(db, "/tmp"), MISUSE);
  RC(millpond_set_doublewrite_dir(db, NULL), MISUSE);
  RC(millpond_set_recovery_target(db, 0), MISUSE);
  OK(millpond_set_recovery_target(db, 5000));
  millpond_table_change create[2] = {{MILLPOND_TABLE_OP_CREATE, text("t"), {0}, text("m0")},
                                     {MILLPOND_TABLE_OP_CREATE, text("t by mail"), {0}, text("m1")}};
  OK(millpond_change_tables(db, create, 2, 1000));
  RC(millpond_change_tables(db, create, 2, 1000), TABLE_EXISTS);
  OK(millpond_table_open(db, text("t"), &t[0]));
  OK(millpond_table_open(db, text("t by mail"), &t[1]));
  RC(millpond_table_open(db, text("none"), &t[1]), NO_SUCH_TABLE);
  OK(millpond_table_metadata(t[1], &buffer));
  CHECK(holds(&buffer, "m1"));
  OK(millpond_txn_new(db, &txn));
  RC(millpond_txn_commit(txn, MILLPOND_DURABILITY_SYNC, 0, 0), MISUSE);
  OK(millpond_txn_begin(txn, &txn_options));
  rows(txn, t);
  forked(db, t[0], txn, &txn_options);
  cursors(txn, t);
  OK(millpond_txn_commit(txn, MILLPOND_DURABILITY_NONE, 0, 0));
  OK(millpond_sync(db));
  peeks(db, txn, t);
  waits(db, txn, t, &txn_options);
  counters(db, txn, t, &txn_options);
  older_snapshot(db, txn, &txn_options);
  bookmarks(db, txn, t[0], &txn_options);
  locks(db, txn, t, &txn_options);
  tables(db);
  OK(millpond_table_name(t[0], &buffer));
  CHECK(holds(&buffer, "u"));
  OK(millpond_check(db, &buffer));
  OK(millpond_metrics(db, find_commits, &commits));
  CHECK(commits >= 1);
  OK(millpond_metrics_text(db, &buffer));
  CHECK(buffer.len > 1000);
  RC(millpond_get(txn, NULL, text("k"), 0, 0, &buffer, NULL), MISUSE);
  millpond_txn_free(txn);
  millpond_table_free(t[0]);
  millpond_table_free(t[1]);
  millpond_buffer_free(&buffer);
  OK(millpond_close(db));
  RC(millpond_sync(db), CLOSED);
  millpond_db_free(db);
  return failures != 0;
}
