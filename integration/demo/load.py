"""The demo's users: N requests for mixed tenants over a few connections.

    load.py REQUESTS GATEWAY_PORT [PORT...]     waits until all ports are served; prints requests, failures, the slowest with
                                                its trace id, and what time the others took
"""
import http.client
import random
import sys
import threading
import time

SMALL = ["globex", "initech", "umbrella", "hooli"]
PATIENCE_S = 60


def tenants(n, seed=7):
    rng = random.Random(seed)
    for i in range(n):
        yield "acme" if i % 40 == 20 else rng.choice(SMALL)


def worker(port, todo, lock, results):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        with lock:
            tenant = next(todo, None)
        if tenant is None:
            return
        begin = time.monotonic()
        connection.request("GET", f"/quote?tenant={tenant}")
        response = connection.getresponse()
        response.read()
        trace = response.getheader("traceparent", "--").split("-")[1]
        results.append((time.monotonic() - begin, response.status, tenant, trace))


def is_up(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def wait_until_up(ports):
    deadline = time.monotonic() + PATIENCE_S
    for port in ports:
        while not is_up(port):
            if time.monotonic() > deadline:
                sys.exit("load: the services did not come up")
            time.sleep(0.05)


def main():
    n, ports = int(sys.argv[1]), [int(port) for port in sys.argv[2:]]
    wait_until_up(ports)
    todo, lock, results = tenants(n), threading.Lock(), []
    threads = [threading.Thread(target=worker, args=(ports[0], todo, lock, results)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    failed = sum(status != 200 for _, status, _, _ in results) + n - len(results)
    slowest = max(results)
    print(f"{len(results)} requests, {failed} failed; the slowest took {slowest[0] * 1000:.0f} ms"
          f" (tenant {slowest[2]}, trace {slowest[3]})")
    small = sorted(seconds * 1000 for seconds, _, tenant, _ in results if tenant in SMALL)
    print(f"of the small tenants' requests half took up to {small[len(small) // 2]:.1f} ms, 99% up to"
          f" {small[len(small) * 99 // 100]:.1f} ms")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
