"""The demo's service: quotes for the orders of a tenant, over HTTP, from a SQLite database.

    GET /quote?tenant=acme      the price of all the tenant's open orders, as JSON
    GET /health                 "ok"

asyncio serves the requests (aiohttp); database and pricing work runs in threads. Every request is a scope, as
OpenTelemetry would make it; what happens inside calculate_discounts is in no span: that is the hole that a waterfall
shows and a flame graph fills. One tenant has 40,000 orders, and somebody loops over them.
"""
import asyncio
import sqlite3
import sys
import threading

from aiohttp import web

import dovetail

TENANTS = {"acme": 40_000, "globex": 300, "initech": 240, "umbrella": 180, "hooli": 120}
# Two hundred rules have come together over the years: (what it looks at, from, percent off).
RULES = [(("quantity", "months")[i % 2], 5 + i * 2 % 130, 1 + i % 15) for i in range(200)]

_local = threading.local()


def make_database(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE orders(tenant TEXT, id INTEGER, quantity INTEGER, months INTEGER, cents INTEGER)")
    for tenant, n in TENANTS.items():
        rows = ((tenant, i, i * 7 % 140, i * 13 % 72, 100 + i * 37 % 9000) for i in range(n))
        db.executemany("INSERT INTO orders VALUES(?,?,?,?,?)", rows)
    db.execute("CREATE INDEX orders_tenant ON orders(tenant)")
    db.commit()
    db.close()


def load_orders(path, tenant):
    with dovetail.scope("SELECT orders"):
        if not hasattr(_local, "db"):
            _local.db = sqlite3.connect(path)
        return _local.db.execute("SELECT id, quantity, months, cents FROM orders WHERE tenant = ?", (tenant,)).fetchall()


def calculate_discounts(orders):
    """Nobody put a span around this."""
    discounts = {}
    for number, quantity, months, cents in orders:
        best = 0
        for field, threshold, percent in RULES:
            if (quantity if field == "quantity" else months) >= threshold and percent > best:
                best = percent
        discounts[number] = cents * best // 100
    return discounts


def price(orders):
    with dovetail.scope("price orders"):
        discounts = calculate_discounts(orders)
        return sum(quantity * cents - discounts[number] for number, quantity, _, cents in orders)


async def quote(request):
    tenant = request.query.get("tenant", "")
    with dovetail.scope("GET /quote", traceparent=request.headers.get("traceparent")):
        orders = await asyncio.to_thread(load_orders, request.app["database"], tenant)
        dovetail.label(tenant=tenant)  # learned late: counts for the whole scope
        total = await asyncio.to_thread(price, orders)
        return web.json_response({"tenant": tenant, "orders": len(orders), "cents": total})


async def health(_request):
    return web.Response(text="ok")


def main():
    database, port = sys.argv[1], int(sys.argv[2])
    make_database(database)
    app = web.Application()
    app["database"] = database
    app.add_routes([web.get("/quote", quote), web.get("/health", health)])
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main()
