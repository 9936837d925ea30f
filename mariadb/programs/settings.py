"""Django's settings: its own tests on the server whose socket SOCKET names."""

import os

import pymysql

pymysql.install_as_MySQLdb()


def database(name):
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": name,
        "USER": "root",
        "HOST": os.environ["SOCKET"],
        "TEST": {"NAME": name, "CHARSET": "utf8mb4", "COLLATION": "utf8mb4_general_ci"},
    }


DATABASES = {"default": database("django"), "other": database("django_other")}
SECRET_KEY = "none"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "outcomes.Runner"
