# SPDX-License-Identifier: MIT
"""The application of the soak: GET /item/N reads a row from PostgreSQL, POST /order writes one and publishes a message. Run
as a program, it is the consumer of the messages."""
import threading
import paho.mqtt.client as mqtt
import psycopg2
import redis

counters = redis.Redis("127.0.0.1", retry_on_timeout=True)
local = threading.local()


class Broker:
    """A connection to mosquitto, made at the first message of a process."""
    lock, client = threading.Lock(), None

    def publish(self, text):
        with self.lock:
            if self.client is None:
                self.client = mqtt.Client()
                self.client.reconnect_delay_set(1, 1)
                self.client.connect("127.0.0.1")
                self.client.loop_start()
        self.client.publish("orders", text, qos=1).wait_for_publish(5)


broker = Broker()


def query(text, *values):
    if getattr(local, "database", None) is None or local.database.closed:
        local.database = psycopg2.connect(host="127.0.0.1", user="postgres")
        local.database.autocommit = True
    with local.database.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall()


def answer(environ, start_response):
    if environ["REQUEST_METHOD"] == "POST":
        size = len(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        query("insert into orders (size) values (%s) returning id", size)
        counters.incr("orders")
        broker.publish(str(size))
        body = b"%d" % size
    else:
        number = int(environ["PATH_INFO"].rsplit("/", 1)[1])
        counters.incr("reads")
        body = b"%d:%s" % (number, query("select text from item where id = %s", number)[0][0].encode())
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    consumer = mqtt.Client()
    consumer.reconnect_delay_set(1, 1)
    consumer.on_connect = lambda client, *rest: client.subscribe("orders", qos=1)
    consumer.on_message = lambda *rest: counters.incr("delivered")
    consumer.connect("127.0.0.1")
    consumer.loop_forever(retry_first_connection=True)
