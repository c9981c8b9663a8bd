import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { ConnectionLimit } from './connection-limit.ts';
import { limitConnections } from './http-connections.ts';

const ends: (() => unknown)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

interface TestListener {
  readonly limit: ConnectionLimit;
  /** Opens a connection, sends these bytes, and waits until the listener has accepted it. */
  client(bytes?: string): Promise<TestClient>;
}

interface TestClient {
  readonly socket: Socket;
  readonly received: () => string;
  readonly isClosed: () => boolean;
}

async function listen(
  options: { most: number; requestMs?: number; answerMs?: number },
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<TestListener> {
  const limit = new ConnectionLimit(options);
  const server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 }, answer);
  let accepted = 0;
  limitConnections(server, limit);
  server.on('connection', () => accepted++);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(
    () => server.close(),
    () => limit.closeAll(),
  );
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const client = async (bytes = ''): Promise<TestClient> => {
    const before = accepted;
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    ends.push(() => socket.destroy());
    let [text, closed] = ['', false];
    socket.setEncoding('latin1').on('data', (part: string) => (text += part));
    socket.on('error', () => undefined).once('close', () => (closed = true));
    await expect.poll(() => accepted, { interval: 2 }).toBe(before + 1);
    return { socket, received: () => text, isClosed: () => closed };
  };
  return { limit, client };
}

const request = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

it.each([
  ['nothing', ''],
  ['a part of a request', 'GET / HTTP/1.1\r\nHost:'],
  ['a whole request, and nothing after its answer', request],
  ['a request without its body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n'],
])('closes a connection within 2 s that has sent %s', async (_, bytes) => {
  const { client, limit } = await listen({ most: 4 }, (_request, response) => response.end('well'));
  const beganMs = performance.now();
  const { isClosed } = await client(bytes);
  await expect.poll(isClosed, { interval: 10 }).toBe(true);
  expect(performance.now() - beganMs).toBeGreaterThan(1_000); // a connection between two requests stays open for a moment
  expect(performance.now() - beganMs).toBeLessThan(4_500); // on a busy host it may be late; Node itself closes after 5 s
  expect(limit.size).toBe(0);
});

it('does not count bytes as progress: only a complete request', async () => {
  const { client } = await listen({ most: 4, requestMs: 100 }, (_request, response) => response.end());
  const { socket, isClosed } = await client('GET / HTTP/1.1\r\n');
  const timer = setInterval(() => socket.write('a: b\r\n'), 5);
  await expect.poll(isClosed).toBe(true);
  clearInterval(timer);
});

it('closes the oldest connection without a request at the limit, and answers the newest', async () => {
  const { client, limit } = await listen({ most: 3, requestMs: 60_000 }, (_request, response) => response.end('well'));
  const [first, second, third] = [await client(), await client(), await client()];
  const newest = await client(request);
  await expect.poll(newest.received).toContain('well');
  await expect.poll(first.isClosed).toBe(true);
  expect([second.isClosed(), third.isClosed(), limit.size]).toEqual([false, false, 3]);
});

it('keeps connections that wait for the agent, neither timed out nor evicted', async () => {
  const answers: ServerResponse[] = [];
  const { client } = await listen({ most: 2, requestMs: 20, answerMs: 20 }, (_request, response) => answers.push(response));
  const waiting = [await client(request), await client(request)];
  await expect.poll(() => answers.length).toBe(2);
  const refused = await client(request);
  await expect.poll(refused.isClosed).toBe(true);
  for (const response of answers) response.end('well');
  for (const { received } of waiting) await expect.poll(received).toContain('well');
});

it('closes a client that does not read its answer, in time and at the limit', async () => {
  const large = 'x'.repeat(50_000_000);
  const { client, limit } = await listen({ most: 1, answerMs: 300 }, ({ url }, response) =>
    response.end(url === '/small' ? 'well' : large),
  );
  const slow = await client(request);
  slow.socket.pause();
  const newest = await client('GET /small HTTP/1.1\r\nHost: a\r\n\r\n');
  await expect.poll(newest.received).toContain('well');
  const alone = await client(request);
  alone.socket.pause();
  await expect.poll(() => limit.size).toBe(0);
});
