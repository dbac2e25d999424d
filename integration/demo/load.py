"""The demo's users: N requests for mixed tenants over a few connections, each with a traceparent of its own.

    load.py PORT REQUESTS       prints one line: requests, failures, slowest with its trace id
"""
import http.client
import random
import sys
import threading
import time

SMALL = ["globex", "initech", "umbrella", "hooli"]


def requests(n, seed=7):
    rng = random.Random(seed)
    for i in range(n):
        tenant = "acme" if i % 40 == 20 else rng.choice(SMALL)
        yield tenant, f"{rng.getrandbits(128) | 1:032x}", f"{rng.getrandbits(64) | 1:016x}"


def worker(port, todo, lock, results):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        with lock:
            job = next(todo, None)
        if job is None:
            return
        tenant, trace, span = job
        begin = time.monotonic()
        connection.request("GET", f"/quote?tenant={tenant}", headers={"traceparent": f"00-{trace}-{span}-01"})
        response = connection.getresponse()
        response.read()
        results.append((time.monotonic() - begin, response.status, tenant, trace))


def wait_until_up(port):
    for _ in range(200):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.05)
    sys.exit("load: the service did not come up")


def main():
    port, n = int(sys.argv[1]), int(sys.argv[2])
    wait_until_up(port)
    todo, lock, results = requests(n), threading.Lock(), []
    threads = [threading.Thread(target=worker, args=(port, todo, lock, results)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    failed = sum(status != 200 for _, status, _, _ in results)
    slowest = max(results)
    print(f"{len(results)} requests, {failed} failed; the slowest took {slowest[0] * 1000:.0f} ms"
          f" (tenant {slowest[2]}, trace {slowest[3]})")
    if failed or len(results) != n:
        sys.exit(1)


if __name__ == "__main__":
    main()
