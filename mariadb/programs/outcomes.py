"""Writes how each test ended, a line of JSON a test, to the file that OUTCOMES names.

As a plugin of pytest (`-p outcomes`) it does so for SQLAlchemy, and as `settings.TEST_RUNNER` for
Django.

Tests of SQLAlchemy leave tables behind when a statement that should drop them fails. So each class
of tests begins with empty databases, or one difference would bring forth others.
"""

import json
import os

WORST_LAST = ["skipped", "passed", "failed"]


class Writer:
    """Keeps the worst outcome of each test, and writes it when the test has ended."""

    def __init__(self):
        self.file = open(os.environ["OUTCOMES"], "a", encoding="utf-8")
        self.parts = {}

    def add(self, test, outcome, text=""):
        parts = self.parts.setdefault(test, ["skipped", []])
        parts[0] = max(parts[0], outcome, key=WORST_LAST.index)
        if text:
            parts[1].append(text)

    def end(self, test):
        outcome, texts = self.parts.pop(test, ("skipped", []))
        line = {"test": test, "outcome": outcome, "text": "\n".join(texts)}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def said(kind, value):
    return f"{kind.__name__}: {value}".replace(os.environ.get("RUN_DIR", "RUN_DIR"), "RUN_DIR")


try:
    import pytest
except ImportError:
    pytest = None

if pytest and os.environ.get("OUTCOMES_OF") == "pytest":
    import pymysql

    writer = Writer()

    def drop_all():
        """Drops all tables. One that a connection still uses stays."""
        connection = pymysql.connect(user="root", unix_socket=os.environ["SOCKET"])
        with connection, connection.cursor() as cursor:
            cursor.execute("SET foreign_key_checks = 0, lock_wait_timeout = 1")
            cursor.execute(
                "SELECT table_type, table_schema, table_name FROM information_schema.tables"
                " WHERE table_schema LIKE 'test%'"
            )
            for kind, *name in cursor.fetchall():
                word = {"VIEW": "VIEW", "SEQUENCE": "SEQUENCE"}.get(kind, "TABLE")
                try:
                    cursor.execute("DROP {} `{}`.`{}`".format(word, *name))
                except pymysql.MySQLError:
                    pass

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_teardown(item, nextitem):
        yield
        if nextitem is None or nextitem.parent is not item.parent:
            drop_all()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item, call):
        report = (yield).get_result()
        text = ""
        if report.failed and call.excinfo is not None:
            text = said(call.excinfo.type, call.excinfo.value)
        if report.failed or report.skipped or report.when == "call":
            writer.add(item.nodeid, report.outcome, text)

    def pytest_runtest_logfinish(nodeid):
        writer.end(nodeid)

    def pytest_collectreport(report):
        if report.failed:
            writer.add(report.nodeid, "failed", str(report.longrepr))
            writer.end(report.nodeid)


if os.environ.get("OUTCOMES_OF") == "django":
    from unittest import TextTestResult
    from django.test.runner import DiscoverRunner

    class Result(TextTestResult):
        """Writes each outcome. A class or a module that cannot be set up counts as a test."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.writer = Writer()

        def stopTest(self, test):
            super().stopTest(test)
            self.writer.end(test.id())

        def failed(self, test, error):
            name, what = test.id(), said(error[0], error[1])
            if hasattr(test, "_testMethodName"):
                self.writer.add(name, "failed", what)
                return
            # Such as `setUpClass (app.tests.SomeTests)`.
            step, _, where = name.rstrip(")").partition(" (")
            self.writer.add(f"{where}.{step}", "failed", what)
            self.writer.end(f"{where}.{step}")

        def addSuccess(self, test):
            super().addSuccess(test)
            self.writer.add(test.id(), "passed")

        def addFailure(self, test, error):
            super().addFailure(test, error)
            self.failed(test, error)

        def addError(self, test, error):
            super().addError(test, error)
            self.failed(test, error)

        def addSubTest(self, test, subtest, error):
            super().addSubTest(test, subtest, error)
            if error is not None:
                text = f"{subtest._subDescription()}: {said(error[0], error[1])}"
                self.writer.add(test.id(), "failed", text)

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            self.writer.add(test.id(), "failed", "unexpected success")

    class Runner(DiscoverRunner):
        """The runner with that result."""

        def get_resultclass(self):
            return Result
