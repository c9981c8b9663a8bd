import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, resolve } from 'node:path';

const folder = resolve(import.meta.dirname, '../../dist/simulator');
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.txt': 'text/plain',
};

/** Serves `dist/simulator` below a path, as a host of static files does: no other header than the type. @returns its address */
export async function serveSimulator(): Promise<{ readonly url: string; close(): void }> {
  const server: Server = createServer(({ url = '/' }, response) => {
    const name = (url.split('?', 1)[0] ?? '').replace(/^\/tools\/simulator\//, '') || 'index.html';
    if (name.includes('/') || name.includes('..')) return void response.writeHead(404).end();
    try {
      response.writeHead(200, { 'content-type': types[extname(name)] ?? 'text/plain' }).end(readFileSync(join(folder, name)));
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/tools/simulator/`, close: () => void server.close() };
}
