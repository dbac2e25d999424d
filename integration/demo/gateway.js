/*
 * The demo's gateway: a tenant's quote as CSV, from what the order service knows.
 *
 *     node gateway.js PORT ORDERS_PORT
 *     GET /quote?tenant=acme     CSV; the header "traceparent" names the request's trace
 *     GET /health                "ok"
 *
 * It is where a request's trace begins and its tenant is known. `tracing` is the one module that differs between own/ and otel/.
 */
'use strict';

const http = require('node:http');
const tracing = require('tracing');

const [port, ordersPort] = process.argv.slice(2).map(Number);
const agent = new http.Agent({keepAlive: true});
const money = new Intl.NumberFormat('en', {style: 'currency', currency: 'EUR'});

function ask(path) {
  return new Promise((done, failed) => {
    const request = http.get({host: '127.0.0.1', port: ordersPort, path, agent, headers: tracing.headers()}, response => {
      const parts = [];
      response.on('data', part => parts.push(part));
      response.on('error', failed);
      response.on('end', () => (response.statusCode === 200 ? done(Buffer.concat(parts).toString())
        : failed(new Error(`orders: ${response.statusCode}`))));
    });
    request.on('error', failed);
  });
}

function render(orders) {
  let sum = 0;
  const lines = orders.map(({id, depot, cents}) => {
    sum += cents;
    return `${id},${depot},"${money.format(cents / 100)}"`;
  });
  return `order,depot,price\n${lines.join('\n')}\nall,,"${money.format(sum / 100)}"\n`;
}

function quote(request, response, tenant) {
  return tracing.request('GET /quote', request.headers, tenant, async () => {
    const orders = JSON.parse(await ask(`/orders?tenant=${encodeURIComponent(tenant)}`));
    response.writeHead(200, {'content-type': 'text/csv', ...tracing.headers()});
    response.end(render(orders));
  });
}

async function serve(request, response) {
  const url = new URL(request.url, 'http://gateway');
  if (url.pathname === '/health') return response.end('ok');
  try {
    await quote(request, response, url.searchParams.get('tenant'));
  } catch (error) {
    console.error(error);
    response.writeHead(502).end(String(error));
  }
}

http.createServer(serve).listen(port, '127.0.0.1');
