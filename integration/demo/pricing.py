"""The demo's pricing service: what a tenant pays for its orders, over HTTP, by its price list in a SQLite database.

    pricing.py DATABASE PORT
    POST /price?tenant=acme     [[article, quantity, months], ...] -> [cents, ...]
    GET /health                 "ok"

asyncio serves the requests (aiohttp); database and pricing work runs in threads. What happens inside calculate_discounts is
in no span: that is the hole that a waterfall shows and a flame graph fills. One tenant has 40,000 orders, and somebody
loops over them. `tracing` is the one module that differs between own/ and otel/.
"""
import asyncio
import json
import sqlite3
import sys
import threading

from aiohttp import web

import tracing

TENANTS = {"acme": 40_000, "globex": 300, "initech": 240, "umbrella": 180, "hooli": 120}
# Two hundred rules have come together over the years: (what it looks at, from, percent off).
RULES = [(("quantity", "months")[i % 2], 5 + i * 2 % 130, 1 + i % 15) for i in range(200)]
MAX_BODY_BYTES = 16 << 20

_local = threading.local()


def make_database(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE prices(tenant TEXT, article INTEGER, cents INTEGER)")
    for tenant, n in TENANTS.items():
        db.executemany("INSERT INTO prices VALUES(?,?,?)", ((tenant, i, 100 + i * 37 % 9000) for i in range(n)))
    db.execute("CREATE INDEX prices_tenant ON prices(tenant)")
    db.commit()
    db.close()


def load_prices(path, tenant):
    with tracing.part("SELECT prices"):
        if not hasattr(_local, "db"):
            _local.db = sqlite3.connect(path)
        return dict(_local.db.execute("SELECT article, cents FROM prices WHERE tenant = ?", (tenant,)))


def calculate_discounts(orders):
    """Nobody put a span around this."""
    discounts = []
    for _, quantity, months in orders:
        best = 0
        for field, threshold, percent in RULES:
            if (quantity if field == "quantity" else months) >= threshold and percent > best:
                best = percent
        discounts.append(best)
    return discounts


def price(orders, prices):
    with tracing.part("price orders"):
        discounts = calculate_discounts(orders)
        return [quantity * prices[article] * (100 - discount) // 100
                for (article, quantity, _), discount in zip(orders, discounts)]


async def answer(request):
    # Before the scope: asyncio reads a connection ever after in the context in which its transport last resumed.
    body = await request.text()
    with tracing.request("POST /price", request.headers):
        orders = json.loads(body)
        prices = await asyncio.to_thread(load_prices, request.app["database"], request.query["tenant"])
        return web.json_response(await asyncio.to_thread(price, orders, prices))


async def health(_request):
    return web.Response(text="ok")


def main():
    database, port = sys.argv[1], int(sys.argv[2])
    make_database(database)
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app["database"] = database
    app.add_routes([web.post("/price", answer), web.get("/health", health)])
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main()
