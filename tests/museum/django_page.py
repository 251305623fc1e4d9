# SPDX-License-Identifier: MIT
# Django's development server with a page of 400 bytes. Usage: django_page.py runserver --noreload PORT
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpResponse
from django.urls import path

settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="x", ALLOWED_HOSTS=["*"],
                   MIDDLEWARE=["django.middleware.common.CommonMiddleware"])
urlpatterns = [path("page.html", lambda request: HttpResponse("x" * 400))]
execute_from_command_line(sys.argv)
